"""The rate limit of a handler, on both transports."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

import pytest

from laneway import QueueSettings, RateLimit, Status
from laneway.domain.errors import InvalidSetting
from tests.library.workers import listed, look, make_app, running, settled, until

if TYPE_CHECKING:
    from laneway import Connection, Message


@pytest.mark.parametrize("ordered", [False, True])
async def test_messages_start_no_faster_than_the_limit(
    lane: Connection, address: str, queue: str, *, ordered: bool
) -> None:
    name = f"{queue}-{ordered}"
    await lane.admin.create_queue(name, QueueSettings(ordered=ordered))
    app = make_app(address)
    starts: list[float] = []

    @app.handler(name, rate_limit=RateLimit(per_second=10, burst=2))
    async def handle(_: Message) -> None:
        starts.append(monotonic())

    await lane.producer(name).batch_enqueue(range(6))
    async with running(app):
        await until(lambda: settled(lane, name, 6))
    # Two at once, and 0.1 s for each of the others.
    assert starts[-1] - starts[0] > 0.35


async def test_messages_that_wait_for_the_limit_stay_ready(
    lane: Connection, address: str, queue: str
) -> None:
    slow, free = make_app(address), make_app(address)
    by_slow: list[object] = []
    by_free: list[object] = []

    @slow.handler(queue, rate_limit=RateLimit(per_second=0.001, burst=2))
    async def handle_slowly(message: Message) -> None:
        by_slow.append(message.payload)

    @free.handler(queue)
    async def handle(message: Message) -> None:
        by_free.append((message.payload, message.attempt))

    await lane.producer(queue).batch_enqueue([0, 1, 2])
    async with running(slow):
        await until(lambda: look(lambda: len(by_slow) == 2))
        (left,) = await listed(lane, queue, Status.QUEUED, 1)
        assert left.attempt == 0
        async with running(free):
            await until(lambda: settled(lane, queue, 3))
    assert by_slow == [0, 1]
    assert by_free == [(2, 1)]


async def test_batch_counts_every_message(lane: Connection, address: str, queue: str) -> None:
    app = make_app(address)
    sizes: list[int] = []

    @app.handler(queue, batch=10, concurrency=1, rate_limit=RateLimit(per_second=0.001, burst=3))
    async def handle(messages: list[Message]) -> None:
        sizes.append(len(messages))

    await lane.producer(queue).batch_enqueue(range(5))
    async with running(app):
        await until(lambda: settled(lane, queue, 3))
        assert len(await lane.admin.messages(queue, Status.QUEUED)) == 2
    assert sizes == [3]


def test_rate_limit_is_checked() -> None:
    app = make_app("postgresql://host/db")
    with pytest.raises(InvalidSetting, match=r"use a laneway\.RateLimit"):
        app.handler("q", rate_limit=10)(print)  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="prefetch cannot be combined"):
        app.handler("q", rate_limit=RateLimit(1, 1), prefetch=5)(print)
