"""Targets report by signed webhooks what became of transactions."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.protocol.gateway.world import INBOUND, answers

if TYPE_CHECKING:
    import httpx

    from tests.protocol.gateway.world import Client

HEADERS = ("X-Signature", "X-Oz-Signature", "X-Webhook-Signature", "X-Hub-Signature-256")


def sign(body: bytes, secret: str = INBOUND[0]) -> str:
    return base64.b64encode(hmac.digest(secret.encode(), body, hashlib.sha256)).decode()


async def report(client: Client, target: str, body: dict[str, Any]) -> httpx.Response:
    text = json.dumps(body).encode()
    return await deliver(client, target, text, {"X-Signature": sign(text)})


async def deliver(
    client: Client, target: str, body: bytes, headers: dict[str, str]
) -> httpx.Response:
    return await client.http.post(f"/webhooks/{target}", content=body, headers=headers)


@pytest.fixture
async def submitted(client: Client) -> tuple[str, str]:
    """Return a transaction that the target works on, and the target's id for it."""
    upstream_id = str(uuid4())
    await client.script(f"jobs/{upstream_id}", {"status": 404})
    body = {"data": {"id": upstream_id, "state": "working"}}
    transaction_id = await client.accept("job", answers({"body": body}))
    await client.calls("job", 1, key=transaction_id)
    # The id is known once the call's result is recorded.
    notice = {"data": {"id": upstream_id, "state": "working"}}
    async with asyncio.timeout(60):
        while (await report(client, "job", notice)).status_code == 404:
            await asyncio.sleep(0.02)
    return transaction_id, upstream_id


def said(upstream_id: str, state: str, **more: Any) -> dict[str, Any]:
    return {"data": {"id": upstream_id, "state": state, **more}}


async def test_report_changes_the_status_at_once(
    client: Client, submitted: tuple[str, str]
) -> None:
    transaction_id, upstream_id = submitted
    assert (await client.status(transaction_id))["status"] == "pending"
    answer = await report(client, "job", said(upstream_id, "done", hash="0xa"))
    assert answer.status_code == 200
    assert answer.json() == {"transactionId": transaction_id, "status": "success"}
    found = await client.status(transaction_id)
    assert (found["status"], found["hash"]) == ("success", "0xa")


async def test_report_may_name_our_id(client: Client, submitted: tuple[str, str]) -> None:
    transaction_id, _ = submitted
    body = {"transactionId": transaction_id, "data": {"state": "broken", "why": "no funds"}}
    assert (await report(client, "job", body)).json()["status"] == "failed"
    assert (await client.status(transaction_id))["error_message"] == "no funds"


async def test_report_wakes_who_waits(client: Client) -> None:
    upstream_id = str(uuid4())
    await client.script(f"jobs/{upstream_id}", {"status": 404})
    first = answers({"body": said(upstream_id, "working")})
    waiting = asyncio.ensure_future(client.result("job", first))
    async with asyncio.timeout(60):
        while (await report(client, "job", said(upstream_id, "done"))).status_code == 404:
            await asyncio.sleep(0.02)
    assert (await waiting)["status"] == "success"


async def test_repeated_and_late_reports_change_nothing(
    client: Client, submitted: tuple[str, str]
) -> None:
    transaction_id, upstream_id = submitted
    await report(client, "job", said(upstream_id, "done", hash="0xa"))
    before = await client.status(transaction_id)
    for state in ("done", "working", "broken"):
        answer = await report(client, "job", said(upstream_id, state, why="late"))
        assert answer.status_code == 200
        assert answer.json()["status"] == "success"
    assert await client.status(transaction_id) == before


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("secret", INBOUND)
async def test_every_secret_and_header_counts(
    client: Client, submitted: tuple[str, str], header: str, secret: str
) -> None:
    body = json.dumps(said(submitted[1], "done")).encode()
    answer = await deliver(client, "job", body, {header: sign(body, secret)})
    assert answer.status_code == 200


async def test_hexadecimal_signature_counts(client: Client, submitted: tuple[str, str]) -> None:
    body = json.dumps(said(submitted[1], "done")).encode()
    digest = hmac.digest(INBOUND[0].encode(), body, hashlib.sha256).hex()
    answer = await deliver(client, "job", body, {"X-Hub-Signature-256": f"sha256={digest}"})
    assert answer.status_code == 200


@pytest.mark.parametrize("fault", ["body", "secret", "empty", "none", "text", "other-target"])
async def test_forged_report_is_refused(
    client: Client, submitted: tuple[str, str], fault: str
) -> None:
    transaction_id, upstream_id = submitted
    body = json.dumps(said(upstream_id, "done")).encode()
    signature, target, wanted = sign(body), "job", 401
    match fault:
        case "body":
            body = body.replace(b"done", b"broken")
        case "secret":
            signature = sign(body, "not-the-secret")
        case "empty":
            signature = sign(b"")
        case "text":
            signature = "\u00e4\u00f6"
        case "other-target":
            target, wanted = "plain", 400
    headers = {} if fault == "none" else {"X-Signature": signature}
    answer = await client.http.post(
        f"/webhooks/{target}",
        content=body,
        headers=[(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
    )
    assert answer.status_code == wanted, answer.text
    assert (await client.status(transaction_id))["status"] == "pending"


async def test_report_of_another_targets_transaction_is_refused(
    client: Client, submitted: tuple[str, str]
) -> None:
    body = {"transactionId": submitted[0], "status": "success"}
    assert (await report(client, "plain", body)).status_code == 404
    assert (await client.status(submitted[0]))["status"] == "pending"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b"\xff",
        b'{"data": {"state": "done"}}',
        b'{"data": {"id": "x"}}',
        b"[" * 100000,
        b'{"data": {"id": ["x"], "state": {"a": 1}}}',
    ],
    ids=range(9),
)
async def test_signed_report_that_says_nothing_is_refused(client: Client, body: bytes) -> None:
    answer = await deliver(client, "job", body, {"X-Signature": sign(body)})
    assert answer.status_code == 400, answer.text
    assert answer.json()["issues"]


async def test_report_of_something_unknown_is_refused(client: Client) -> None:
    answer = await report(client, "job", said(str(uuid4()), "done"))
    assert answer.status_code == 404
    assert (await report(client, "nothing", {})).status_code == 404
    body = {"transactionId": "no-uuid", "data": {"state": "done"}}
    assert (await report(client, "job", body)).status_code == 404


async def test_target_without_secrets_is_told(client: Client) -> None:
    answer = await report(client, "again", {"transactionId": str(uuid4()), "status": "success"})
    assert answer.status_code == 401
    assert "webhook_secrets" in answer.json()["message"]
