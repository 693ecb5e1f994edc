"""Live updates over a real connection."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from laneway.activity import ActivitySettings, Monitor
from laneway.server.calls import Identity
from laneway.server.operations import Role
from laneway.server.rest.events import tell_updates
from tests.protocol.rest.calls import add, take
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from laneway.engine import Broker

SECRET = "open sesame"  # noqa: S105 - of a server that lives as long as its test


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
        taken = await take(api, queue)
        update = (await of_queue(events, queue))["data"]
        assert (update["type"], update["payload"]["status"]) == ("dequeue", "processing")
        await api.post("/queue/ack", json={"id": message_id, "lock_token": taken["lock_token"]})
        update = (await of_queue(events, queue))["data"]
        assert (update["type"], update["payload"]["ids"]) == ("acknowledge", [message_id])


async def test_large_batch_is_told_without_its_messages(api: httpx.AsyncClient, queue: str) -> None:
    async with watch(api) as events:
        batch = [{"type": "job", "payload": n, "queue": queue} for n in range(101)]
        await api.post("/queue/batch", json=batch)
        payload = (await of_queue(events, queue))["data"]["payload"]
        assert payload == {"status": "queued", "count": 101, "ids": [], "force_refresh": True}


async def test_one_who_comes_back_is_told_to_refresh(api: httpx.AsyncClient) -> None:
    async with watch(api, {"Last-Event-ID": "1"}) as events:
        first = await anext(events)
        assert first["data"]["queue"] is None
        assert first["data"]["payload"]["force_refresh"] is True


async def test_what_another_process_did_is_told(database: str) -> None:
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


async def test_what_any_of_the_workers_did_is_told(database: str) -> None:
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


async def test_without_a_key_only_hints_are_told(database: str) -> None:
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


def call(monitor: Monitor, settings: ActivitySettings) -> Any:
    """Return as much of a call as a stream of updates looks at."""
    return SimpleNamespace(
        service=SimpleNamespace(activity=monitor),
        settings=SimpleNamespace(activity=settings),
        request=SimpleNamespace(scope={"headers": []}),
    )


class Silence:
    """A broker in which nothing happens."""

    async def read_snapshot(self) -> tuple[int, int, tuple[int, ...]]:
        return (1, 1, ())


async def test_ping_comes_while_nothing_happens() -> None:
    settings = replace(ActivitySettings(), ping=timedelta(milliseconds=1))
    monitor = Monitor(cast("Broker", Silence()), settings)
    chunks = tell_updates(call(monitor, settings), Identity("anyone", Role.ADMIN))
    assert await anext(chunks) == b""
    for _ in range(2):
        chunk = await anext(chunks)
        assert chunk.startswith(b"event: ping\nid: ")
        assert chunk.endswith(b"}\n\n")
    await chunks.aclose()


def test_ping_comes_every_fifteen_seconds() -> None:
    assert ActivitySettings().ping == timedelta(seconds=15)
