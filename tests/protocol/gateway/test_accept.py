"""Requests are accepted at once, and refused for what is wrong with them."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.protocol.blocking import block, wait_for_blocked
from tests.protocol.gateway.world import Client, answers, statuses

if TYPE_CHECKING:
    import httpx

    from tests.protocol.gateway.world import World


def issues(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 400, answer.text
    found = answer.json()
    assert (found["statusCode"], found["error"]) == (400, "Bad Request")
    return {each["path"]: each["message"] for each in found["issues"]}


async def post(client: Client, target: str, body: bytes, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.http.post(f"/relay/{target}", content=body, headers=named)


async def test_request_is_accepted_before_it_is_sent(client: Client) -> None:
    name = f"hold-{uuid4()}"
    answer = await client.send("plain", answers({"hold": name}))
    assert answer.status_code == 202
    shown = answer.json()
    assert set(shown) == {"transactionId", "hash", "status", "createdAt"}
    assert (shown["hash"], shown["status"]) == (None, "pending")
    transaction_id = str(UUID(shown["transactionId"]))
    assert answer.headers["location"] == f"/api/v1/relay/status/{transaction_id}"
    assert int(answer.headers["retry-after"]) > 0
    pending = await client.status(transaction_id)
    assert pending == {
        "transactionId": transaction_id,
        "type": "plain",
        "target": "plain",
        "status": "pending",
        "hash": None,
        "createdAt": shown["createdAt"],
        "confirmedAt": None,
        "result": None,
        "error_message": None,
    }
    await client.release(name)
    assert (await client.until(transaction_id, "success"))["createdAt"] == shown["createdAt"]


async def test_prefer_wait_returns_the_result(client: Client) -> None:
    body = {"n": 2**256 - 1}
    answer = await client.send("plain", answers({"body": body}), prefer="respond-async,wait=60")
    assert answer.status_code == 200
    assert answer.headers["preference-applied"] == "respond-async, wait=60"
    assert (answer.json()["status"], answer.json()["result"]) == ("success", body)
    again = await client.http.get(answer.headers["location"].removeprefix("/api/v1"))
    assert again.json() == answer.json()


async def test_prefer_wait_returns_202_when_the_time_is_over(client: Client) -> None:
    name = f"hold-{uuid4()}"
    answer = await client.send("plain", answers({"hold": name}), prefer="wait=1")
    assert answer.status_code == 202
    assert answer.json()["status"] == "pending"
    assert answer.headers["preference-applied"] == "respond-async, wait=1"
    await client.release(name)
    await client.until(answer.json()["transactionId"], "success")


@pytest.mark.parametrize("prefer", ["respond-async", "wait=0", "wait=x", "handling=lenient"])
async def test_preference_without_a_time_does_not_wait(client: Client, prefer: str) -> None:
    answer = await client.send("plain", prefer=prefer)
    assert answer.status_code == 202
    assert "preference-applied" not in answer.headers


async def test_body_is_sent_as_it_is(client: Client) -> None:
    body = b' {"amount": 1.10, "big": 115792089237316195423570985008687907853269984665640564039457,\n"n":1E3, "a":1, "a":2}'
    answer = await post(client, "plain", body)
    [call] = await client.calls("plain", 1, key=answer.json()["transactionId"])
    assert call["body"].encode().strip() == body.strip()
    assert call["headers"]["content-type"] == "application/json"


# What is refused.


async def test_every_invalid_field_is_named(client: Client) -> None:
    found = issues(
        await client.send("strict", {"to": "A1", "amount": 0, "items": ["a", 1], "more": True})
    )
    assert set(found) == {"to", "amount", "items.1", ""}
    assert "more" in found[""]
    assert "1" in found["items.1"]


async def test_missing_fields_are_named(client: Client) -> None:
    answer = await client.send("strict", {"items": []})
    messages = [each["message"] for each in answer.json()["issues"]]
    assert len(messages) == 2
    assert any("to" in message for message in messages)
    assert any("amount" in message for message in messages)


async def test_request_that_matches_its_schema_is_sent(client: Client) -> None:
    request = {"to": "ada", "amount": 10**40}
    assert (await client.result("strict", request))["status"] == "success"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" \n",
        b"{",
        b"{'a': 1}",
        b'{"a": NaN}',
        b"[Infinity]",
        b'{"a": 1} x',
        b"\xff\xfe",
        b'"\xed\xa0\x80"',
        b"\xef\xbb\xbf{}",
        b'"\x00"',
        b"[" * 100_000,
        b"[" * 50_000 + b"]" * 50_000,
        b"9" * 5000,
        rb'"\ud800"',
        rb'{"\udc00x": 1}',
    ],
    ids=range(16),
)
async def test_body_that_is_not_json_is_refused(client: Client, body: bytes) -> None:
    answer = await post(client, "plain", body)
    assert answer.status_code == 400, answer.text[:300]
    assert answer.json()["statusCode"] == 400


@pytest.mark.parametrize("depth", [100, 400, 900])
async def test_nested_request_is_sent_or_refused(client: Client, depth: int) -> None:
    answer = await post(client, "plain", b"[" * depth + b"]" * depth, prefer="wait=60")
    assert answer.status_code in {200, 400}, answer.text[:300]
    if answer.status_code == 200:
        assert answer.json()["status"] == "success"


@pytest.mark.parametrize("body", [rb'"\u0000"', rb'{"\u0000": 1}', '"\N{SNOWMAN}"'.encode()])
async def test_unusual_text_is_sent_as_it_is(client: Client, body: bytes) -> None:
    answer = await post(client, "plain", body, prefer="wait=60")
    assert answer.status_code == 200, answer.text
    [call] = await client.calls("plain", 1, key=answer.json()["transactionId"])
    assert call["body"].encode() == body


async def test_body_that_is_too_large_is_refused(client: Client) -> None:
    answer = await post(client, "plain", b'"' + b"x" * 20_000_000 + b'"')
    assert answer.status_code == 413
    assert answer.json()["error"] == HTTPStatus.REQUEST_ENTITY_TOO_LARGE.phrase


async def test_unknown_target_is_named(client: Client) -> None:
    answer = await post(client, "nothing", b"{")
    assert answer.status_code == 404
    assert '"nothing"' in answer.json()["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"idempotency_key": "k" * 256},
        {"webhook_url": "http://127.0.0.1:1/elsewhere"},
        {"webhook_url": "ftp://x"},
        {"webhook_url": "http://[::1"},
        {"webhook_url": "x" * 3000},
    ],
    ids=["long-key", "elsewhere", "scheme", "no-url", "long"],
)
async def test_headers_that_are_wrong_are_refused(client: Client, headers: dict[str, str]) -> None:
    answer = await client.send("plain", **headers)
    assert answer.status_code == 400
    assert answer.json()["message"]


@pytest.mark.parametrize(
    "url",
    [
        "{t}/hooks/../x",
        "{t}/hooksx",
        "{t}.evil.example/hooks/",
        "{u}/hooks/1",
        "{t}/hooks/%2e%2e/x",
    ],
)
async def test_webhooks_go_nowhere_else_than_allowed(client: Client, url: str) -> None:
    other = client.target.replace("//", "//user:pass@")
    answer = await client.send("plain", webhook_url=url.format(t=client.target, u=other))
    assert answer.status_code == 400
    assert "callback_allowed" in answer.json()["message"]


async def test_checks_come_in_order(client: Client, world: World) -> None:
    """Each request has all faults from one on: the first of them is told."""
    strict = b'{"to": 1, "amount": 2}'
    hook, key = {"webhook_url": "http://elsewhere.example"}, {"idempotency_key": "k" * 300}
    async with Client(world.server.url, world.target, None) as stranger:
        answer = await post(stranger, "nothing", b"{", **hook, **key)
        assert answer.status_code == 401
    read = {"X-API-KEY": world.keys["read"]}
    assert (await post(client, "nothing", b"{", **hook, **key, **read)).status_code == 403
    assert (await post(client, "nothing", b"{", **hook, **key)).status_code == 404
    for body, headers, word in (
        (b"\xff", {**hook, **key}, "UTF-8"),
        (b"{", {**hook, **key}, "Idempotency-Key"),
        (b"{", hook, "JSON"),
        (strict, hook, "callback_allowed"),
        (strict, {}, "to: "),
    ):
        answer = await post(client, "strict", body, **headers)
        assert answer.status_code == 400
        assert word in answer.json()["message"]


# Idempotency keys.


async def test_same_key_and_body_return_the_first_transaction(client: Client) -> None:
    key = str(uuid4())
    first = await client.send("plain", {"a": 1}, idempotency_key=key)
    await client.until(first.json()["transactionId"], "success")
    again = await client.send("plain", {"a": 1}, idempotency_key=key)
    assert (again.status_code, again.json()) == (202, first.json())
    assert again.headers["location"] == first.headers["location"]
    [_] = await client.calls("plain", 1, key=first.json()["transactionId"])


async def test_same_key_with_another_request_is_refused(client: Client) -> None:
    key = str(uuid4())
    await client.accept("plain", {"a": 1}, idempotency_key=key)
    hook = f"{client.target}/hooks/{key}"
    for target, body, more in (
        ("plain", {"a": 2}, {}),
        ("again", {"a": 1}, {}),
        ("plain", {"a": 1}, {"webhook_url": hook}),
    ):
        answer = await client.send(target, body, idempotency_key=key, **more)
        assert answer.status_code == 422
        assert answer.json()["error"] == "Unprocessable Entity"


async def test_keys_belong_to_the_api_key_that_sent_them(client: Client, world: World) -> None:
    key = str(uuid4())
    mine = await client.accept("plain", {"a": 1}, idempotency_key=key)
    async with Client(world.server.url, world.target, world.keys["admin"]) as other:
        assert await other.accept("plain", {"a": 2}, idempotency_key=key) != mine


async def test_refused_request_does_not_use_up_its_key(client: Client) -> None:
    key = str(uuid4())
    assert (await client.send("strict", {}, idempotency_key=key)).status_code == 400
    await client.accept("strict", {"to": "ada", "amount": 1}, idempotency_key=key)


async def test_key_that_is_being_stored_is_refused_until_then(client: Client, world: World) -> None:
    key = str(uuid4())
    async with block(world.dsn, "gateway_key"):
        first = asyncio.ensure_future(client.send("plain", {"a": 1}, idempotency_key=key))
        await wait_for_blocked(world.dsn)
        second = await client.send("plain", {"a": 1}, idempotency_key=key)
        assert second.status_code == 409
        assert not first.done()
    assert (await first).status_code == 202
    again = await client.send("plain", {"a": 1}, idempotency_key=key)
    assert again.json() == (await first).json()


async def test_of_concurrent_requests_with_one_key_one_is_sent(client: Client) -> None:
    key = str(uuid4())
    found = await asyncio.gather(
        *(client.send("plain", {"a": 1}, idempotency_key=key) for _ in range(30))
    )
    accepted = {each.json()["transactionId"] for each in found if each.status_code == 202}
    assert len(accepted) == 1
    assert {each.status_code for each in found} <= {202, 409}


async def test_key_with_a_wait_returns_the_first_result(client: Client) -> None:
    key = str(uuid4())
    first = await client.result("plain", {"a": 1}, idempotency_key=key)
    assert await client.result("plain", {"a": 1}, idempotency_key=key) == first


# Formats.


async def test_stored_message_and_record_have_the_documented_form(
    client: Client, world: World
) -> None:
    name = f"hold-{uuid4()}"
    transaction_id = await client.accept("plain", answers({"hold": name}))
    await client.calls("plain", 1, key=transaction_id)
    connection = await asyncpg.connect(world.dsn)
    try:
        body = await connection.fetchval(
            "select body::text from laneway.message where body::text like $1 limit 1",
            f"%{transaction_id}%",
        )
    finally:
        await connection.close()
    message: dict[str, Any] = json.loads(body)
    assert list(message) == ["messageId", "transactionId", "type", "request", "timestamp"]
    UUID(message["messageId"])
    assert message["transactionId"] == transaction_id
    assert message["type"] == "plain"
    assert message["request"] == answers({"hold": name})
    assert message["timestamp"].endswith("Z")
    assert len(message["timestamp"]) == len("2026-01-06T12:34:56.789Z")
    await client.release(name)
    await client.until(transaction_id, "success")


async def test_retries_keep_one_transaction(client: Client) -> None:
    done = await client.result("plain", answers(*statuses(503, 503, 200)))
    assert done["status"] == "success"
    assert len(await client.calls("plain", 3, key=done["transactionId"])) == 3
