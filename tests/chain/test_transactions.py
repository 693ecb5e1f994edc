"""Direct and gasless transactions end on the chain, once."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.chain.chain import make_account, transfer
from tests.chain.stack import wait_for

if TYPE_CHECKING:
    import httpx

    from tests.chain.chain import Chain
    from tests.chain.stack import RunningRelayer

WAIT = {"prefer": "respond-async, wait=60"}
# It has more digits than a floating-point number keeps.
AMOUNT = 2**200 + 1


async def test_direct_transaction_moves_tokens_once(
    api: httpx.AsyncClient, chain: Chain, relayer: RunningRelayer
) -> None:
    to = make_account().address
    chain.mint(relayer.account.address, AMOUNT)
    request = {"to": chain.token, "data": transfer(to, AMOUNT), "speed": "fast"}
    answer = await api.post("/v1/relay/direct", json=request, headers=WAIT)
    assert answer.status_code == 200
    found = answer.json()
    assert (found["type"], found["target"], found["status"]) == ("direct", "chain", "confirmed")
    assert found["confirmedAt"] is not None
    assert found["error_message"] is None
    assert found["result"]["hash"] == found["hash"]
    receipt = chain.ask("eth_getTransactionReceipt", found["hash"])
    assert (receipt["status"], receipt["to"]) == ("0x1", chain.token.lower())
    assert chain.count_tokens(to) == AMOUNT


async def test_gasless_transaction_moves_the_signers_tokens_once(
    api: httpx.AsyncClient, chain: Chain, relayer: RunningRelayer
) -> None:
    signer, to = make_account(), make_account().address
    chain.mint(signer.address, AMOUNT)
    request = chain.sign(signer, transfer(to, AMOUNT))
    answer = await api.post("/v1/relay/gasless", json=request, headers=WAIT)
    assert answer.status_code == 200
    found = answer.json()
    assert (found["type"], found["status"]) == ("gasless", "confirmed")
    receipt = chain.ask("eth_getTransactionReceipt", found["hash"])
    assert receipt["to"] == chain.forwarder.lower()
    assert receipt["from"] == relayer.account.address.lower()
    assert (chain.count_tokens(signer.address), chain.count_tokens(to)) == (0, AMOUNT)
    assert chain.count_wei(signer.address) == 0


async def test_value_of_more_than_64_bits_arrives_exactly(
    api: httpx.AsyncClient, chain: Chain
) -> None:
    to, wei = make_account().address, 2**70 + 1
    request = {"to": to, "data": "", "value": str(wei), "gas": "30000"}
    answer = await api.post("/v1/relay/direct", json=request, headers=WAIT)
    assert answer.json()["status"] == "confirmed"
    assert answer.json()["result"]["value"] == str(wei)
    assert chain.count_wei(to) == wei


@pytest.mark.parametrize("fields", [{"gasLimit": "200000"}, {}], ids=["mined", "estimated"])
async def test_reverted_transaction_fails(
    api: httpx.AsyncClient, chain: Chain, fields: dict[str, str]
) -> None:
    request = {"to": chain.token, "data": transfer(chain.forwarder, 2**255), **fields}
    answer = await api.post("/v1/relay/direct", json=request, headers=WAIT)
    found = answer.json()
    assert found["status"] == "failed"
    assert "revert" in found["error_message"]
    if fields:
        assert chain.ask("eth_getTransactionReceipt", found["hash"])["status"] == "0x0"


async def test_same_idempotency_key_sends_one_transaction(
    api: httpx.AsyncClient, chain: Chain, relayer: RunningRelayer
) -> None:
    to = make_account().address
    chain.mint(relayer.account.address, 2)
    headers = {**WAIT, "idempotency-key": str(uuid4())}
    request = {"to": chain.token, "data": transfer(to, 1)}
    first = await api.post("/v1/relay/direct", json=request, headers=headers)
    again = await api.post("/v1/relay/direct", json=request, headers=headers)
    assert first.json() == again.json()
    assert chain.count_tokens(to) == 1


async def test_permanent_error_fails_at_the_first_call(
    api: httpx.AsyncClient, chain: Chain, relayer: RunningRelayer
) -> None:
    before = await relayer.count_calls()
    async with relayer.wishing(refuse=[500, "insufficient funds for gas * price + value"]):
        request = {"to": chain.token, "data": "0x"}
        found = (await api.post("/v1/relay/direct", json=request, headers=WAIT)).json()
    assert found["status"] == "failed"
    assert "insufficient funds" in found["error_message"]
    assert await relayer.count_calls() == before + 1


async def test_other_errors_are_tried_again(
    api: httpx.AsyncClient, chain: Chain, relayer: RunningRelayer
) -> None:
    before = await relayer.count_calls()
    async with relayer.wishing(refuse=[503, "the service starts"]):
        request = {"to": chain.token, "data": "0x"}
        found = (await api.post("/v1/relay/direct", json=request, headers=WAIT)).json()
    assert found["status"] == "failed"
    assert "503" in found["error_message"]
    assert await relayer.count_calls() == before + 3


async def test_relayer_without_webhooks_is_asked_for_the_status(
    api: httpx.AsyncClient, chain: Chain, relayer: RunningRelayer
) -> None:
    to = make_account().address
    async with relayer.wishing(webhook_url=None):
        request = {"to": to, "data": "0x", "value": "7"}
        accepted = await api.post("/v1/relay/direct", json=request)
        assert accepted.status_code == 202
        assert accepted.json()["status"] == "pending"
        found = await wait_for(api, accepted.json()["transactionId"], "confirmed")
    assert chain.ask("eth_getTransactionReceipt", found["hash"])["status"] == "0x1"
    assert chain.count_wei(to) == 7
