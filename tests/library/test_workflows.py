"""Workflows: each step completes once, whatever happens to the workers."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import laneway
from laneway import QueueSettings, Retry, step
from laneway.domain.errors import (
    Conflict,
    InvalidPayload,
    InvalidRequest,
    InvalidSetting,
    InvalidStateTransition,
    QueueExists,
    QueueNotEmpty,
    RunCancelled,
    RunFailed,
    RunNotFound,
    Unavailable,
)
from laneway.domain.runs import RunStatus
from laneway.library.runs import Run
from laneway.worker.middlewares import Metrics, trace
from tests.library.conftest import QUIET
from tests.library.proxy import Proxy
from tests.library.workers import look, make_app, program, running, settled, until
from tests.postgres import execute

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from laneway import Connection
    from laneway.domain.backend import Backend
    from laneway.domain.runs import RunInfo, StepInfo
    from tests.library.conftest import Place

LONG = timedelta(seconds=30)
ONCE = Retry(max_attempts=1)


async def test_run_returns_its_result(lane: Connection, address: str) -> None:
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
    assert (info.name, info.input, info.steps) == (name, [10, [1, 2, 3]], 3)


async def test_value_that_is_not_json_is_refused_unchanged(lane: Connection, address: str) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"

    @step
    async def divide(kind: str) -> list[float | None]:
        return [None, float("inf" if kind == "step" else 1)]

    @app.workflow(name=name)
    async def flow(kind: str) -> dict[str, float | None]:
        await divide(kind)
        return {"share": float("nan") if kind == "run" else None}

    with pytest.raises(InvalidPayload, match=r"\$\[1\]\.n is nan, which JSON does not have"):
        await lane.start(name, "fine", {"n": float("nan")})
    async with running(app):
        assert await (await lane.start(name, "fine")).result(LONG) == {"share": None}
        for kind, words in (("step", r"\$\[1\] is inf"), ("run", r"\$\.share is nan")):
            with pytest.raises(RunFailed, match=f"{words}, which JSON does not have"):
                await (await lane.start(name, kind)).result(LONG)


async def test_invalid_sleep_fails_the_run_with_a_clear_message(
    lane: Connection, address: str
) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"

    @app.workflow(name=name)
    async def flow() -> None:
        await laneway.sleep(5)  # type: ignore[arg-type]

    async with running(app):
        run = await lane.start(name)
        with pytest.raises(RunFailed, match="duration is 5: use a timedelta"):
            await run.result(LONG)
    with pytest.raises(InvalidRequest, match="timeout is 5: use a timedelta"):
        await run.result(5)  # type: ignore[arg-type]


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


async def test_paused_run_stops_at_its_next_step_and_resumes(
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


async def test_run_paused_and_resumed_in_a_step_is_driven_by_one(
    lane: Connection, address: str, queue: str
) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"
    reached, go = asyncio.Event(), asyncio.Event()

    @step
    async def part(label: str) -> None:
        log.append(label)
        if label == "first":
            reached.set()
            await go.wait()

    @app.workflow(name=name, queue=queue)
    async def flow(label: str) -> str:
        await part(label)
        await part(f"{label}, then")
        return label

    async with running(app):
        run = await lane.start(name, "first", queue=queue)
        await reached.wait()
        for _ in range(3):
            await run.pause()
            await run.resume()
        # Messages that were pushed before it are delivered before it.
        other = await lane.start(name, "other", queue=queue)
        assert await other.result(LONG) == "other"
        assert log.count("first") == 1
        go.set()
        assert await run.result(LONG) == "first"
    assert sorted(log) == ["first", "first, then", "other", "other, then"]


async def test_run_paused_and_resumed_in_its_sleep_is_driven_by_one(
    lane: Connection, address: str, queue: str
) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"

    @app.workflow(name=name, queue=queue)
    async def flow() -> None:
        await laneway.sleep(timedelta(hours=1))

    async with running(app):
        run = await lane.start(name, queue=queue)
        await until(lambda: asleep(lane, queue))
        for _ in range(4):
            await run.pause()
            await run.resume()
        assert (await lane.admin.queue_metrics(queue)).total == 1
        await run.cancel()


async def test_run_whose_sleep_ended_during_a_pause_continues_when_resumed(
    lane: Connection, address: str, queue: str
) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"

    @step
    async def part() -> None:
        log.append(1)

    @app.workflow(name=name, queue=queue)
    async def flow() -> str:
        await laneway.sleep(timedelta(seconds=1.2))
        await part()
        return "done"

    async with running(app):
        run = await lane.start(name, queue=queue)
        await until(lambda: asleep(lane, queue))
        await run.pause()
        await until(lambda: settled(lane, queue, 1))
        assert log == []
        await run.resume()
        assert await run.result(LONG) == "done"
    assert log == [1]


async def asleep(lane: Connection, queue: str) -> bool:
    return (await lane.admin.queue_metrics(queue)).delayed == 1


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


async def test_timer_occupies_no_worker_and_does_not_restart(
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


async def test_timer_is_no_failure_to_metrics_and_traces(
    lane: Connection, address: str, queue: str
) -> None:
    app, name, metrics = make_app(address), f"flow-{uuid4().hex[:8]}", Metrics()
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app.middleware(metrics)
    app.middleware(trace(provider.get_tracer("test")))

    @app.workflow(name=name, queue=queue)
    async def flow() -> str:
        await laneway.sleep(timedelta(seconds=1.2))
        return "awake"

    async with running(app):
        assert await (await lane.start(name, queue=queue)).result(LONG) == "awake"
        await until(lambda: settled(lane, queue, 1))
    timing, spans = metrics.timing(queue), exporter.get_finished_spans()
    assert (timing.calls, timing.failures) == (2, 0)
    assert [(span.status.is_ok, span.events) for span in spans] == [(True, ())] * 2


async def test_timer_beside_a_step_leaves_the_step_alone(lane: Connection, address: str) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"
    reached, go = asyncio.Event(), asyncio.Event()

    @step
    async def part() -> str:
        log.append(1)
        reached.set()
        await go.wait()
        return "part"

    @app.workflow(name=name)
    async def flow() -> tuple[str, None]:
        return await asyncio.gather(part(), laneway.sleep(timedelta(seconds=1.2)))

    async with running(app):
        run = await lane.start(name)
        await reached.wait()
        await until(lambda: woken(run))
        go.set()
        assert await run.result(LONG) == ["part", None]
    assert log == [1]


async def woken(run: laneway.Run) -> bool:
    """Tell whether the run's timer is over."""
    return any(item.remaining == timedelta(0) for item in await run.steps())


async def test_timer_is_no_error_to_the_function_around_it(lane: Connection, address: str) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"

    @step
    async def part() -> str:
        log.append(1)
        return "part"

    async def branch() -> str:
        return await part()

    @app.workflow(name=name)
    async def flow() -> list[str]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(branch())
            group.create_task(laneway.sleep(timedelta(seconds=1.2)))
        try:
            await laneway.sleep(timedelta(seconds=1.2))
        except Exception as error:  # noqa: BLE001 - that is the question
            return [repr(error)]
        return [task.result()]

    async with running(app):
        run = await lane.start(name)
        assert await run.result(LONG) == ["part"]
        assert all(not item.remaining for item in await run.steps())
    assert log == [1]


async def test_run_resumes_at_its_earliest_timer(lane: Connection, address: str) -> None:
    app, name, reached = make_app(address), f"flow-{uuid4().hex[:8]}", asyncio.Event()

    @step
    async def part() -> None:
        reached.set()

    async def short() -> None:
        await laneway.sleep(timedelta(seconds=1.2))
        await part()

    @app.workflow(name=name)
    async def flow() -> None:
        await asyncio.gather(laneway.sleep(timedelta(hours=1)), short())

    async with running(app):
        run = await lane.start(name)
        async with asyncio.timeout(30):
            await reached.wait()
        await run.cancel()


async def test_run_ends_when_no_step_of_it_is_left(lane: Connection, address: str) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"
    failed, go, well = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @step
    async def slow() -> None:
        log.append("slow")
        await go.wait()

    @step(retry=ONCE)
    async def broken() -> None:
        if not well.is_set():
            failed.set()
            raise ValueError("broken")

    @app.workflow(name=name)
    async def flow() -> str:
        await asyncio.gather(slow(), broken())
        return "done"

    async with running(app):
        run = await lane.start(name)
        await failed.wait()
        with pytest.raises(TimeoutError):
            await run.result(timedelta(milliseconds=300))
        go.set()
        with pytest.raises(RunFailed, match="ValueError: broken"):
            await run.result(LONG)
        well.set()
        await run.resume()
        assert await run.result(LONG) == "done"
    assert log == ["slow"]


async def test_laneway_error_fails_the_run(lane: Connection, address: str) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"

    @app.workflow(name=name)
    async def flow() -> None:
        raise Unavailable("another database")

    async with running(app):
        run = await lane.start(name)
        with pytest.raises(RunFailed, match="Unavailable: another database"):
            await run.result(LONG)


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


def close() -> None:
    raise GeneratorExit


@pytest.mark.parametrize(
    ("fail", "reason"),
    [(leave, "SystemExit: 3"), (cancel, "CancelledError"), (close, "GeneratorExit")],
)
async def test_step_that_exits_fails_its_run_and_not_the_worker(
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


async def test_run_survives_killed_workers_whatever_the_queue_allows(
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
        await until(lambda: look(lambda: worker.in_flight > 0))  # noqa: B023 - called at once
        await lane.admin.reclaim(worker.worker_id)
        async with asyncio.timeout(20):
            await task
    assert await run.status() is RunStatus.RUNNING
    well.set()
    async with running(app):
        assert await run.result(LONG) == "done"


async def test_id_of_another_workflow_s_run_is_refused(lane: Connection, queue: str) -> None:
    run = await lane.start("first", 1, queue=queue, run_id=uuid4().hex)
    assert (await lane.start("first", 2, queue=queue, run_id=run.run_id)).run_id == run.run_id
    with pytest.raises(Conflict, match='belongs to workflow "first", not "second"'):
        await lane.start("second", queue=queue, run_id=run.run_id)
    assert (await run.info()).name == "first"
    assert (await lane.admin.queue_metrics(queue)).pending == 1


def test_plain_functions_are_refused_by_their_names() -> None:
    def plain() -> None: ...

    app = laneway.App("postgresql://nowhere/nothing")
    with pytest.raises(InvalidSetting, match=r"workflow .*plain is not asynchronous: define it"):
        app.workflow()(plain)
    with pytest.raises(InvalidSetting, match=r"step .*plain is not asynchronous: define it"):
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
    # Type checkers let it be a task.
    assert await asyncio.create_task(add(1)) == 2
    with pytest.raises(InvalidSetting):
        step(print)  # type: ignore[arg-type]


class Watched:
    """A backend that tells when a run was seen, and when it could not be."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.workflows = self
        self.seen = asyncio.Event()
        self.refused = asyncio.Event()

    async def load_run(self, run_id: str) -> RunInfo:
        try:
            info = await self._backend.workflows.load_run(run_id)
        except Unavailable:
            self.refused.set()
            raise
        self.seen.set()
        return info


async def test_wait_for_a_result_survives_a_database_outage(
    lane: Connection, address: str, queue: str
) -> None:
    run = await lane.start("flow", queue=queue)
    async with Proxy(address) as proxy, laneway.connect(proxy.address, settings=QUIET) as other:
        watched = Watched(other.backend)
        waiting = asyncio.create_task(
            Run(cast("Backend", watched), run.run_id).result(timedelta(days=2))
        )
        async with asyncio.timeout(LONG.total_seconds()):
            await watched.seen.wait()
            await proxy.cut()
            await watched.refused.wait()
            await run.cancel()
            await proxy.mend()
            with pytest.raises(RunCancelled):
                await waiting


async def test_wait_for_a_result_times_out(lane: Connection, address: str, queue: str) -> None:
    run = await lane.start("flow", queue=queue)
    async with Proxy(address) as proxy, laneway.connect(proxy.address, settings=QUIET) as other:
        await proxy.cut()
        with pytest.raises(TimeoutError, match=run.run_id):
            await other.run(run.run_id).result(timedelta(milliseconds=500))
        with pytest.raises(TimeoutError, match=f"{run.run_id} could not be read: .*"):
            await other.run(run.run_id).result(timedelta(0))


async def test_only_timers_have_remaining_time(lane: Connection, address: str) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"

    @step
    async def count() -> int:
        return 7

    @app.workflow(name=name)
    async def flow() -> int:
        await laneway.sleep(timedelta(milliseconds=1))
        number = await count()
        await laneway.sleep(timedelta(hours=1))
        return number

    async with running(app):
        run = await lane.start(name)
        over, done, ahead = await until(lambda: at_least(run, 3))
    assert (over.result, over.remaining) == (None, timedelta(0))
    assert (done.result, done.remaining) == (7, None)
    assert ahead.remaining > timedelta(0)
    await run.cancel()


async def at_least(run: Run, n: int) -> list[StepInfo]:
    steps = await run.steps()
    return steps if len(steps) >= n else []


async def test_result_is_there_without_a_wait(lane: Connection, address: str) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"

    @app.workflow(name=name)
    async def flow() -> int:
        return 7

    async with running(app):
        run = await lane.start(name)
        assert await run.result(LONG) == 7
        assert await run.result(timedelta(0)) == 7
    run = await lane.start(name)
    with pytest.raises(TimeoutError, match=f"{run.run_id} is still running"):
        await run.result(timedelta(0))


async def test_run_ends_with_its_queue(lane: Connection, address: str, queue: str) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"
    begun, deleted, after = asyncio.Event(), asyncio.Event(), []

    @step
    async def first() -> None:
        begun.set()
        await deleted.wait()

    @step
    async def second() -> None:
        after.append("second")

    @app.workflow(name=name, queue=queue)
    async def flow() -> None:
        await first()
        await second()

    async with running(app):
        run = await lane.start(name, queue=queue)
        await begun.wait()
        with pytest.raises(QueueNotEmpty):
            await lane.admin.delete_queue(queue)
        await lane.admin.delete_queue(queue, force=True)
        deleted.set()
        with pytest.raises(RunFailed, match="its queue was deleted"):
            await run.result(LONG)
    assert after == []
    with pytest.raises(Conflict, match=f'queue of workflow run "{run.run_id}" was deleted'):
        await run.resume()
    assert await run.status() is RunStatus.FAILED
    assert await lane.verify() == []


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


async def test_any_number_of_old_runs_is_purged(lane: Connection, place: Place) -> None:
    await execute(
        place.dsn,
        "insert into laneway.workflow (run_id, name, queue_id, status, input, finished_at)"
        " select gen_random_uuid(), 'flow', 0, 'completed', '[]', now() - interval '3 years'"
        " from generate_series(1, 2001)",
    )
    assert await lane.admin.purge_runs(timedelta(days=2 * 365)) == 2001
    assert await lane.admin.purge_runs(timedelta(days=2 * 365)) == 0


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
