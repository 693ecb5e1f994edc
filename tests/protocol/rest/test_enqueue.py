"""POST /queue/message and /queue/batch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.rest.calls import TOO_LARGE, add, dequeue, issues

if TYPE_CHECKING:
    import httpx


async def test_enqueue_returns_the_id_and_queue(api: httpx.AsyncClient, queue: str) -> None:
    answer = await api.post(
        "/queue/message", json={"type": "mail", "payload": {"to": "ada"}, "queue": queue}
    )
    assert answer.status_code == 201
    body = answer.json()
    assert body == {"message": "Message added successfully", "id": body["id"], "queue": queue}
    assert (await dequeue(api, queue))["id"] == body["id"]


async def test_message_without_a_queue_goes_to_the_default_queue(api: httpx.AsyncClient) -> None:
    answer = await api.post("/queue/message", json={"type": "mail", "payload": 1})
    assert answer.json()["queue"] == "default"


@pytest.mark.parametrize(
    "payload",
    [
        '"text"',
        "17",
        "-0.5e+10",
        "null",
        "true",
        "[]",
        '{"b": 1,   "a": 2, "b": 3}',
        '"\\u0000\\ud83d\\ude00 é"',
        "123456789012345678901234567890.10",
        '"' + "x" * 100_000 + '"',
    ],
    ids=["text", "int", "float", "null", "true", "array", "spacing", "escapes", "digits", "long"],
)
async def test_any_payload_comes_back_byte_for_byte(
    api: httpx.AsyncClient, queue: str, payload: str
) -> None:
    body = f'{{"type": "any", "queue": "{queue}", "payload": {payload} }}'
    answer = await api.post("/queue/message", content=body.encode())
    assert answer.status_code == 201, answer.text
    dequeued = await api.get("/queue/message", params={"queue": queue})
    assert f'"payload":{payload},"priority"' in dequeued.text
    assert dequeued.json()["payload_size"] == len(payload.encode())


async def test_every_field_of_enqueue_applies(api: httpx.AsyncClient, queue: str) -> None:
    message_id = await add(
        api, queue, priority=7, ackTimeout=12.5, maxAttempts=9, consumerId="x", unknown="ignored"
    )
    message = await dequeue(api, queue)
    assert message["id"] == message_id
    assert message["priority"] == 7
    assert message["ack_timeout_seconds"] == 12.5
    assert message["max_attempts"] == 9


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"type": None}, ("invalid_type", ["type"])),
        ({"type": 5}, ("invalid_type", ["type"])),
        ({"type": "x" * 256}, ("too_big", ["type"])),
        ({"priority": -1}, ("too_small", ["priority"])),
        ({"priority": 10}, ("too_big", ["priority"])),
        ({"priority": 10**30}, ("too_big", ["priority"])),
        ({"priority": 1.5}, ("invalid_type", ["priority"])),
        ({"priority": "1"}, ("invalid_type", ["priority"])),
        ({"ackTimeout": 0}, ("too_small", ["ackTimeout"])),
        ({"ackTimeout": 1e300}, ("too_big", ["ackTimeout"])),
        ({"maxAttempts": 0}, ("too_small", ["maxAttempts"])),
        ({"maxAttempts": 40_000}, ("too_big", ["maxAttempts"])),
        ({"delay": -1}, ("too_small", ["delay"])),
        ({"queue": ""}, ("too_small", ["queue"])),
        ({"queue": ["a"]}, ("invalid_type", ["queue"])),
        ({"dedupKey": ""}, ("too_small", ["dedupKey"])),
        ({"type": "a\0b"}, ("custom", ["type"])),
        ({"queue": "a\0b"}, ("custom", ["queue"])),
        ({"dedupKey": "a\0b"}, ("custom", ["dedupKey"])),
    ],
    ids=str,
)
async def test_bad_field_is_named(
    api: httpx.AsyncClient, queue: str, change: dict[str, Any], expected: tuple[str, list[str]]
) -> None:
    body = {"type": "job", "payload": 1, "queue": queue, **change}
    assert issues(await api.post("/queue/message", json=body)) == [expected]
    batch = [{"type": "job", "payload": 1, "queue": queue}, body]
    code, path = expected
    assert issues(await api.post("/queue/batch", json=batch)) == [(code, [1, *path])]
    answer = await api.get("/queue/message", params={"queue": queue})
    assert answer.status_code == 404


@pytest.mark.parametrize("field", ["type", "payload"])
async def test_missing_field_is_named(api: httpx.AsyncClient, field: str) -> None:
    body = {"type": "job", "payload": 1}
    del body[field]
    answer = await api.post("/queue/message", json=body)
    assert issues(answer) == [("invalid_type", [field])]
    assert answer.json()["error"]["issues"][0]["message"] == "Required"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"type":"a","payload":tru}',
        b'{"type":"a","payload":01}',
        b'{"type":"a","payload":"\\q"}',
        b'{"type":"a","payload":"\xff"}',
        b'{"type":"\xff","payload":1}',
        b'{"type":"a","payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"type":"a","payload":"\x01"}',
    ],
    ids=[
        "empty",
        "cut",
        "nonsense",
        "word",
        "number",
        "escape",
        "utf8 in payload",
        "utf8 in type",
        "deep",
        "control",
    ],
)
@pytest.mark.parametrize("path", ["/queue/message", "/queue/batch"])
async def test_malformed_body_is_refused(api: httpx.AsyncClient, path: str, body: bytes) -> None:
    if path.endswith("batch") and body:
        body = b"[" + body + b"]"
    answer = await api.post(path, content=body)
    assert answer.status_code == 400, answer.text
    assert answer.json() == {"message": "Malformed JSON in request body"}


async def test_missing_queue_is_named(api: httpx.AsyncClient) -> None:
    for name in ("nowhere", 'no "such" queue'):
        body = {"type": "a", "payload": 1, "queue": name}
        answer = await api.post("/queue/message", json=body)
        assert answer.status_code == 404
        assert answer.json() == {"message": f"Queue not found: {name}"}
        assert (await api.post("/queue/batch", json=[body])).status_code == 404


async def test_batch_keeps_order_and_every_field(api: httpx.AsyncClient, queue: str) -> None:
    batch = [{"type": "low", "payload": n, "queue": queue, "maxAttempts": n + 1} for n in range(5)]
    batch.append({"type": "high", "payload": "first", "queue": queue, "priority": 9})
    answer = await api.post("/queue/batch", json=batch)
    assert answer.status_code == 201
    assert answer.json()["message"] == "Batch processed: 6/6 messages enqueued"
    ids = answer.json()["ids"]
    dequeued = await api.get("/queue/messages/batch", params={"queue": queue, "count": 10})
    messages = dequeued.json()["messages"]
    assert [message["payload"] for message in messages] == ["first", 0, 1, 2, 3, 4]
    assert [message["id"] for message in messages] == [ids[5], *ids[:5]]
    assert [message["max_attempts"] for message in messages] == [3, 1, 2, 3, 4, 5]


async def test_batch_is_all_or_nothing(api: httpx.AsyncClient, queue: str) -> None:
    good = {"type": "a", "payload": 1, "queue": queue}
    answer = await api.post("/queue/batch", json=[good, {**good, "queue": "nowhere"}])
    assert answer.status_code == 404
    assert issues(await api.post("/queue/batch", json=[good, {"type": "a"}])) == [
        ("invalid_type", [1, "payload"])
    ]
    assert issues(await api.post("/queue/batch", json=[])) == [("too_small", [])]
    assert (await api.get("/queue/message", params={"queue": queue})).status_code == 404


async def test_too_large_message_is_413(api: httpx.AsyncClient, queue: str) -> None:
    body = {"type": "a", "payload": TOO_LARGE, "queue": queue}
    answer = await api.post("/queue/message", json=body)
    assert answer.status_code == 413
    assert "max_bytes" in answer.json()["message"]


async def test_concurrent_enqueues_all_arrive(api: httpx.AsyncClient, queue: str) -> None:
    ids = await asyncio.gather(*(add(api, queue, n) for n in range(60)))
    assert len(set(ids)) == 60
    dequeued = await api.get("/queue/messages/batch", params={"queue": queue, "count": 100})
    assert {message["payload"] for message in dequeued.json()["messages"]} == set(range(60))
