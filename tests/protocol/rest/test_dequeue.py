"""GET /queue/message and /queue/messages/batch."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.protocol.rest.calls import add, dequeue, issues

if TYPE_CHECKING:
    import httpx

    from tests.protocol.conftest import Shared

KEYS = {
    "id",
    "queue_name",
    "type",
    "payload",
    "priority",
    "status",
    "attempt_count",
    "max_attempts",
    "ack_timeout_seconds",
    "lock_token",
    "locked_until",
    "consumer_id",
    "created_at",
    "dequeued_at",
    "acknowledged_at",
    "last_error",
    "payload_size",
    "processing_started_at",
    "_stream_name",
    "_stream_id",
}


async def test_message_has_every_key(api: httpx.AsyncClient, queue: str) -> None:
    before = time.time()
    message_id = await add(api, queue, {"a": 1}, type="mail", priority=3)
    message = await dequeue(api, queue, consumerId="worker-1", ackTimeout=60)
    assert set(message) == KEYS
    assert message["id"] == message["_stream_id"] == message_id
    assert message["queue_name"] == queue
    assert message["type"] == "mail"
    assert message["payload"] == {"a": 1}
    assert message["priority"] == 3
    assert message["status"] == "processing"
    assert message["_stream_name"] == "queue_processing"
    assert message["attempt_count"] == 1
    assert message["max_attempts"] == 3
    # Whole, for languages that tell 60 from 60.0.
    assert repr(message["ack_timeout_seconds"]) == "60"
    assert message["consumer_id"] == "worker-1"
    assert message["acknowledged_at"] is None
    assert message["last_error"] is None
    assert before - 1 < message["created_at"] <= message["dequeued_at"] < time.time() + 1
    assert message["processing_started_at"] == message["dequeued_at"]
    until = datetime.fromisoformat(message["locked_until"])
    assert until.timestamp() == pytest.approx(message["dequeued_at"] + 60, abs=0.01)


async def test_empty_queue_is_404_at_once(api: httpx.AsyncClient, queue: str) -> None:
    answer = await api.get("/queue/message", params={"queue": queue})
    assert answer.status_code == 404
    assert answer.json() == {"message": "Message not found"}
    answer = await api.get("/queue/message", params={"queue": queue, "timeout": 0.05})
    assert answer.status_code == 404


async def test_missing_queue_is_named(api: httpx.AsyncClient) -> None:
    for path in ("/queue/message", "/queue/messages/batch?count=1"):
        answer = await api.get(path, params={"queue": "nowhere", "count": 1})
        assert answer.status_code == 404
        assert answer.json() == {"message": "Queue not found: nowhere"}


async def test_type_filter_selects_messages(api: httpx.AsyncClient, queue: str) -> None:
    await add(api, queue, 1, type="mail")
    await add(api, queue, 2, type="fax")
    assert (await dequeue(api, queue, type="fax"))["payload"] == 2
    answer = await api.get("/queue/message", params={"queue": queue, "type": "fax"})
    assert answer.status_code == 404


async def test_empty_batch_is_200(api: httpx.AsyncClient, queue: str) -> None:
    answer = await api.get("/queue/messages/batch", params={"queue": queue, "count": 5})
    assert answer.status_code == 200
    assert answer.json() == {"messages": [], "count": 0}


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, ("invalid_type", ["count"])),
        ({"count": 0}, ("too_small", ["count"])),
        ({"count": 101}, ("too_big", ["count"])),
        ({"count": "many"}, ("invalid_type", ["count"])),
        ({"count": 1, "timeout": -1}, ("too_small", ["timeout"])),
        ({"count": 1, "timeout": "soon"}, ("invalid_type", ["timeout"])),
        ({"count": 1, "timeout": "nan"}, ("too_small", ["timeout"])),
        ({"count": 1, "timeout": "inf"}, ("too_big", ["timeout"])),
        ({"count": 1, "ackTimeout": 0}, ("too_small", ["ackTimeout"])),
        ({"count": 1, "consumerId": "x" * 300}, ("too_big", ["consumerId"])),
        ({"count": 1, "type": "x" * 300}, ("too_big", ["type"])),
        ({"count": 1, "type": "a\0"}, ("custom", [])),
    ],
    ids=str,
)
async def test_bad_parameter_is_named(
    api: httpx.AsyncClient, queue: str, parameters: dict[str, Any], expected: tuple[str, list[str]]
) -> None:
    answer = await api.get("/queue/messages/batch", params={"queue": queue, **parameters})
    assert issues(answer) == [expected]


async def test_long_poll_wakes_when_a_message_comes(api: httpx.AsyncClient, queue: str) -> None:
    waiting = [
        asyncio.ensure_future(dequeue(api, queue, timeout=25, consumerId=str(n))) for n in range(3)
    ]
    await asyncio.sleep(0.1)
    assert not any(each.done() for each in waiting)
    ids = {await add(api, queue, n) for n in range(3)}
    async with asyncio.timeout(20):
        dequeued = await asyncio.gather(*waiting)
    assert {message["id"] for message in dequeued} == ids


async def test_lease_starts_at_delivery(api: httpx.AsyncClient, queue: str) -> None:
    waiting = asyncio.ensure_future(dequeue(api, queue, timeout=25, ackTimeout=20))
    await asyncio.sleep(0.3)
    await add(api, queue)
    message = await waiting
    until = datetime.fromisoformat(message["locked_until"]).timestamp()
    assert until == pytest.approx(message["dequeued_at"] + 20, abs=0.01)
    assert message["dequeued_at"] >= message["created_at"]


async def test_message_of_a_disconnected_client_is_released(
    api: httpx.AsyncClient, queue: str, shared: Shared
) -> None:
    async with shared.server.client() as leaving:
        waiting = asyncio.ensure_future(dequeue(leaving, queue, timeout=25))
        await asyncio.sleep(0.2)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    message_id = await add(api, queue)
    message = await dequeue(api, queue, timeout=20)
    assert message["id"] == message_id
    assert message["attempt_count"] == 1


@pytest.mark.parametrize("pause", [0, 0.2])
@pytest.mark.parametrize(
    "behind", [b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\0garbage\r\n"]
)
async def test_pipelining_client_that_disconnects_counts_no_attempt(
    api: httpx.AsyncClient, queue: str, shared: Shared, behind: bytes, pause: float
) -> None:
    place = urlsplit(shared.server.url)
    _, writer = await asyncio.open_connection(place.hostname, place.port)
    poll = f"GET /api/queue/message?timeout=20&queue={queue} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    writer.write(poll.encode())
    await asyncio.sleep(pause)
    writer.write(behind)
    await asyncio.sleep(0.2)
    writer.close()
    await writer.wait_closed()
    await asyncio.sleep(0.2)
    await add(api, queue)
    assert (await dequeue(api, queue, timeout=20))["attempt_count"] == 1


async def test_message_claimed_before_an_invalid_request_is_released(
    api: httpx.AsyncClient, queue: str, shared: Shared
) -> None:
    message_id = await add(api, queue)
    place = urlsplit(shared.server.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    claim = f"GET /api/queue/message?queue={queue} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    writer.write(claim.encode() + b"\0garbage\r\n")
    assert await reader.read() == b""
    writer.close()
    message = await dequeue(api, queue, timeout=20)
    assert (message["id"], message["attempt_count"]) == (message_id, 1)


async def test_disconnecting_clients_lose_no_messages(
    api: httpx.AsyncClient, queue: str, shared: Shared
) -> None:
    """Whether the client was gone before or after the claim, its message is there for another."""
    ids = set()
    for n in range(10):
        async with shared.server.client() as leaving:
            waiting = asyncio.ensure_future(
                leaving.get(
                    "/queue/message", params={"queue": queue, "timeout": 25, "ackTimeout": 1}
                )
            )
            await asyncio.sleep(0.005 * n)
            adding = asyncio.ensure_future(add(api, queue, n))
            await asyncio.sleep(0.0005 * n)
            waiting.cancel()
            answer = (await asyncio.gather(waiting, return_exceptions=True))[0]
            message_id = await adding
            if isinstance(answer, BaseException):
                ids.add(message_id)
    # One that was on the wire as its client went is known to be lost only when its lock ends.
    dequeued: set[str] = set()
    async with asyncio.timeout(30):
        while not ids <= dequeued:
            dequeued.add((await dequeue(api, queue, timeout=20))["id"])


async def test_redelivered_message_has_its_last_error(api: httpx.AsyncClient, queue: str) -> None:
    first, _ = await add(api, queue, 1), await add(api, queue, 2)
    message = await dequeue(api, queue)
    reason = {"lock_token": message["lock_token"], "errorReason": "no such address"}
    assert (await api.post(f"/queue/message/{first}/nack", json=reason)).status_code == 200
    answer = await api.get("/queue/messages/batch", params={"queue": queue, "count": 2})
    told = [(each["attempt_count"], each["last_error"]) for each in answer.json()["messages"]]
    assert told == [(2, "no such address"), (1, None)]
    listed = await api.get("/queue/processing/messages", params={"queueName": queue})
    assert {each["last_error"] for each in listed.json()["messages"]} == {"no such address", None}


async def test_expired_lease_returns_message_to_queue(api: httpx.AsyncClient, queue: str) -> None:
    await add(api, queue)
    first = await dequeue(api, queue, ackTimeout=0.2)
    again = await dequeue(api, queue, timeout=20)
    assert again["id"] == first["id"]
    assert (again["attempt_count"], again["last_error"]) == (2, "Timeout - requeued")
    assert again["lock_token"] != first["lock_token"]
