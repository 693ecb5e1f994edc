"""Producers and consumers of long-lived programs are listed among the workers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import laneway
from laneway.domain.errors import InvalidRequest
from laneway.domain.workers import WorkerIdentity, WorkerState
from tests.library.conftest import QUIET
from tests.library.workers import until
from tests.postgres import execute

if TYPE_CHECKING:
    from laneway import Connection, WorkerInfo
    from tests.library.conftest import Place

MINUTE = timedelta(minutes=1)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make half a minute pass in an instant."""
    monkeypatch.setattr("laneway.library.presence.AFTER", 0.05)
    monkeypatch.setattr("laneway.library.presence.HEARTBEAT", 0.05)


async def list_of(lane: Connection, queue: str) -> dict[str, WorkerInfo]:
    return {worker.kind: worker for worker in await lane.admin.list_workers(queue)}


@pytest.mark.usefixtures("soon")
async def test_long_lived_producer_and_consumer_are_listed_until_they_end(
    lane: Connection, address: str, queue: str
) -> None:
    async with laneway.connect(address, settings=QUIET) as own:
        producer, consumer = own.producer(queue), own.consumer(queue, name=f"reader-of-{queue}")
        await producer.batch_enqueue([1, 2, 3])
        assert len(await consumer.dequeue_many(2)) == 2

        async def both() -> dict[str, WorkerInfo] | None:
            found = await list_of(lane, queue)
            counted = {kind: each.handled for kind, each in found.items()}
            return found if counted == {"producer": 3, "consumer": 2} else None

        found = await until(both)
        assert found["consumer"].worker_id == f"reader-of-{queue}"
        assert found["consumer"].held == 2
        assert all(each.healthy for each in found.values())

        del producer

        async def producer_is_gone() -> bool:
            return (await list_of(lane, queue))["producer"].state is WorkerState.STOPPED

        await until(producer_is_gone)
    assert (await list_of(lane, queue))["consumer"].state is WorkerState.STOPPED


@pytest.mark.usefixtures("soon")
async def test_consumer_that_was_purged_is_listed_again(
    lane: Connection, address: str, queue: str, place: Place
) -> None:
    async with laneway.connect(address, settings=QUIET) as own:
        name = f"reader-of-{queue}"
        consumer = own.consumer(queue, name=name)
        assert await consumer.dequeue() is None

        async def listed() -> bool:
            return bool(await list_of(lane, queue))

        await until(listed)
        await execute(place.dsn, f"delete from laneway.worker where worker_id = '{name}'")
        await until(listed)


async def test_short_programs_register_nothing(lane: Connection, address: str, queue: str) -> None:
    async with laneway.connect(address, settings=QUIET) as own:
        await own.producer(queue).enqueue(1)
        assert await own.consumer(queue).dequeue() is not None
    assert await list_of(lane, queue) == {}


@pytest.mark.usefixtures("soon")
async def test_registration_can_be_left_out(lane: Connection, address: str, queue: str) -> None:
    async with (
        laneway.connect(address, settings=QUIET, register=False) as quiet,
        laneway.connect(address, settings=QUIET) as own,
    ):
        silent, listed = quiet.producer(queue), own.producer(queue)
        await silent.enqueue(1)
        await listed.enqueue(1)

        async def found() -> bool:
            return bool(await list_of(lane, queue))

        await until(found)
        assert len(await lane.admin.list_workers(queue)) == 1


@pytest.mark.usefixtures("soon")
async def test_synchronous_programs_are_listed_too(
    lane: Connection, address: str, queue: str
) -> None:
    def work(connection: laneway.sync.Connection) -> laneway.sync.Producer:
        producer = connection.producer(queue)
        producer.enqueue(1)
        return producer

    with laneway.sync.connect(address, settings=QUIET) as connection:
        producer = await asyncio.to_thread(work, connection)

        async def found() -> bool:
            return bool(await list_of(lane, queue))

        await until(found)
        assert producer.queue == queue


async def test_consumers_and_producers_take_no_orders(lane: Connection, queue: str) -> None:
    name = f"reader-of-{queue}"
    await lane.backend.workers.register(
        WorkerIdentity(name, "reader", "host", 1, [queue], MINUTE, "consumer")
    )
    with pytest.raises(InvalidRequest, match="is a consumer"):
        await lane.admin.shutdown_worker(name)


async def test_silent_consumer_keeps_its_leases_and_may_claim(place: Place, queue: str) -> None:
    async with laneway.connect(place.dsn, settings=QUIET) as lane:
        await lane.producer(queue).batch_enqueue([1, 2])
        consumer = lane.consumer(queue, name=f"reader-of-{queue}")
        first = await consumer.dequeue()
        assert first is not None
        await lane.backend.workers.register(
            WorkerIdentity(
                consumer.name, "reader", "host", 1, [queue], timedelta(microseconds=1), "consumer"
            )
        )
        assert consumer.name not in await lane.admin.reclaim_dead()
        assert (await lane.admin.get_worker(consumer.name)).state is WorkerState.STOPPED
        assert await consumer.nack(first) is not None
        assert await consumer.dequeue() is not None
        assert await consumer.dequeue_at(first.created_at + timedelta(days=1))
