"""Workers that are suspended, resumed, shut down and drained, on both transports."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest

import laneway
from laneway import WorkerSettings
from laneway.domain.errors import WorkerBusy
from laneway.domain.workers import WorkerState
from tests.library.conftest import QUIET
from tests.library.proxy import Proxy
from tests.library.workers import QUICK, in_state, look, make_app, running, settled, until

if TYPE_CHECKING:
    from laneway import Connection, Message
    from tests.library.conftest import Place

SECOND = timedelta(seconds=1)
REGISTERS = """
select exists (select from pg_stat_activity where datname = current_database()
  and wait_event_type = 'Lock' and query like '%register_worker%')
"""


async def test_suspended_worker_claims_nothing_until_resumed(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)

    @app.handler(queue)
    async def handle(_: Message) -> None:
        pass

    async with running(app) as worker:
        assert await lane.admin.suspend_worker(worker.worker_id) is WorkerState.INTERRUPTED
        await until(lambda: in_state(lane, worker.worker_id, WorkerState.SUSPENDED))
        await lane.producer(queue).enqueue(1)
        await asyncio.sleep(0.2)
        assert (await lane.admin.queue_metrics(queue)).pending == 1
        await lane.admin.resume_worker(worker.worker_id)
        await until(lambda: settled(lane, queue, 1))
        assert worker.state is WorkerState.POLLING


async def test_shutdown_by_an_admin_drains(lane: Connection, address: str, queue: str) -> None:
    app = make_app(address)

    @app.handler(queue)
    async def handle(_: Message) -> None:
        pass

    worker = app.worker()
    task = asyncio.create_task(worker.run())
    await worker.running.wait()
    assert await lane.admin.shutdown_worker(worker.worker_id) is WorkerState.INTERRUPTED
    async with asyncio.timeout(20):
        await task
    assert (await lane.admin.get_worker(worker.worker_id)).state is WorkerState.STOPPED


async def test_drain_finishes_running_handlers_and_releases_the_rest(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)
    begun = asyncio.Event()

    @app.handler(queue, concurrency=2, prefetch=10)
    async def handle(_: Message) -> None:
        begun.set()
        await asyncio.sleep(0.3)

    await lane.producer(queue).batch_enqueue(range(8))
    async with running(app) as worker:
        await begun.wait()
        with pytest.raises(WorkerBusy):
            worker.shutdown()
    metrics = await lane.admin.queue_metrics(queue)
    assert metrics.locked == 0
    assert metrics.acknowledged + metrics.pending == 8
    assert metrics.acknowledged >= 2
    rest = await lane.consumer(queue).dequeue_many(8)
    assert {message.attempt for message in rest} == {1}


async def test_drain_times_out(lane: Connection, address: str, queue: str) -> None:
    app = make_app(
        address, worker=WorkerSettings(heartbeat=QUICK.heartbeat, drain=timedelta(seconds=0.3))
    )
    begun = asyncio.Event()
    stubborn = threading.Event()

    @app.handler(queue, partition="loop")
    async def handle(_: Message) -> None:
        begun.set()
        await asyncio.sleep(60)

    @app.handler(queue, partition="thread")
    def block(_: Message) -> None:
        stubborn.wait(60)

    await lane.producer(queue).enqueue(1, partition="loop")
    await lane.producer(queue).enqueue(2, partition="thread")
    began = time.monotonic()
    async with running(app) as worker:
        await until(lambda: look(lambda: worker.in_flight == 2))
    assert time.monotonic() - began < 20
    again = await lane.consumer(queue).dequeue_many(2, wait=SECOND * 10)
    assert [message.attempt for message in again] == [1, 1]
    stubborn.set()


@pytest.mark.parametrize("told", [1, 2])
async def test_starting_worker_can_be_stopped(
    address: str, queue: str, place: Place, told: int
) -> None:
    """Nobody can register while the table is locked, nor say goodbye."""
    app = make_app(address)

    @app.handler(queue)
    async def handle(_: Message) -> None:
        pass

    worker = app.worker()
    holder, watcher = await asyncpg.connect(place.dsn), await asyncpg.connect(place.dsn)
    try:
        async with holder.transaction():
            await holder.execute("lock table laneway.worker in access exclusive mode")
            task = asyncio.create_task(worker.run())
            await until(lambda: watcher.fetchval(REGISTERS))
            for _ in range(told):
                worker.stop()
            async with asyncio.timeout(20):
                await task
    finally:
        await holder.close()
        await watcher.close()
    assert not worker.running.is_set()


@pytest.mark.parametrize(
    ("way", "told"),
    [("gone", 1), ("gone", 2), ("silent", 1), ("silent", 2), ("silent", 3)],
)
async def test_stop_does_not_wait_for_an_unreachable_database(
    lane: Connection,
    address: str,
    queue: str,
    *,
    way: str,
    told: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Leaving and closing share one time, and being told once more cuts it short."""
    monkeypatch.setattr("laneway.worker.worker.GRACE", SECOND * (1 if told < 3 else 600))
    drain = timedelta(seconds=0.3) if told == 1 else SECOND * 600
    settings = WorkerSettings(heartbeat=QUICK.heartbeat, drain=drain)
    async with Proxy(address) as proxy:
        patient = replace(QUIET, shutdown=SECOND * 600)
        app = laneway.App(proxy.address, settings=patient, worker=settings)
        begun = asyncio.Event()

        @app.handler(queue, concurrency=1, prefetch=5, lock_time=SECOND * 600)
        async def handle(_: Message) -> None:
            begun.set()
            await asyncio.sleep(600)

        await lane.producer(queue).batch_enqueue(range(3))
        worker = app.worker()
        task = asyncio.create_task(worker.run())
        await begun.wait()
        await proxy.cut(silently=way == "silent")
        worker.stop()
        for _ in range(told - 1):
            # Not before it drains, and not before it leaves.
            await asyncio.sleep(0.1)
            worker.stop()
        async with asyncio.timeout(30):
            await task
