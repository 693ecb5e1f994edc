"""Workers as processes: killed, stopped by signals, and sharing a schedule."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from laneway.domain.workers import WorkerState
from tests.library.workers import make_app, program, running, settled, until

if TYPE_CHECKING:
    from pathlib import Path

    from laneway import Connection, Message
    from tests.library.conftest import Place

# Begins every message, says so, and never ends one.
STUCK = """
import asyncio, sys
from datetime import timedelta
import laneway
app = laneway.App(sys.argv[1], worker=laneway.WorkerSettings(
    heartbeat=timedelta(seconds=0.1), timeout=timedelta(seconds=1), drain=timedelta(seconds=10)))

@app.handler(sys.argv[2], concurrency=3, prefetch=0)
async def handle(message):
    print(message.payload, flush=True)
    await asyncio.sleep(float(sys.argv[3]))

app.run()
"""

# Says when a process for a handler starts, and when it handles; print might write a line in two pieces,
# with another process's between them.
PROCESSES = """
import os, sys, time
import laneway
app = laneway.App(sys.argv[1])

@app.handler(sys.argv[2], concurrency=2, prefetch=0, executor="process")
def handle(message):
    os.write(1, b"handles\\n")
    time.sleep(float(sys.argv[3]))

if __name__ == "__main__":
    app.run()
else:
    os.write(1, b"starts\\n")
    time.sleep(0.5)
"""


async def test_messages_of_a_killed_worker_are_finished_by_another_with_attempts_kept(
    lane: Connection, address: str, queue: str, tmp_path: Path
) -> None:
    await lane.producer(queue).batch_enqueue(range(3))
    async with program(STUCK, address, queue, "60", folder=tmp_path) as dying:
        assert dying.stdout is not None
        begun = {await dying.stdout.readline() for _ in range(3)}
        assert begun == {b"0\n", b"1\n", b"2\n"}
        dying.kill()
        await dying.wait()
    (dead,) = await lane.admin.list_workers(queue)
    assert (dead.state, dead.held) == (WorkerState.POLLING, 3)
    attempts: dict[int, int] = {}
    app = make_app(address)

    @app.handler(queue)
    async def handle(message: Message) -> None:
        attempts[message.payload] = message.attempt

    async with running(app):
        await until(lambda: settled(lane, queue, 3))
    # Its locks would have lasted for half a minute: it was not heard of, and reclaimed.
    assert attempts == {0: 2, 1: 2, 2: 2}
    states = {worker.worker_id: worker.state for worker in await lane.admin.list_workers(queue)}
    assert states[dead.worker_id] is WorkerState.STOPPED


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
async def test_signal_drains_the_worker(
    lane: Connection, place: Place, queue: str, tmp_path: Path, number: signal.Signals
) -> None:
    await lane.producer(queue).batch_enqueue(range(3))
    async with program(STUCK, place.dsn, queue, "0.5", folder=tmp_path) as draining:
        assert draining.stdout is not None
        for _ in range(3):
            await draining.stdout.readline()
        draining.send_signal(number)
        async with asyncio.timeout(20):
            assert await draining.wait() == 0
    metrics = await lane.admin.queue_metrics(queue)
    assert (metrics.acknowledged, metrics.locked) == (3, 0)
    (worker,) = await lane.admin.list_workers(queue)
    assert (worker.state, worker.handled) == (WorkerState.STOPPED, 3)


TWO = """
import asyncio, sys
import laneway

def make(partition):
    app = laneway.App(sys.argv[1])

    @app.handler(sys.argv[2], partition=partition)
    async def handle(message):
        print("begun", flush=True)
        await asyncio.sleep(0.5)

    return app

async def main():
    await asyncio.gather(make("a").work(), make("b").work())

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
async def test_signal_drains_all_apps_of_a_loop(
    lane: Connection, place: Place, queue: str, tmp_path: Path, number: signal.Signals
) -> None:
    for partition in "ab":
        await lane.producer(queue).enqueue(1, partition=partition)
    async with program(TWO, place.dsn, queue, folder=tmp_path) as draining:
        assert draining.stdout is not None
        for _ in range(2):
            await draining.stdout.readline()
        draining.send_signal(number)
        async with asyncio.timeout(30):
            assert await draining.wait() == 0
    metrics = await lane.admin.queue_metrics(queue)
    assert (metrics.acknowledged, metrics.locked) == (2, 0)
    states = [worker.state for worker in await lane.admin.list_workers(queue)]
    assert states == [WorkerState.STOPPED] * 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
@pytest.mark.parametrize("early", [True, False], ids=["starting", "running"])
async def test_signal_to_the_whole_group_drains_handlers_in_processes_too(
    lane: Connection,
    place: Place,
    queue: str,
    tmp_path: Path,
    *,
    number: signal.Signals,
    early: bool,
) -> None:
    """As Ctrl-C in a terminal does it, and systemd."""
    await lane.producer(queue).batch_enqueue(range(2))
    async with program(PROCESSES, place.dsn, queue, "1", folder=tmp_path) as draining:
        assert draining.stdout is not None
        awaited = b"starts\n" if early else b"handles\n"
        for _ in range(2):
            while await draining.stdout.readline() != awaited:
                pass
        os.killpg(draining.pid, number)
        async with asyncio.timeout(20):
            assert await draining.wait() == 0
    (worker,) = await lane.admin.list_workers(queue)
    assert (worker.state, worker.handled, worker.failed) == (WorkerState.STOPPED, 2, 0)


async def test_handlers_in_processes_end_with_a_worker_that_is_killed(
    lane: Connection, place: Place, queue: str, tmp_path: Path
) -> None:
    await lane.producer(queue).batch_enqueue(range(2))
    async with program(PROCESSES, place.dsn, queue, "600", folder=tmp_path) as dying:
        assert dying.stdout is not None
        for _ in range(2):
            while await dying.stdout.readline() != b"handles\n":
                pass
        dying.kill()
        # They have the same output: it ends with the last of them.
        async with asyncio.timeout(20):
            await dying.stdout.read()


async def test_ten_workers_fire_a_schedule_once_each_time(
    lane: Connection, address: str, queue: str
) -> None:
    due: Counter[str] = Counter()
    workers = []
    for _ in range(10):
        app = make_app(address)
        app.schedule(f"tick of {queue}", "* * * * * *", queue=queue)

        @app.handler(queue)
        async def handle(message: Message) -> None:
            due[message.payload["due"]] += 1

        workers.append(app.worker())
    tasks = [asyncio.create_task(worker.run()) for worker in workers]
    try:
        async with asyncio.timeout(30):
            while len(due) < 3:
                await asyncio.sleep(0.05)
    finally:
        for worker in workers:
            worker.stop()
        await asyncio.gather(*tasks)
    assert set(due.values()) == {1}
    pushed = await lane.admin.queue_metrics(queue)
    assert pushed.acknowledged == len(due)
