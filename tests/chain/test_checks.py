"""Requests that are refused before they are stored, in the order of their checks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.chain.chain import make_account, transfer
from tests.chain.stack import run_gateway, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.chain.chain import Chain
    from tests.chain.stack import RunningRelayer

PAST = int(time.time()) - 60


async def test_deadline_is_checked_first(api: httpx.AsyncClient, chain: Chain) -> None:
    request = chain.sign(make_account(), "0x", deadline=PAST, nonce=7)
    request["signature"] = "0x" + "00" * 65
    assert await refuse(api, request, 400) == "Transaction deadline expired"


async def test_nonce_is_checked_before_the_signature(api: httpx.AsyncClient, chain: Chain) -> None:
    request = chain.sign(make_account(), "0x", nonce=7)
    request["signature"] = "0x" + "00" * 65
    assert await refuse(api, request, 400) == "Invalid nonce: expected 0, got 7"


@pytest.mark.parametrize(
    "changed",
    [
        {"value": "1"},
        {"gas": "100001"},
        {"deadline": str(2**48 - 1)},
        {"data": "0x01"},
        {"to": "0x" + "11" * 20},
    ],
    ids=lambda changed: next(iter(changed)),
)
async def test_signature_covers_every_field(
    api: httpx.AsyncClient, chain: Chain, changed: dict[str, str]
) -> None:
    request = chain.sign(make_account(), "0x")
    request["request"] |= changed
    assert await refuse(api, request, 401) == "Invalid EIP-712 signature"


async def test_signer_must_be_the_sender(api: httpx.AsyncClient, chain: Chain) -> None:
    request = chain.sign(make_account(), "0x", **{"from": make_account().address})
    assert await refuse(api, request, 401) == "Invalid EIP-712 signature"


async def test_signature_has_one_form(api: httpx.AsyncClient, chain: Chain) -> None:
    """The contract refuses the others, which eth-account would accept."""
    request = chain.sign(make_account(), "0x")
    signature = bytes.fromhex(request["signature"][2:])
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    high = (order - int.from_bytes(signature[32:64])).to_bytes(32)
    for other in (
        signature[:32] + high + bytes([55 - signature[64]]),
        signature[:64] + bytes([signature[64] - 27]),
        b"\xff" * 64 + signature[64:],
        bytes(64) + signature[64:],
    ):
        request["signature"] = other.hex()
        assert await refuse(api, request, 401) == "Invalid EIP-712 signature"


async def test_unreachable_chain_is_503_after_the_deadline(
    database: str, chain: Chain, relayer: RunningRelayer, tmp_path: Path
) -> None:
    signer = make_account()
    options = {"rpc_url": "http://127.0.0.1:1"}
    async with (
        run_gateway(database, chain, [relayer], tmp_path, options=options) as server,
        server.client() as api,
    ):
        late = chain.sign(signer, "0x", deadline=PAST)
        assert await refuse(api, late, 400) == "Transaction deadline expired"
        answer = await api.post("/v1/relay/gasless", json=chain.sign(signer, "0x"))
        assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
        assert "cannot read the nonce from the chain" in answer.json()["message"]
        answer = await api.get(f"/v1/relay/gasless/nonce/{signer.address}")
        assert answer.status_code == 503


async def test_missing_contract_is_503(
    database: str, chain: Chain, relayer: RunningRelayer, tmp_path: Path
) -> None:
    options = {"forwarder_address": make_account().address}
    async with (
        run_gateway(database, chain, [relayer], tmp_path, options=options) as server,
        server.client() as api,
    ):
        answer = await api.get(f"/v1/relay/gasless/nonce/{make_account().address}")
        assert answer.status_code == 503
        assert "forwarder_address" in answer.json()["message"]


async def test_nonce_grows_with_each_executed_request(api: httpx.AsyncClient, chain: Chain) -> None:
    signer, to = make_account(), make_account().address
    chain.mint(signer.address, 1)
    place = f"/v1/relay/gasless/nonce/{signer.address}"
    assert (await api.get(place)).json() == {"nonce": "0"}
    request = chain.sign(signer, transfer(to, 1))
    accepted = await api.post("/v1/relay/gasless", json=request)
    await wait_for(api, accepted.json()["transactionId"], "confirmed")
    assert (await api.get(place)).json() == {"nonce": "1"}
    # The same request again is not sent.
    assert await refuse(api, request, 400) == "Invalid nonce: expected 1, got 0"
    assert chain.count_tokens(to) == 1


async def test_nonce_of_what_is_no_address_is_400(api: httpx.AsyncClient) -> None:
    answer = await api.get("/v1/relay/gasless/nonce/0x12")
    assert answer.status_code == 400
    assert [each["path"] for each in answer.json()["issues"]] == ["address"]


async def test_every_wrong_field_is_named(api: httpx.AsyncClient) -> None:
    body = {"to": "0x1", "data": "0x123", "value": "-1", "gas": 1, "speed": "slow", "gasPrice": "1"}
    answer = await api.post("/v1/relay/direct", json=body)
    assert answer.status_code == 400
    assert {each["path"] for each in answer.json()["issues"]} == set(body)
    inner = {"from": "x", "to": None, "value": "", "gas": "0x1", "nonce": "1.0", "deadline": "-"}
    answer = await api.post("/v1/relay/gasless", json={"request": inner})
    paths = {each["path"] for each in answer.json()["issues"]}
    assert paths == {*(f"request.{name}" for name in inner), "request.data", "signature"}


@pytest.mark.parametrize("type_", ["direct", "gasless"])
async def test_deeply_nested_request_is_400(api: httpx.AsyncClient, type_: str) -> None:
    """Packages for Ethereum raise Python's recursion limit, until it ends the process."""
    answer = await api.post(f"/v1/relay/{type_}", content="[" * 90_000 + "]" * 90_000)
    assert answer.status_code == 400
    assert (await api.get("/v1/relay/pool-status")).status_code == 200


async def refuse(api: httpx.AsyncClient, request: Any, status: int) -> str:
    """Return why the gateway refuses a gasless request."""
    answer = await api.post("/v1/relay/gasless", json=request)
    assert answer.status_code == status
    message: str = answer.json()["message"]
    return message
