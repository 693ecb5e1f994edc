"""Workers of ordered queues handle the messages of a partition one after the other."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from laneway import PartialFailure, QueueSettings, Reject, Retry, Snooze, Status
from tests.library.workers import listed, look, make_app, running, settled, until

if TYPE_CHECKING:
    from laneway import Connection, Message

NOW = timedelta(0)
SECOND = timedelta(seconds=1)
AGAIN = Retry(backoff=timedelta(milliseconds=50))


@pytest.fixture
async def line(lane: Connection, queue: str) -> str:
    """Return the name of an ordered queue that no other test has."""
    name = f"{queue}-ordered"
    await lane.admin.create_queue(name, QueueSettings(ordered=True))
    return name


class Watch:
    """What was begun, and how many of each partition were at once."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.running: dict[str, int] = {}
        self.most = 0

    async def handle(self, message: Message) -> None:
        partition = message.partition
        self.begun.append(message.payload)
        self.running[partition] = self.running.get(partition, 0) + 1
        self.most = max(self.most, self.running[partition])
        # Others would begin now, if they could.
        for _ in range(5):
            await asyncio.sleep(0)
        self.running[partition] -= 1


@pytest.mark.parametrize("prefetch", [None, 0, 5, 100])
async def test_messages_of_a_partition_are_handled_one_after_the_other(
    lane: Connection, address: str, line: str, prefetch: int | None
) -> None:
    app = make_app(address)
    watch = Watch()
    app.handler(line, concurrency=4, prefetch=prefetch)(watch.handle)
    for start in range(0, 30, 10):
        numbers = range(start, start + 10)
        await lane.producer(line).batch_enqueue(numbers, partition=str(start))
    async with running(app):
        await until(lambda: settled(lane, line, 30))
    assert watch.most == 1
    for start in range(0, 30, 10):
        mine = [number for number in watch.begun if start <= number < start + 10]
        assert mine == list(range(start, start + 10))


async def test_partitions_are_handled_concurrently(
    lane: Connection, address: str, line: str
) -> None:
    app = make_app(address)
    all_here = asyncio.Barrier(3)

    @app.handler(line, concurrency=3, prefetch=10)
    async def handle(_: Message) -> None:
        await all_here.wait()

    for partition in "abc":
        await lane.producer(line).batch_enqueue(range(4), partition=partition)
    async with running(app):
        await until(lambda: settled(lane, line, 12))


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("error", [ValueError("x"), Snooze(NOW), Snooze(SECOND / 20)], ids=range(3))
async def test_failed_message_is_handled_again_before_those_behind_it(
    lane: Connection, address: str, line: str, *, concurrency: int, error: Exception
) -> None:
    app = make_app(address)
    watch = Watch()

    @app.handler(line, concurrency=concurrency, prefetch=5, retry=AGAIN)
    async def handle(message: Message) -> None:
        await watch.handle(message)
        if message.payload == 1 and watch.begun.count(1) < 3:
            raise error

    await lane.producer(line).batch_enqueue(range(5), partition="a")
    async with running(app) as worker:
        await until(lambda: settled(lane, line, 5))
        await until(lambda: look(lambda: not worker._in_flight.group()))
    assert watch.begun == [0, 1, 1, 1, 2, 3, 4]
    assert watch.most == 1


async def test_partition_continues_behind_a_dead_letter(
    lane: Connection, address: str, line: str
) -> None:
    app = make_app(address)
    watch = Watch()

    @app.handler(line, prefetch=5, lock_time=SECOND * 600)
    async def handle(message: Message) -> None:
        await watch.handle(message)
        if message.payload in {1, 2}:
            raise Reject("no")

    await lane.producer(line).batch_enqueue(range(5), partition="a")
    async with running(app):
        await until(lambda: settled(lane, line, 3))
        await until(lambda: listed(lane, line, Status.DEAD, 2))
    assert watch.begun == [0, 1, 2, 3, 4]


async def test_batches_are_of_one_partition_in_order(
    lane: Connection, address: str, line: str
) -> None:
    app = make_app(address)
    batches: list[list[int]] = []

    @app.handler(line, concurrency=4, batch=3, prefetch=6)
    async def handle(messages: list[Message]) -> None:
        batches.append([message.payload for message in messages])
        assert len({message.partition for message in messages}) == 1
        await asyncio.sleep(0)

    for start in (0, 10):
        await lane.producer(line).batch_enqueue(range(start, start + 10), partition=str(start))
    async with running(app):
        await until(lambda: settled(lane, line, 20))
    assert max(map(len, batches)) == 3
    flat = [number for batch in batches for number in batch]
    assert [n for n in flat if n < 10] == list(range(10))
    assert [n for n in flat if n >= 10] == list(range(10, 20))


async def test_batch_is_acked_up_to_its_first_failure(
    lane: Connection, address: str, line: str
) -> None:
    app = make_app(address)
    batches: list[list[int]] = []

    @app.handler(line, batch=4, prefetch=8, retry=AGAIN)
    async def handle(messages: list[Message]) -> None:
        batches.append([message.payload for message in messages])
        if len(batches) == 1:
            raise PartialFailure({messages[1].id: "not yet"})

    await lane.producer(line).batch_enqueue(range(6), partition="a")
    async with running(app):
        await until(lambda: settled(lane, line, 6))
    assert batches[0] == [0, 1, 2, 3]
    assert [number for batch in batches[1:] for number in batch] == [1, 2, 3, 4, 5]


async def test_stopped_worker_returns_messages_in_order(
    lane: Connection, address: str, line: str
) -> None:
    app = make_app(address)
    begun = asyncio.Event()

    @app.handler(line, prefetch=5, lock_time=SECOND * 600)
    async def handle(_: Message) -> None:
        begun.set()
        await asyncio.sleep(600)

    await lane.producer(line).batch_enqueue(range(5), partition="a")
    async with running(app) as worker:
        await begun.wait()
        worker.stop()
    again = await lane.consumer(line).dequeue_many(10, wait=SECOND * 20)
    assert [message.payload for message in again] == list(range(5))
    assert [message.attempt for message in again] == [1] * 5


async def test_drain_finishes_one_message_of_a_partition_and_releases_the_rest(
    lane: Connection, address: str, line: str
) -> None:
    app = make_app(address)
    begun, go = asyncio.Event(), asyncio.Event()

    @app.handler(line, prefetch=5, lock_time=SECOND * 600)
    async def handle(_: Message) -> None:
        begun.set()
        await go.wait()

    await lane.producer(line).batch_enqueue(range(5), partition="a")
    worker = app.worker()
    task = asyncio.create_task(worker.run())
    await begun.wait()
    worker.stop()
    await until(lambda: look(lambda: sum(map(len, worker._in_flight.group().values())) == 1))
    go.set()
    async with asyncio.timeout(30):
        await task
    again = await lane.consumer(line).dequeue_many(10, wait=SECOND * 20)
    assert [message.payload for message in again] == [1, 2, 3, 4]


async def test_shared_group_of_an_ordered_queue_has_no_order(
    lane: Connection, address: str, line: str
) -> None:
    await lane.admin.create_group(line, "audit", ordered=False)
    app = make_app(address)
    all_here = asyncio.Barrier(4)

    @app.handler(line, group="audit", concurrency=4)
    async def handle(_: Message) -> None:
        await all_here.wait()

    await lane.producer(line).batch_enqueue(range(4), partition="a")
    async with running(app) as worker:
        await until(lambda: look(lambda: worker.handled == 4))
