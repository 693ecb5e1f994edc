"""Workflows: steps finished once, whatever happens to the workers."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import laneway
from laneway import QueueSettings, Retry, step
from laneway.domain.errors import (
    Conflict,
    InvalidSetting,
    InvalidStateTransition,
    QueueExists,
    QueueNotFound,
    RunCancelled,
    RunFailed,
    RunNotFound,
)
from laneway.domain.runs import RunStatus
from tests.library.conftest import QUIET
from tests.library.workers import look, make_app, program, running, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from laneway import Connection
    from tests.library.conftest import Place

LONG = timedelta(seconds=30)


async def test_result_of_a_run(lane: Connection, address: str) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"

    @step
    async def add(a: int, b: int) -> int:
        log.append((a, b))
        return a + b

    @app.workflow(name=name)
    async def flow(start: int, values: list[int]) -> dict[str, Any]:
        total = start
        for value in values:
            total = await add(total, value)
        return {"total": total}

    async with running(app):
        run = await lane.start(name, 10, [1, 2, 3])
        assert await run.result(LONG) == {"total": 16}
        assert await run.status() is RunStatus.COMPLETED
        assert [item.step for item in await run.steps()] == ["add#1", "add#2", "add#3"]
        assert log == [(10, 1), (11, 2), (13, 3)]
        again = await lane.start(name, 0, [], run_id=run.run_id)
        assert await again.result(LONG) == {"total": 16}
    assert run.run_id in [item.run_id for item in await lane.admin.list_runs()]
    info = await lane.run(run.run_id).info()
    assert (info.name, info.input, info.steps) == (name, "[10,[1,2,3]]", 3)


async def test_transient_errors_are_retried_by_policy_and_others_fail_the_run(
    lane: Connection, address: str
) -> None:
    app, tries, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"

    @step(retry=Retry(max_attempts=3, backoff=timedelta(milliseconds=10), on=(ConnectionError,)))
    async def call(kind: str) -> str:
        tries.append(kind)
        if kind == "flaky" and tries.count(kind) < 3:
            raise ConnectionError("away")
        if kind == "broken":
            raise ValueError("never works")
        return kind

    @app.workflow(name=name)
    async def flow(*kinds: str) -> list[str]:
        return [await call(kind) for kind in kinds]

    async with running(app):
        run = await lane.start(name, "fine", "flaky")
        assert await run.result(LONG) == ["fine", "flaky"]
        assert tries == ["fine", "flaky", "flaky", "flaky"]
        run = await lane.start(name, "fine", "broken")
        with pytest.raises(RunFailed, match="ValueError: never works"):
            await run.result(LONG)
        assert tries.count("broken") == 1
        # A failed run goes on from where it failed.
        await run.resume()
        with pytest.raises(RunFailed):
            await run.result(LONG)
        assert (tries.count("fine"), tries.count("broken")) == (2, 2)


async def test_paused_run_stops_at_its_next_step_and_goes_on(
    lane: Connection, address: str
) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"
    reached, go = asyncio.Event(), asyncio.Event()

    @step
    async def part(n: int) -> None:
        log.append(n)
        if n == 1:
            reached.set()
            await go.wait()

    @app.workflow(name=name)
    async def flow() -> str:
        for n in (1, 2, 3):
            await part(n)
        return "done"

    async with running(app):
        run = await lane.start(name)
        await reached.wait()
        assert await run.pause() is RunStatus.PAUSED
        go.set()
        with pytest.raises(TimeoutError):
            await run.result(timedelta(milliseconds=300))
        assert log == [1]
        with pytest.raises(InvalidStateTransition):
            await run.pause()
        await run.resume()
        assert await run.result(LONG) == "done"
    assert log == [1, 2, 3]


async def test_cancelled_run_ends_at_its_next_step(lane: Connection, address: str) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"
    reached, go = asyncio.Event(), asyncio.Event()

    @step
    async def part(n: int) -> None:
        log.append(n)
        reached.set()
        await go.wait()

    @app.workflow(name=name)
    async def flow() -> None:
        for n in (1, 2):
            await part(n)

    async with running(app):
        run = await lane.start(name)
        await reached.wait()
        await run.cancel()
        go.set()
        with pytest.raises(RunCancelled):
            await run.result(LONG)
        with pytest.raises(InvalidStateTransition):
            await run.cancel()
    assert log == [1]


async def test_timer_holds_no_worker_and_does_not_begin_anew(
    lane: Connection, address: str
) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"

    @app.workflow(name=name, concurrency=1)
    async def flow(label: str) -> str:
        log.append(label)
        if label == "long":
            await laneway.sleep(timedelta(seconds=1.5))
        await laneway.sleep(timedelta(milliseconds=50))
        log.append(f"{label} awake")
        return label

    async with running(app):
        long = await lane.start(name, "long")
        short = await lane.start(name, "short")
        assert await short.result(LONG) == "short"
        assert await long.status() is RunStatus.RUNNING
        assert await long.result(LONG) == "long"
    assert log.index("short awake") < log.index("long awake")
    assert log.count("long awake") == 1


async def test_steps_in_parallel_keep_their_results_apart(lane: Connection, address: str) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"

    @step
    async def square(n: int) -> int:
        await asyncio.sleep(0.01 * (3 - n))
        return n * n

    @app.workflow(name=name)
    async def flow() -> list[int]:
        return list(await asyncio.gather(*(square(n) for n in range(4))))

    async with running(app):
        run = await lane.start(name)
        assert await run.result(LONG) == [0, 1, 4, 9]


def leave() -> None:
    sys.exit(3)


def cancel() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize(("fail", "reason"), [(leave, "SystemExit: 3"), (cancel, "CancelledError")])
async def test_step_that_leaves_fails_its_run_and_not_the_worker(
    lane: Connection, address: str, fail: Callable[[], None], reason: str
) -> None:
    app, tries, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"

    @step(retry=Retry(max_attempts=2, backoff=timedelta(0)))
    async def part() -> None:
        tries.append(1)
        if len(tries) < 3:
            fail()

    @app.workflow(name=name, concurrency=1)
    async def flow() -> str:
        await part()
        return "done"

    async with running(app):
        run = await lane.start(name)
        with pytest.raises(RunFailed, match=reason):
            await run.result(LONG)
        assert len(tries) == 2
        await run.resume()
        assert await run.result(LONG) == "done"


async def test_run_does_not_die_with_its_workers_however_few_attempts_its_queue_allows(
    lane: Connection, address: str, queue: str
) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"
    well = asyncio.Event()
    run = await lane.start(name, queue=queue)
    assert (await lane.admin.get_queue(queue)).settings.max_attempts == 3

    @app.workflow(name=name, queue=queue)
    async def flow() -> str:
        await well.wait()
        return "done"

    for _ in range(4):
        worker = app.worker()
        task = asyncio.create_task(worker.run())
        await until(lambda: look(lambda: worker.holding > 0))  # noqa: B023 - called at once
        await lane.admin.reclaim(worker.worker_id)
        async with asyncio.timeout(20):
            await task
    assert await run.status() is RunStatus.RUNNING
    well.set()
    async with running(app):
        assert await run.result(LONG) == "done"


async def test_start_without_a_queue_says_who_makes_it(lane: Connection) -> None:
    with pytest.raises(QueueNotFound, match='worker that has workflow "flow" makes it, start one'):
        await lane.start("flow", queue="nowhere at all")


async def test_id_of_another_workflow_s_run_is_refused(lane: Connection, queue: str) -> None:
    run = await lane.start("first", 1, queue=queue, run_id=uuid4().hex)
    assert (await lane.start("first", 2, queue=queue, run_id=run.run_id)).run_id == run.run_id
    with pytest.raises(Conflict, match='is one of workflow "first", not "second"'):
        await lane.start("second", queue=queue, run_id=run.run_id)
    assert (await run.info()).name == "first"
    assert (await lane.admin.queue_metrics(queue)).pending == 1


def test_plain_functions_are_refused_by_their_names() -> None:
    def plain() -> None: ...

    app = laneway.App("postgresql://nowhere/nothing")
    with pytest.raises(InvalidSetting, match=r"workflow .*plain is not asynchronous: make it"):
        app.workflow()(plain)
    with pytest.raises(InvalidSetting, match=r"step .*plain is not asynchronous: make it"):
        step(plain)  # type: ignore[arg-type]


async def test_unknown_run_is_named(lane: Connection) -> None:
    with pytest.raises(RunNotFound, match="nobody"):
        await lane.run("nobody").status()
    with pytest.raises(RunNotFound):
        await lane.run("nobody").cancel()


async def test_step_outside_of_a_workflow_is_the_function() -> None:
    @step
    async def add(a: int) -> int:
        return a + 1

    assert await add(1) == 2
    with pytest.raises(InvalidSetting):
        step(print)  # type: ignore[arg-type]


async def test_old_runs_are_purged_with_their_steps(lane: Connection, address: str) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"

    @app.workflow(name=name)
    async def flow() -> None:
        pass

    async with running(app):
        run = await lane.start(name)
        await run.result(LONG)
    assert await lane.admin.purge_runs(timedelta(hours=1)) == 0
    assert await lane.admin.purge_runs(timedelta(0)) >= 1
    with pytest.raises(RunNotFound):
        await run.status()


# Dies by kill -9 at the boundary named: before a step, in it, or after it was kept.
MORTAL = """
import asyncio, os, signal, sys
from datetime import timedelta
from pathlib import Path
import laneway
address, name, log, boundary = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
app = laneway.App(address, worker=laneway.WorkerSettings(
    heartbeat=timedelta(seconds=0.1), timeout=timedelta(seconds=0.5)))

def die_at(point):
    if point == boundary:
        os.kill(os.getpid(), signal.SIGKILL)

@laneway.step
async def part(n):
    with log.open("a") as file:
        file.write(f"{n}\\n")
    die_at(f"in {n}")
    return n * 10

@app.workflow(name=name)
async def flow():
    total = 0
    for n in (1, 2, 3):
        die_at(f"before {n}")
        total += await part(n)
        die_at(f"after {n}")
    return total

app.run()
"""


async def test_run_of_a_killed_worker_continues_on_another(place: Place, tmp_path: Path) -> None:
    points = [f"{when} {n}" for n in (1, 2, 3) for when in ("before", "in", "after")]
    async with laneway.connect(place.dsn, settings=QUIET) as lane:
        with suppress(QueueExists):
            await lane.admin.create_queue("workflows", QueueSettings(max_attempts=None))
        async with asyncio.TaskGroup() as group:
            for number, point in enumerate(points):
                folder = tmp_path / str(number)
                folder.mkdir()
                group.create_task(kill_and_continue(lane, place.dsn, point, folder))


async def kill_and_continue(lane: Connection, dsn: str, point: str, folder: Path) -> None:
    name, log = f"flow-{uuid4().hex[:8]}", folder / "log"
    run = await lane.start(name)
    async with program(MORTAL, dsn, name, str(log), point, folder=folder) as dying:
        assert await dying.wait() == -9
    assert await run.status() is RunStatus.RUNNING
    async with program(MORTAL, dsn, name, str(log), "never", folder=folder):
        assert await run.result(timedelta(seconds=60)) == 60
    # Only a step that was killed in the middle runs twice.
    expected = ["1", "2", "3"]
    when, n = point.split()
    if when == "in":
        expected.insert(int(n), n)
    assert log.read_text().split() == expected, point
