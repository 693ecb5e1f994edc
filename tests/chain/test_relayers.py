"""Several relayers, and relayers that end in the middle of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chain.chain import make_account, transfer
from tests.chain.stack import run_gateway, run_relayer, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chain.chain import Chain


async def test_relayer_with_the_fewest_pending_transactions_is_called(
    database: str, chain: Chain, tmp_path: Path
) -> None:
    async with (
        run_relayer(chain, tmp_path, "first") as first,
        run_relayer(chain, tmp_path, "second") as second,
        run_gateway(database, chain, [first, second], tmp_path) as server,
        server.client() as api,
    ):
        await first.wish(held=True)
        for _ in range(5):
            await first.accept(make_account().address)
        for _ in range(3):
            request = {"to": make_account().address, "data": "0x", "value": "1"}
            accepted = await api.post("/v1/relay/direct", json=request)
            await wait_for(api, accepted.json()["transactionId"], "confirmed")
        assert (await first.count_calls(), await second.count_calls()) == (5, 3)
        (target,) = (await api.get("/v1/relay/pool-status")).json()["targets"]
        assert target["kind"] == "openzeppelin"
        assert target["urls"][0]["pending"] == 5


async def test_paused_relayer_is_not_called(database: str, chain: Chain, tmp_path: Path) -> None:
    async with (
        run_relayer(chain, tmp_path, "first") as first,
        run_relayer(chain, tmp_path, "second") as second,
        run_gateway(database, chain, [first, second], tmp_path) as server,
        server.client() as api,
    ):
        await first.wish(paused=True)
        await second.wish(held=True)
        await second.accept(make_account().address)
        (target,) = (await api.get("/v1/relay/pool-status")).json()["targets"]
        details = [(each["available"], each["detail"]) for each in target["urls"]]
        assert details == [(False, "the relayer is paused"), (True, None)]
        request = {"to": make_account().address, "data": "0x", "value": "1"}
        accepted = await api.post("/v1/relay/direct", json=request)
        await second.wish(held=False)
        await wait_for(api, accepted.json()["transactionId"], "confirmed")
        assert (await first.count_calls(), await second.count_calls()) == (0, 2)


async def test_lost_answer_fails_the_transaction_which_is_sent_once(
    database: str, chain: Chain, tmp_path: Path
) -> None:
    async with (
        run_relayer(chain, tmp_path) as relayer,
        run_gateway(database, chain, [relayer], tmp_path) as server,
        server.client() as api,
    ):
        to = make_account().address
        chain.mint(relayer.account.address, 2)
        await relayer.wish(die=True)
        request = {"to": chain.token, "data": transfer(to, 1)}
        accepted = await api.post("/v1/relay/direct", json=request)
        await relayer.wait_for_end()
        await relayer.start()
        found = await wait_for(api, accepted.json()["transactionId"], "failed")
        assert "not called again (redelivery is at-most-once)" in found["error_message"]
        # The next one arrives: the relayer has nothing else to do.
        request = {"to": chain.token, "data": transfer(to, 1)}
        accepted = await api.post("/v1/relay/direct", json=request)
        await wait_for(api, accepted.json()["transactionId"], "confirmed")
        assert chain.count_sent(relayer.account.address) == 2
        assert chain.count_tokens(to) == 2


async def test_lost_answer_is_looked_up_where_that_is_possible(
    database: str, chain: Chain, tmp_path: Path
) -> None:
    async with run_relayer(chain, tmp_path) as relayer:
        options = {"lookup_url": f"{relayer.url}/lookup/{{transaction_id}}"}
        settings = {"attempts": 100, "retry_cap_seconds": 0.5, "breaker_failures": 1000}
        async with (
            run_gateway(
                database, chain, [relayer], tmp_path, settings=settings, options=options
            ) as server,
            server.client() as api,
        ):
            to = make_account().address
            chain.mint(relayer.account.address, 2)
            await relayer.wish(die=True)
            request = {"to": chain.token, "data": transfer(to, 1)}
            accepted = await api.post("/v1/relay/direct", json=request)
            await relayer.wait_for_end()
            await relayer.start()
            found = await wait_for(api, accepted.json()["transactionId"], "confirmed")
            assert chain.ask("eth_getTransactionReceipt", found["hash"])["status"] == "0x1"
            assert chain.count_sent(relayer.account.address) == 1
            assert chain.count_tokens(to) == 1
