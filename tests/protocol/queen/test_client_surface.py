"""Every route of the streams client is served, or named here as absent; its rarer calls work."""

from __future__ import annotations

import ast
import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import queen as client
from queen.errors import EphemeralError
from queen.streams.runtime.streams_http_client import StreamsHttpClient, StreamsHttpError

from laneway.server.queen import make_surfaces
from laneway.server.settings import ServerSettings
from tests.protocol.queen.calls import ack, data_of, pop, push
from tests.protocol.queen.conftest import open_client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from queen import Queen

    from tests.protocol.conftest import Shared

# Routes that the client knows and the server does not have, and why.
ABSENT = {
    "/api/v1/analytics/system-metrics": "Prometheus metrics have them (GET /metrics)",
    "/api/v1/analytics/worker-metrics": "Prometheus metrics have them (GET /metrics)",
    "/api/v1/ephemeral/ack": "messages outside the database",
    "/api/v1/ephemeral/configure": "messages outside the database",
    "/api/v1/ephemeral/pop": "messages outside the database",
    "/api/v1/ephemeral/push": "messages outside the database",
    "/api/v1/ephemeral/queue/*": "messages outside the database",
    "/api/v1/ephemeral/queues": "messages outside the database",
    "/api/v1/ephemeral/queues/*/depth": "messages outside the database",
    "/api/v1/ephemeral/reset": "messages outside the database",
    "/streams/v1/cycle": "stream processing on the server",
    "/streams/v1/queries": "stream processing on the server",
    "/streams/v1/state/get": "stream processing on the server",
}
# Served by the server itself, for every protocol.
COMMON = {"/health", "/metrics"}


def test_every_route_of_the_client_is_served_or_named_as_absent() -> None:
    surface, _ = make_surfaces(ServerSettings())
    served = {
        re.sub(r"\{[^}]+\}", "*", surface.prefix + operation.path)
        for operation in surface.operations
    }
    called = set(list_routes())
    assert len(called) > 40
    assert called - served - COMMON == set(ABSENT)
    assert not served & set(ABSENT)


def list_routes() -> Iterator[str]:
    """Yield the paths that the client's sources build, with `*` for each part that is filled in."""
    for file in Path(client.__file__).parent.rglob("*.py"):
        tree = ast.parse(file.read_text())
        constants = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        inner = {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr)
            for part in node.values
        }
        for node in ast.walk(tree):
            if id(node) in inner or not isinstance(node, ast.Constant | ast.JoinedStr):
                continue
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            path = "".join(_show(part, constants) for part in parts).partition("?")[0]
            if re.fullmatch(r"/(api/v1|streams/v1)(/[\w*-]+)+|/health|/metrics", path):
                # A query is appended without a slash.
                yield re.sub(r"(?<=[\w*])\*$", "", path)


def _show(part: ast.expr, constants: dict[str, Any]) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name):
        return str(constants.get(part.value.id, "*"))
    return "*"


async def test_statistics_are_refreshed_and_metrics_served(queen: Queen) -> None:
    assert (await queen.admin.refresh_consumer_stats())["success"]
    # The client understands JSON only, and metrics are text.
    assert await queen.admin.metrics() is None
    for absent in (queen.admin.get_system_metrics, queen.admin.get_worker_metrics):
        with pytest.raises(httpx.HTTPStatusError) as refused:
            await absent()
        assert refused.value.response.json()["code"] == "no_such_route"
    for refused_by_the_client in (
        queen.admin.clear_queue("q"),
        queen.admin.move_message_to_dlq("p", "t"),
    ):
        with pytest.raises(NotImplementedError):
            await refused_by_the_client


async def test_group_is_deleted_in_one_queue(queen: Queen, name: str) -> None:
    for queue in (name, f"{name}-b"):
        await push(queen, queue, [1])
        assert data_of(await pop(queen, queue, group=f"{name}-g")) == [1]
    deleted = await queen.admin.delete_consumer_group_for_queue(f"{name}-g", name)
    assert deleted["success"]
    shown = await queen.admin.get_consumer_group(f"{name}-g")
    assert {item["queueName"] for item in shown["queues"]} == {f"{name}-b"}
    assert data_of(await pop(queen, name, group=f"{name}-g")) == [1]


async def test_push_reports_duplicates_to_its_callback(queen: Queen, name: str) -> None:
    seen: list[tuple[str, list[Any]]] = []

    async def queued(items: Any) -> None:
        seen.append(("queued", data_of({"data": item["payload"]} for item in items)))

    async def duplicate(items: Any, _: Exception) -> None:
        seen.append(("duplicate", data_of({"data": item["payload"]} for item in items)))

    items = [{"data": n, "transactionId": f"t{n}"} for n in range(2)]
    await queen.queue(name).push(items[:1]).on_success(queued).on_duplicate(duplicate)
    await queen.queue(name).push(items).on_success(queued).on_duplicate(duplicate)
    assert seen == [("queued", [0]), ("duplicate", [0]), ("queued", [1])]


async def test_one_queues_buffer_is_flushed(queen: Queen, name: str) -> None:
    builder = queen.queue(name).buffer({"message_count": 100, "time_millis": 60_000})
    await builder.push([{"data": n} for n in range(3)])
    assert await pop(queen, name) == []
    await queen.queue(name).flush_buffer()
    assert data_of(await pop(queen, name)) == [0, 1, 2]


async def test_dead_letters_are_listed_by_time_and_page(queen: Queen, name: str) -> None:
    await push(queen, name, range(3))
    assert (await ack(queen, await pop(queen, name), "dlq"))["success"]
    now = datetime.now(UTC)
    earlier, later = (now + timedelta(hours=hours) for hours in (-1, 1))
    letters = queen.queue(name).dlq().from_(earlier.isoformat()).to(later.isoformat())
    assert (await letters.get())["total"] == 3
    page = await letters.limit(1).offset(1).get()
    assert (len(page["messages"]), page["total"]) == (1, 3)
    assert (await queen.queue(name).dlq().from_(later.isoformat()).get())["total"] == 0
    assert (await queen.queue(name).dlq().to(earlier.isoformat()).get())["total"] == 0


async def test_sizes_are_chosen_by_the_server_or_the_client(queen: Queen, name: str) -> None:
    for partition in "ab":
        await push(queen, name, range(2), partition=partition)
    found = await queen.queue(name).autopilot(enabled=False).wait(enabled=False).pop_result()
    assert (len(found.messages), found.autopilot) == (1, None)
    assert (await ack(queen, found.messages, "retry"))["success"]
    found = await queen.queue(name).wait(enabled=False).pop_result()
    assert len(found.messages) == 4
    assert found.autopilot is not None
    assert (found.autopilot.partitions, found.autopilot.batch) == (16, 100)


async def test_a_conflating_pop_is_refused_and_claims_nothing(queen: Queen, name: str) -> None:
    await push(queen, name, range(2))
    conflating = queen.queue(name).group("g").conflation().wait(enabled=False)
    with pytest.raises(httpx.HTTPStatusError, match="conflation"):
        await conflating.pop()

    async def never(_: Any) -> None:
        raise AssertionError("nothing was popped")

    async with asyncio.timeout(10):
        with pytest.raises(httpx.HTTPStatusError, match="conflation"):
            await queen.queue(name).group("g").conflation().consume(never)
    messages = await pop(queen, name, group="g")
    assert [(each["data"], each["retryCount"]) for each in messages] == [(0, 0), (1, 0)]


async def test_lock_is_held_while_its_function_runs(queen: Queen, name: str) -> None:
    lock = queen.lock(name, ttl_seconds=30)
    other = queen.lock(name, ttl_seconds=30)

    async def work(held: Any) -> int:
        assert held.held
        assert await other.run(work) == {"acquired": False}
        return 7

    assert await lock.run(work) == {"acquired": True, "value": 7}
    assert not (await queen.locks.get(name))["held"]
    token = (await queen.locks.acquire(name, ttl_seconds=30))["token"]
    renewed = await queen.locks.renew(name, token=token, ttl_seconds=60)
    assert renewed["token"] > token
    assert not await queen.locks.release(name, token=token)
    assert await queen.locks.release(name, token=renewed["token"])


@pytest.mark.parametrize("strategy", ["affinity", "round-robin", "session"])
async def test_client_leaves_a_server_that_is_down(
    name: str, shared: Shared, unused_tcp_port: int, strategy: str
) -> None:
    down = f"http://127.0.0.1:{unused_tcp_port}"
    options = {"load_balancing_strategy": strategy, "retry_delay_millis": 1}
    async with open_client([down, shared.server.url], **options) as both:
        await push(both, name, range(3))
        messages = await pop(both, name)
        assert data_of(messages) == [0, 1, 2]
        assert (await ack(both, messages))["success"]


async def test_pop_that_offers_frames_gets_json(name: str, shared: Shared) -> None:
    async with open_client(shared.server.url, framed_pop=True) as framed:
        await push(framed, name, range(2))
        assert data_of(await pop(framed, name)) == [0, 1]


async def test_binary_push_is_refused(name: str, shared: Shared) -> None:
    async with open_client(shared.server.url, binary_push=True) as binary:
        with pytest.raises(httpx.HTTPStatusError) as refused:
            await binary.queue(name).push([{"data": 1}])
        assert refused.value.response.status_code in {400, 415}
        assert await pop(binary, name) == []


async def test_ephemeral_queues_and_server_side_streams_are_reported_as_absent(
    queen: Queen, name: str, shared: Shared
) -> None:
    ephemeral = queen.ephemeral
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: ephemeral.configure(name, ttl_seconds=1),
        lambda: ephemeral.push(name, [{"data": 1}]),
        lambda: ephemeral.pop(name),
        lambda: ephemeral.ack(name, [{"id": "1"}]),
        lambda: ephemeral.reset(name),
        lambda: ephemeral.delete(name),
        ephemeral.queues,
        lambda: ephemeral.depth(name),
    ]
    for call in calls:
        with pytest.raises(EphemeralError) as absent:
            await call()
        assert absent.value.code == client.EPHEMERAL_UNSUPPORTED
    streams = StreamsHttpClient(shared.server.url)
    try:
        for path in ("/streams/v1/queries", "/streams/v1/cycle", "/streams/v1/state/get"):
            with pytest.raises(StreamsHttpError) as missing:
                await streams.post(path, {})
            assert missing.value.status == 404
    finally:
        await streams.close()
