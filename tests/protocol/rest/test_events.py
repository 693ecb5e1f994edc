"""Live updates over a real connection."""

from __future__ import annotations

import asyncio
import json
import re
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jwt
import pytest

from laneway.activity import ActivitySettings, Monitor
from laneway.server.authentication import Keyring
from laneway.server.calls import Identity
from laneway.server.operations import Role
from laneway.server.rest.events import stream_updates
from tests.protocol.rest.calls import add, dequeue
from tests.protocol.rest.test_keys import make_keys, run_command
from tests.protocol.servers import make_queue, run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from laneway.domain.keys import ApiKey
    from laneway.engine import Broker

SECRET = "open sesame"  # noqa: S105 - of a server that lives as long as its test

SIGNING = "what tokens are signed with, at least 32 bytes"


@asynccontextmanager
async def watch(
    api: httpx.AsyncClient, headers: dict[str, str] | None = None, **parameters: str
) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """Yield the events as they come: their fields, data decoded."""
    async with api.stream("GET", "/queue/events", params=parameters, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield read(answer.aiter_lines())


async def read(lines: AsyncIterator[str]) -> AsyncIterator[dict[str, Any]]:
    fields: dict[str, Any] = {}
    async for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = json.loads(value) if name == "data" else value
        elif fields:
            yield fields
            fields = {}


async def of_queue(events: AsyncIterator[dict[str, Any]], queue: str) -> dict[str, Any]:
    """Return the next update of one queue: other tests use the same server."""
    async for event in events:
        if event["event"] == "queue-update" and event["data"]["queue"] == queue:
            return event
    raise AssertionError("the stream ended")


async def test_updates_come_as_things_happen(api: httpx.AsyncClient, queue: str) -> None:
    async with watch(api) as events:
        message_id = await add(api, queue, {"a": 1}, priority=3)
        added = await of_queue(events, queue)
        data = added["data"]
        assert added["id"] == str(data["timestamp"])
        [message] = data["payload"].pop("messages")
        assert message.pop("created_at") > 1_000_000_000
        assert message == {
            "id": message_id,
            "type": "job",
            "priority": 3,
            "payload": {"a": 1},
            "attempt_count": 0,
        }
        assert data.pop("timestamp") > 1_000_000_000_000
        assert data == {
            "type": "enqueue",
            "queue": queue,
            "payload": {
                "status": "queued",
                "count": 1,
                "ids": [message_id],
                "force_refresh": False,
            },
        }
        dequeued = await dequeue(api, queue)
        update = (await of_queue(events, queue))["data"]
        assert (update["type"], update["payload"]["status"]) == ("dequeue", "processing")
        await api.post("/queue/ack", json={"id": message_id, "lock_token": dequeued["lock_token"]})
        update = (await of_queue(events, queue))["data"]
        assert (update["type"], update["payload"]["ids"]) == ("acknowledge", [message_id])


async def test_update_of_a_large_batch_omits_its_messages(
    api: httpx.AsyncClient, queue: str
) -> None:
    async with watch(api) as events:
        batch = [{"type": "job", "payload": n, "queue": queue} for n in range(101)]
        await api.post("/queue/batch", json=batch)
        payload = (await of_queue(events, queue))["data"]["payload"]
        assert payload == {"status": "queued", "count": 101, "ids": [], "force_refresh": True}


async def test_reconnected_client_is_told_to_refresh(api: httpx.AsyncClient) -> None:
    async with watch(api, {"Last-Event-ID": "1"}) as events:
        first = await anext(events)
        assert first["data"]["queue"] is None
        assert first["data"]["payload"]["force_refresh"] is True


async def test_updates_include_other_processes(database: str) -> None:
    async with (
        run_laneway(database) as first,
        run_laneway(database) as second,
        first.client() as here,
        second.client() as there,
        watch(here) as events,
    ):
        message_id = await add(there, "default")
        update = (await of_queue(events, "default"))["data"]
        assert update["payload"]["ids"] == [message_id]


async def test_updates_include_every_worker_process(database: str) -> None:
    async with run_laneway(database, "--workers", "2") as server:
        async with AsyncExitStack() as stack:
            here = await stack.enter_async_context(server.client())
            events = await stack.enter_async_context(watch(here))
            # Each has a connection of its own, to one worker or the other.
            clients = [await stack.enter_async_context(server.client()) for _ in range(8)]
            added = {await add(client, "default") for client in clients}
            told: set[str] = set()
            while told != added:
                told.update((await of_queue(events, "default"))["data"]["payload"]["ids"])
        assert await server.stop() == 0


async def test_updates_without_a_key_are_hints_only(database: str) -> None:
    async with (
        run_laneway(database, SECRET_KEY=SECRET) as server,
        server.client() as stranger,
        server.client(**{"X-API-KEY": SECRET}) as owner,
        watch(stranger) as bare,
        watch(stranger, apiKey="guessed") as guessed,
        watch(stranger, apiKey=SECRET) as in_query,
        watch(owner) as in_header,
    ):
        message_id = await add(owner, "default", {"secret": True})
        for events in (bare, guessed):
            data = (await anext(events))["data"]
            assert data.pop("timestamp") > 0
            assert data == {"type": "enqueue", "payload": {"count": 1, "force_refresh": False}}
        for events in (in_query, in_header):
            data = (await anext(events))["data"]
            assert data["payload"]["ids"] == [message_id]
        assert (await server.stop()) == 0


async def test_stop_ends_the_stream(database: str) -> None:
    async with (
        run_laneway(database) as server,
        server.client() as api,
        api.stream("GET", "/queue/events") as answer,
    ):
        assert await server.stop() == 0
        assert await answer.aread() == b""


class Event(NamedTuple):
    name: str
    data: str


async def parse(chunks: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    """Read a stream as browsers do: a line ends with CR, LF or both, an event with an empty line."""
    rest, name, data = "", "message", list[str]()
    async for chunk in chunks:
        rest += chunk.decode()
        # The second half of a CR LF may be still to come.
        whole, rest = (rest, "") if not rest.endswith("\r") else (rest[:-1], "\r")
        *lines, tail = re.split("\r\n|\r|\n", whole)
        rest = tail + rest
        for line in lines:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line and data:
                yield Event(name, "\n".join(data))
            if not line:
                name, data = "message", []
            elif field == "event":
                name = value
            elif field == "data":
                data.append(value)


@pytest.mark.parametrize("gap", ["\n", "\r", "\r\n", "\n\n", "\r\r", "\n\n \t\r\n"])
async def test_line_breaks_in_a_payload_break_no_event(
    api: httpx.AsyncClient, queue: str, gap: str
) -> None:
    """JSON may have them between its parts; numbers and texts arrive as they were written."""
    numbers = "[1.00, 1e2, 12345678901234567890.5, 0.1]".replace(",", f"{gap},{gap}")
    payload = f'{{{gap}"a"{gap}:{gap}"x\\n\\r\\u2028",{gap}"b":{numbers}{gap}}}'
    body = f'{{"type":"job","queue":"{queue}","payload":{payload}}}'
    async with api.stream("GET", "/queue/events") as answer:
        events = parse(answer.aiter_raw())
        for _ in range(2):
            added = await api.post("/queue/message", content=body)
            assert added.status_code == 201, added.text
        told: list[Any] = []
        async for event in events:
            assert event.name in {"queue-update", "ping"}
            data = json.loads(event.data, parse_float=str)
            if data.get("queue") != queue:
                continue
            assert "\n" not in event.data
            told += [message["payload"] for message in data["payload"]["messages"]]
            if len(told) == 2:
                break
    written = {"a": "x\n\r\u2028", "b": ["1.00", "1e2", "12345678901234567890.5", "0.1"]}
    assert told == [written, written]


async def expect_end(answer: httpx.Response) -> str:
    """Return the rest of a stream that the server ends."""
    async with asyncio.timeout(30):
        return "".join([text async for text in answer.aiter_text()])


async def test_stream_ends_with_its_key(database: str) -> None:
    keys = await make_keys(database)
    async with (
        run_laneway(database) as server,
        server.client() as stranger,
        stranger.stream("GET", "/queue/events", headers={"X-API-KEY": keys["read"]}) as header,
        stranger.stream("GET", "/queue/events", params={"apiKey": keys["read"]}) as query,
        server.client(**{"X-API-KEY": keys["admin"]}) as admin,
        watch(admin) as other,
    ):
        await asyncio.to_thread(run_command, database, "key", "revoke", keys["read"][3:11])
        for answer in (header, query):
            assert answer.status_code == 200
            assert "no longer valid" in await expect_end(answer)
        message_id = await add(admin, "default", {"secret": True})
        assert (await of_queue(other, "default"))["data"]["payload"]["ids"] == [message_id]


async def test_stream_ends_with_its_token(database: str) -> None:
    """Clocks may differ by 30 seconds: a token that has just run out is good that much longer."""
    claims = {"sub": "somebody", "role": "read-only", "exp": int(time.time()) - 20}
    token = jwt.encode(claims, SIGNING, algorithm="HS256")
    async with (
        run_laneway(database, JWT_SECRET=SIGNING, SECRET_KEY=SECRET) as server,
        server.client(Authorization=f"Bearer {token}") as api,
        api.stream("GET", "/queue/events") as answer,
    ):
        assert "no longer valid" in await expect_end(answer)


async def test_open_streams_end_when_the_first_key_is_created(database: str) -> None:
    async with (
        run_laneway(database) as server,
        server.client() as api,
        api.stream("GET", "/queue/events") as answer,
    ):
        keys = await make_keys(database)
        assert "no longer valid" in await expect_end(answer)
        # Who comes back without a key is told as little as any stranger.
        async with watch(api) as events:
            async with server.client(**{"X-API-KEY": keys["admin"]}) as admin:
                await add(admin, "default")
            assert "queue" not in (await anext(events))["data"]


async def test_limited_key_gets_updates_of_its_queues_only(database: str) -> None:
    for name in ("mail-1", "fax"):
        await make_queue(database, name)
    keys = await make_keys(database)
    async with (
        run_laneway(database) as server,
        server.client(**{"X-API-KEY": keys["admin"]}) as admin,
        server.client(**{"X-API-KEY": keys["limited"]}) as limited,
        server.client() as stranger,
        watch(admin) as all_events,
        watch(limited) as events,
        stranger.stream("GET", "/queue/events") as bare,
    ):
        for number in range(3):
            await add(admin, "fax", {"secret": number})
            await of_queue(all_events, "fax")
        message_id = await add(admin, "mail-1")
        data = (await anext(events))["data"]
        assert (data["queue"], data["payload"]["ids"]) == ("mail-1", [message_id])
        chunks = bare.aiter_text()
        text = ""
        async with asyncio.timeout(30):
            while text.count("\n\n") < 4:
                text += await anext(chunks)
        for secret in ("fax", "mail", "secret", "ids", "status", "messages", '"queue"'):
            assert secret not in text
        for event in text.strip().split("\n\n"):
            name, place, line = event.split("\n")
            data = json.loads(line.removeprefix("data: "))
            assert name == "event: queue-update"
            assert place == f"id: {data['timestamp']}"
            assert data.keys() == {"type", "timestamp", "payload"}
            assert data["payload"].keys() == {"count", "force_refresh"}


async def test_streams_have_limits_of_their_own(database: str) -> None:
    flags = ("--max-event-streams", "2", "--max-anonymous-event-streams", "1")
    async with (
        run_laneway(database, *flags, SECRET_KEY=SECRET) as server,
        server.client() as stranger,
        server.client(**{"X-API-KEY": SECRET}) as owner,
        AsyncExitStack() as stack,
    ):
        for client, limit, setting in (
            (stranger, 1, "LANEWAY_MAX_ANONYMOUS_EVENT_STREAMS"),
            (owner, 2, "LANEWAY_MAX_EVENT_STREAMS"),
        ):
            async with AsyncExitStack() as few:
                for _ in range(limit):
                    await few.enter_async_context(watch(client))
                refused = await client.get("/queue/events")
                assert refused.status_code == 503
                assert int(refused.headers["retry-after"]) >= 1
                assert "retry later" in refused.json()["message"]
                assert setting in refused.json()["message"]
                assert (await client.get("/health")).status_code == 200
            # Who goes makes room.
            async with asyncio.timeout(30):
                while True:
                    answer = await stack.enter_async_context(client.stream("GET", "/queue/events"))
                    if answer.status_code == 200:
                        break
                    await asyncio.sleep(0.05)


async def test_hints_can_be_switched_off(database: str) -> None:
    environment = {"SECRET_KEY": SECRET, "LANEWAY_MAX_ANONYMOUS_EVENT_STREAMS": "0"}
    async with (
        run_laneway(database, **environment) as server,
        server.client() as stranger,
        server.client(**{"X-API-KEY": SECRET}) as owner,
    ):
        answer = await stranger.get("/queue/events")
        assert answer.status_code == 401
        assert answer.json() == {"error": "Unauthorized", "message": "Missing X-API-KEY header"}
        answer = await stranger.get("/queue/events", params={"apiKey": "guessed"})
        assert answer.json()["message"] == "Invalid API key"
        async with watch(owner) as events:
            await add(owner, "default")
            assert (await of_queue(events, "default"))["data"]["type"] == "enqueue"


async def load_no_keys() -> list[ApiKey]:
    return []


def call(monitor: Monitor, settings: ActivitySettings) -> Any:
    """Return as much of a call as a stream of updates looks at."""
    keyring = Keyring(secret=None, load=load_no_keys, age=timedelta(seconds=3))
    return SimpleNamespace(
        service=SimpleNamespace(activity=monitor, keyring=keyring),
        settings=SimpleNamespace(activity=settings),
        request=SimpleNamespace(headers={}),
    )


class Silence:
    """A broker in which nothing happens."""

    def __init__(self) -> None:
        self.activity = self

    async def read_snapshot(self) -> tuple[int, int, tuple[int, ...]]:
        return (1, 1, ())


async def test_ping_comes_while_nothing_happens() -> None:
    settings = replace(ActivitySettings(), ping=timedelta(milliseconds=1))
    monitor = Monitor(cast("Broker", Silence()), settings)
    chunks = stream_updates(call(monitor, settings), Identity("anyone", Role.ADMIN), None)
    assert await anext(chunks) == b""
    for _ in range(2):
        chunk = await anext(chunks)
        assert chunk.startswith(b"event: ping\nid: ")
        assert chunk.endswith(b"}\n\n")
    await chunks.aclose()


def test_ping_comes_every_fifteen_seconds() -> None:
    assert ActivitySettings().ping == timedelta(seconds=15)
