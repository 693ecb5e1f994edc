"""Workers that were reclaimed after a long silence, and continue."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from laneway import QueueSettings, WorkerSettings
from laneway.domain.workers import WorkerState
from tests.library.workers import in_state, look, make_app, program, running, settled, until

if TYPE_CHECKING:
    from pathlib import Path

    from laneway import Connection, Message

SECOND = timedelta(seconds=1)

# Says what it begins, and is slow with the first.
WORKER = """
import asyncio, sys
from datetime import timedelta
import laneway
app = laneway.App(sys.argv[1], worker=laneway.WorkerSettings(
    heartbeat=timedelta(seconds=0.1), timeout=timedelta(seconds=0.6)))

@app.handler(sys.argv[2], concurrency=1, prefetch=0)
async def handle(message):
    print(message.payload, message.attempt, flush=True)
    if message.attempt == 1 and message.payload == "slow":
        await asyncio.sleep(60)

app.run()
"""


async def test_reclaimed_worker_continues_when_it_is_back(
    lane: Connection, address: str, queue: str, tmp_path: Path
) -> None:
    await lane.producer(queue).enqueue("slow")
    async with program(WORKER, address, queue, folder=tmp_path) as worker:
        assert worker.stdout is not None
        assert await worker.stdout.readline() == b"slow 1\n"
        (known,) = await lane.admin.list_workers(queue)
        # It can reach nobody, and is taken for dead.
        os.kill(worker.pid, signal.SIGSTOP)
        await until(lambda: in_state(lane, known.worker_id, WorkerState.STOPPED))
        assert not (await lane.admin.get_worker(known.worker_id)).healthy
        os.kill(worker.pid, signal.SIGCONT)
        await until(lambda: in_state(lane, known.worker_id, WorkerState.POLLING))
        # What it held is another attempt's now, and its handler for that is free again.
        assert await worker.stdout.readline() == b"slow 2\n"
        await lane.producer(queue).enqueue("next")
        await until(lambda: settled(lane, queue, 2))
        assert (await lane.admin.get_worker(known.worker_id)).healthy
        worker.terminate()
        async with asyncio.timeout(20):
            assert await worker.wait() == 0
    assert await in_state(lane, known.worker_id, WorkerState.STOPPED)
    assert (await lane.admin.queue_metrics(queue)).acknowledged == 2


async def test_removed_worker_registers_again(lane: Connection, address: str, queue: str) -> None:
    app = make_app(address)

    @app.handler(queue)
    async def handle(_: Message) -> None: ...

    async with running(app) as worker:
        await lane.admin.reclaim_dead(timedelta(0))
        await lane.admin.purge_old_workers(timedelta(0))
        await until(lambda: known_in_state(lane, worker.worker_id, WorkerState.POLLING))
        await lane.producer(queue).enqueue(1)
        await until(lambda: settled(lane, queue, 1))


async def known_in_state(lane: Connection, worker_id: str, state: WorkerState) -> bool:
    return (worker_id, state) in [
        (item.worker_id, item.state) for item in await lane.admin.list_workers()
    ]


async def test_late_acknowledgement_of_a_reclaimed_message_changes_nothing(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)
    begun, go = asyncio.Event(), asyncio.Event()
    lost: list[bool] = []

    @app.handler(queue, concurrency=1, prefetch=0)
    async def handle(message: Message) -> None:
        if message.attempt > 1:
            return
        begun.set()
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                lost.append(message.lost)

    await lane.producer(queue).enqueue(1)
    async with running(app) as worker:
        await begun.wait()
        await lane.admin.reclaim_dead(timedelta(0))
        await until(lambda: look(lambda: bool(lost)))
        other = await lane.consumer(queue).dequeue(wait=timedelta(seconds=10))
        assert other is not None
        go.set()
        await until(lambda: look(lambda: worker.in_flight == 0))
        assert await lane.consumer(queue).delete(other)
    assert lost == [True]
    assert other.attempt == 2


async def test_reclaimed_worker_stays_suspended(lane: Connection, address: str, queue: str) -> None:
    app = make_app(address)

    @app.handler(queue)
    async def handle(_: Message) -> None: ...

    async with running(app) as worker:
        await lane.admin.suspend_worker(worker.worker_id)
        await until(lambda: in_state(lane, worker.worker_id, WorkerState.SUSPENDED))
        await lane.admin.reclaim_dead(timedelta(0))
        await until(lambda: in_state(lane, worker.worker_id, WorkerState.SUSPENDED))
        await lane.producer(queue).enqueue(1)
        await lane.admin.resume_worker(worker.worker_id)
        await until(lambda: settled(lane, queue, 1))


@pytest.mark.parametrize("release", [False, True], ids=["reclaimed", "released"])
async def test_worker_stopped_by_an_admin_ends(
    lane: Connection, address: str, queue: str, *, release: bool
) -> None:
    app = make_app(address)

    @app.handler(queue)
    async def handle(_: Message) -> None:
        await asyncio.sleep(60)

    await lane.producer(queue).enqueue(1)
    worker = app.worker()
    task = asyncio.create_task(worker.run())
    await until(lambda: look(lambda: worker.in_flight == 1))
    before = (await lane.admin.worker_stats()).healthy
    if release:
        await lane.admin.shutdown_worker(worker.worker_id, release=True)
    else:
        await lane.admin.reclaim(worker.worker_id)
    async with asyncio.timeout(20):
        await task
    info = await lane.admin.get_worker(worker.worker_id)
    assert (info.state, info.asked) == (WorkerState.STOPPED, WorkerState.STOPPED)
    assert not info.healthy
    assert (await lane.admin.worker_stats()).healthy < before


@pytest.mark.parametrize("ordered", [False, True], ids=["shared", "ordered"])
@pytest.mark.parametrize("release", [False, True], ids=["reclaimed", "released"])
async def test_stopped_worker_is_not_redelivered_its_own_messages(
    lane: Connection, address: str, queue: str, *, release: bool, ordered: bool
) -> None:
    """It learns that it was stopped with its next heartbeat only, and would have it twice until then."""
    name = f"{queue}-stopped"
    await lane.admin.create_queue(name, QueueSettings(ordered=ordered))
    deaf = WorkerSettings(
        heartbeat=SECOND * 600, timeout=SECOND * 1200, drain=timedelta(milliseconds=100)
    )
    app = make_app(address, worker=deaf)
    begun = []

    @app.handler(name, concurrency=4)
    async def handle(message: Message) -> None:
        begun.append(message.payload)
        await asyncio.sleep(600)

    async with running(app) as worker:
        await lane.producer(name).enqueue(1)
        await until(lambda: look(lambda: worker.in_flight == 1))
        if release:
            await lane.admin.shutdown_worker(worker.worker_id, release=True)
        else:
            await lane.admin.reclaim(worker.worker_id)
        again = await lane.consumer(name).dequeue(wait=SECOND * 30)
        assert again is not None
        assert again.attempt == (1 if release else 2)
    assert begun == [1]
