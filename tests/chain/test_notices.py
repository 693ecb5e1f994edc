"""Webhooks of the relayer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.chain.chain import make_account
from tests.chain.stack import WEBHOOK_KEY, wait_for

if TYPE_CHECKING:
    import httpx

    from tests.chain.stack import RunningRelayer

PLACE = "/v1/webhooks/oz-relayer"


@pytest.fixture
async def confirmed(api: httpx.AsyncClient) -> Any:
    """Return a transaction that the relayer has told everything about."""
    request = {"to": make_account().address, "data": "0x", "value": "1"}
    accepted = await api.post("/v1/relay/direct", json=request)
    return await wait_for(api, accepted.json()["transactionId"], "confirmed")


async def test_repeated_webhooks_change_nothing(
    api: httpx.AsyncClient, relayer: RunningRelayer, confirmed: Any
) -> None:
    sent = [each for each in await relayer.list_notices() if confirmed["hash"] in each["body"]]
    statuses = [json.loads(each["body"])["payload"]["status"] for each in sent]
    assert statuses == ["submitted", "mined", "confirmed"]
    for notice in (*sent, *reversed(sent)):
        answer = await post(api, notice["body"].encode(), notice["signature"])
        assert answer.status_code == 200
        assert answer.json()["status"] == "confirmed"
    assert await load(api, confirmed) == confirmed


async def test_late_webhook_changes_nothing(
    api: httpx.AsyncClient, relayer: RunningRelayer, confirmed: Any
) -> None:
    """Also not the hash: a relayer gives a transaction another one when it raises the price."""
    payload = {**await find(relayer, confirmed), "status": "submitted", "hash": "0x" + "ab" * 32}
    answer = await post_signed(api, payload)
    assert (answer.status_code, answer.json()["status"]) == (200, "confirmed")
    assert await load(api, confirmed) == confirmed


async def test_tampered_webhook_is_401(
    api: httpx.AsyncClient, relayer: RunningRelayer, confirmed: Any
) -> None:
    notice = (await relayer.list_notices())[-1]
    tampered = notice["body"].replace("confirmed", "expired").encode()
    assert (await post(api, tampered, notice["signature"])).status_code == 401
    assert (await post(api, notice["body"].encode(), "AAAA")).status_code == 401
    assert (await api.post(PLACE, content=notice["body"])).status_code == 401
    assert await load(api, confirmed) == confirmed


async def test_webhook_about_an_unknown_transaction_is_404(api: httpx.AsyncClient) -> None:
    answer = await post_signed(api, {"id": str(uuid4()), "status": "mined", "hash": None})
    assert answer.status_code == 404


@pytest.mark.parametrize(
    "payload", [{"id": "1"}, {"id": "1", "status": "elsewhere"}, {"status": "mined"}, None, []]
)
async def test_webhook_about_nothing_is_400(api: httpx.AsyncClient, payload: Any) -> None:
    assert (await post_signed(api, payload)).status_code == 400


async def test_webhook_of_a_failure_tells_the_reason(
    api: httpx.AsyncClient, relayer: RunningRelayer
) -> None:
    async with relayer.wishing(held=True):
        request = {"to": make_account().address, "data": "0x", "value": "1"}
        accepted = await api.post("/v1/relay/direct", json=request)
        transaction_id = accepted.json()["transactionId"]
        # Only this one is not finished.
        data = await wait_for_open(relayer)
        payload = {
            "payload_type": "transaction_failure",
            "transaction": {**data, "status": "expired"},
            "failure_reason": "no block has it",
        }
        while (await post_signed(api, payload)).status_code == 404:
            # The id is not stored yet.
            pass
        found = await wait_for(api, transaction_id, "expired")
    assert found["error_message"] == "no block has it"


async def wait_for_open(relayer: RunningRelayer) -> Any:
    while True:
        for data in await relayer.list_transactions():
            if data["status"] == "pending":
                return data


async def find(relayer: RunningRelayer, confirmed: Any) -> Any:
    return next(
        each for each in await relayer.list_transactions() if each["hash"] == confirmed["hash"]
    )


async def load(api: httpx.AsyncClient, transaction: Any) -> Any:
    return (await api.get(f"/v1/relay/status/{transaction['transactionId']}")).json()


async def post_signed(api: httpx.AsyncClient, payload: Any) -> httpx.Response:
    notice = {"id": str(uuid4()), "event": "transaction_update", "payload": payload}
    body = json.dumps(notice).encode()
    digest = hmac.digest(WEBHOOK_KEY.encode(), body, hashlib.sha256)
    return await post(api, body, base64.b64encode(digest).decode())


async def post(api: httpx.AsyncClient, body: bytes, signature: str) -> httpx.Response:
    return await api.post(PLACE, content=body, headers={"x-signature": signature})
