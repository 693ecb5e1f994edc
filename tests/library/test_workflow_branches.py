"""Branches of a workflow keep their own steps."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import laneway
from laneway import QueueSettings, Retry, Snooze, step
from laneway.domain.errors import QueueExists
from tests.library.conftest import QUIET
from tests.library.workers import look, make_app, program, running, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from pathlib import Path

    from laneway import Connection
    from tests.library.conftest import Place

LONG = timedelta(seconds=30)


async def in_gather(*branches: Coroutine[Any, Any, Any]) -> list[Any]:
    return list(await asyncio.gather(*branches))


async def in_group(*branches: Coroutine[Any, Any, Any]) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(branch) for branch in branches]
    return [task.result() for task in tasks]


async def in_tasks(*branches: Coroutine[Any, Any, Any]) -> list[Any]:
    tasks = [asyncio.create_task(branch) for branch in branches]
    return [await task for task in reversed(tasks)][::-1]


async def in_limits(*branches: Coroutine[Any, Any, Any]) -> list[Any]:
    return await in_gather(*(asyncio.wait_for(branch, 20) for branch in branches))


async def in_wait(*branches: Coroutine[Any, Any, Any]) -> list[Any]:
    tasks = [asyncio.create_task(branch) for branch in branches]
    await asyncio.wait(tasks)
    return [task.result() for task in tasks]


async def in_joined_gather(*branches: Coroutine[Any, Any, Any]) -> list[Any]:
    return list(await laneway.join(asyncio.gather(*branches)))


async def in_joined_wait(*branches: Coroutine[Any, Any, Any]) -> list[Any]:
    tasks = [asyncio.create_task(branch) for branch in branches]
    await laneway.join(asyncio.wait(tasks))
    return [task.result() for task in tasks]


async def in_joined_tasks(*branches: Coroutine[Any, Any, Any]) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(branch) for branch in branches]
        return [await laneway.join(task) for task in tasks]


together = pytest.mark.parametrize(
    "together", [in_gather, in_group, in_tasks, in_limits, in_joined_gather]
)


class Again:
    """Makes a run continue from the start once; its finished steps then return at once."""

    def __init__(self) -> None:
        self.passes = 0

    def __call__(self) -> None:
        self.passes += 1
        if self.passes == 1:
            raise Snooze(timedelta(0))


@together
async def test_branches_keep_their_own_steps_when_the_run_resumes(
    lane: Connection, address: str, together: Callable[..., Awaitable[list[Any]]]
) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"
    again, b_is_done = Again(), asyncio.Event()

    @step
    async def charge(order: str) -> str:
        if order == "A":
            await b_is_done.wait()
        log.append(f"charge {order}")
        return f"receipt {order}"

    @step
    async def ship(order: str) -> str:
        log.append(f"ship {order}")
        if order == "B":
            b_is_done.set()
        return f"parcel {order}"

    async def one(order: str) -> list[str]:
        receipt = await charge(order)
        await laneway.sleep(timedelta(milliseconds=1 if order == "A" else 2))
        return [order, receipt, await ship(order)]

    @app.workflow(name=name)
    async def flow(*orders: str) -> list[Any]:
        found = await together(*(one(order) for order in orders))
        again()
        return found

    async with running(app):
        run = await lane.start(name, "A", "B")
        assert await run.result(LONG) == [[o, f"receipt {o}", f"parcel {o}"] for o in "AB"]
        assert len(await run.steps()) == 6
    assert again.passes == 2
    assert log == ["charge B", "ship B", "charge A", "ship A"]


async def test_steps_are_named_by_the_branch_that_made_them(lane: Connection, address: str) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"

    @step
    async def part(n: int) -> int:
        return n

    async def inner(n: int) -> int:
        return await part(n)

    async def outer() -> None:
        await asyncio.gather(inner(4), inner(5))
        await laneway.sleep(timedelta(0))

    @app.workflow(name=name)
    async def flow() -> None:
        await part(1)
        # A step that is passed to gather directly is counted in the task that calls gather.
        await asyncio.gather(part(2), part(3), laneway.sleep(timedelta(0)))
        await asyncio.gather(outer(), inner(6), inner(7))
        await part(8)

    async with running(app):
        run = await lane.start(name)
        await run.result(LONG)
        kept = {item.step: item.result for item in await run.steps()}
    assert kept == {
        "part#1": 1,
        "part#2": 2,
        "part#3": 3,
        "sleep#1": None,
        "outer#1/inner#1/part#1": 4,
        "outer#1/inner#2/part#1": 5,
        "outer#1/sleep#1": None,
        "inner#1/part#1": 6,
        "inner#2/part#1": 7,
        "part#4": 8,
    }


async def test_optional_tasks_do_not_rename_branches(lane: Connection, address: str) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"
    again = Again()

    @step
    async def part(n: int) -> int:
        log.append(n)
        # Tasks created within a step do not count either: a finished step does not run again.
        await asyncio.gather(branch_of_a_step(), branch_of_a_step())
        return n

    async def branch_of_a_step() -> None:
        await asyncio.sleep(0)

    async def branch(n: int) -> int:
        return await part(n)

    async def connect() -> None:
        await asyncio.sleep(0)

    @app.workflow(name=name)
    async def flow() -> list[int]:
        if not again.passes:
            await asyncio.create_task(connect())
        found = await part(0), *await asyncio.gather(branch(1), branch(2))
        again()
        return list(found)

    async with running(app):
        assert await (await lane.start(name)).result(LONG) == [0, 1, 2]
    assert log == [0, 1, 2]


async def test_step_that_a_step_calls_is_part_of_it(lane: Connection, address: str) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"
    again = Again()

    @step(retry=Retry(max_attempts=2, backoff=timedelta(0)))
    async def fetch(what: str) -> str:
        log.append(what)
        if log.count("A") == 1:
            raise ConnectionError("retried by its own policy")
        return f"fetched {what}"

    @step
    async def prepare(what: str) -> str:
        await laneway.sleep(timedelta(0))
        return f"prepared {await fetch(what)}"

    @app.workflow(name=name)
    async def flow() -> list[str]:
        found = [await prepare("A"), await fetch("B")]
        again()
        return found

    async with running(app):
        run = await lane.start(name)
        assert await run.result(LONG) == ["prepared fetched A", "fetched B"]
        assert [item.step for item in await run.steps()] == ["prepare#1", "fetch#1"]
    assert again.passes == 2
    assert log == ["A", "A", "B"]


@together
async def test_pause_leaves_steps_of_other_branches_alone(
    lane: Connection, address: str, together: Callable[..., Awaitable[list[Any]]]
) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"
    paying, paused, quick_is_done, go = (asyncio.Event() for _ in range(4))

    @step
    async def quick() -> None:
        await paying.wait()
        await paused.wait()
        log.append("quick")
        quick_is_done.set()

    @step
    async def pay() -> str:
        log.append("pay begins")
        paying.set()
        await go.wait()
        log.append("pay ends")
        return "paid"

    @step
    async def later() -> None:
        log.append("later")

    async def branch() -> None:
        await quick()
        await later()

    @app.workflow(name=name)
    async def flow() -> list[Any]:
        return await together(branch(), pay())

    async with running(app):
        run = await lane.start(name)
        await paying.wait()
        await run.pause()
        paused.set()
        await quick_is_done.wait()
        await until(lambda: kept(run, 1))
        with pytest.raises(TimeoutError):
            await run.result(timedelta(milliseconds=100))
        go.set()
        await until(lambda: kept(run, 2))
        await run.resume()
        assert await run.result(LONG) == [None, "paid"]
    assert log == ["pay begins", "quick", "pay ends", "later"]


async def kept(run: laneway.Run, n: int) -> bool:
    return len(await run.steps()) == n


@pytest.mark.parametrize("how", ["gather", "watchdog", "wait"])
async def test_long_timer_delays_no_step_of_another_branch(
    lane: Connection, address: str, how: str
) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"
    done = asyncio.Event()

    @step
    async def part() -> str:
        log.append("part")
        done.set()
        return "part"

    async def branch() -> str:
        log.append("branch")
        await asyncio.sleep(0.3)
        return await part()

    @app.workflow(name=name)
    async def flow() -> str:
        if how == "gather":
            return (await asyncio.gather(branch(), laneway.sleep(timedelta(hours=1))))[0]
        timer = asyncio.create_task(laneway.sleep(timedelta(hours=1)))
        if how == "watchdog":
            found = await branch()
        else:
            task = asyncio.create_task(branch())
            await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
            found = task.result()
        timer.cancel()
        return found

    async with running(app):
        run = await lane.start(name)
        async with asyncio.timeout(30):
            await done.wait()
        if how == "gather":
            await run.cancel()
        else:
            assert await run.result(LONG) == "part"
    assert log == ["branch", "part"]


@pytest.mark.parametrize("together", [in_joined_gather, in_joined_wait, in_joined_tasks])
async def test_run_is_suspended_when_every_branch_waits_for_a_timer(
    lane: Connection, address: str, queue: str, together: Callable[..., Awaitable[list[Any]]]
) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"

    async def branch() -> None:
        await laneway.sleep(timedelta(hours=1))

    @app.workflow(name=name, queue=queue)
    async def flow() -> None:
        await together(branch(), laneway.sleep(timedelta(hours=2)))

    async with running(app) as worker:
        run = await lane.start(name, queue=queue)
        await until(lambda: kept(run, 2))
        await until(lambda: look(lambda: worker.in_flight == 0), within=4)
        await run.cancel()


@pytest.mark.parametrize("together", [in_gather, in_group, in_tasks, in_wait])
async def test_run_whose_branches_are_awaited_without_join_is_suspended_after_seconds(
    lane: Connection,
    address: str,
    together: Callable[..., Awaitable[list[Any]]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("laneway.worker.progress.PATIENCE", 0.3)
    caplog.set_level("INFO", "laneway.worker.progress")
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"

    async def branch() -> None:
        await laneway.sleep(timedelta(hours=1))

    @app.workflow(name=name)
    async def flow() -> None:
        await together(branch(), laneway.sleep(timedelta(hours=2)))

    async with running(app) as worker:
        run = await lane.start(name)
        await until(lambda: kept(run, 2))
        await until(lambda: look(lambda: worker.in_flight == 0))
        await run.cancel()
    assert f"run {run.run_id} suspended" in caplog.text
    assert "laneway.join" in caplog.text


async def test_joining_branch_continues_while_another_waits_for_a_timer(
    lane: Connection, address: str
) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"

    @step
    async def part(n: int) -> None:
        log.append(n)

    async def slow() -> None:
        await asyncio.sleep(0.3)

    async def rounds() -> None:
        for n in range(5):
            await laneway.join(asyncio.gather(slow(), part(n)))

    @app.workflow(name=name)
    async def flow() -> None:
        timer = asyncio.create_task(laneway.sleep(timedelta(hours=1)))
        await laneway.join(asyncio.create_task(rounds()))
        timer.cancel()

    async with running(app):
        run = await lane.start(name)
        await run.result(LONG)
    assert log == [0, 1, 2, 3, 4]


async def test_join_outside_of_a_workflow_and_in_a_step_is_an_await(
    lane: Connection, address: str
) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"

    async def branch() -> int:
        return 1

    @step
    async def both() -> list[int]:
        return list(await laneway.join(asyncio.gather(branch(), branch())))

    @app.workflow(name=name)
    async def flow() -> list[int]:
        return await both()

    assert await both() == [1, 1]
    async with running(app):
        run = await lane.start(name)
        assert await run.result(LONG) == [1, 1]
        assert [item.step for item in await run.steps()] == ["both#1"]


async def test_branch_that_waits_for_something_else_delays_suspension_for_seconds_only(
    lane: Connection, address: str, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laneway.worker.progress.PATIENCE", 0.3)
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"

    async def branch() -> None:
        await asyncio.Event().wait()

    @app.workflow(name=name, queue=queue)
    async def flow() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(branch())
            group.create_task(laneway.sleep(timedelta(hours=1)))

    async with running(app) as worker:
        run = await lane.start(name, queue=queue)
        await until(lambda: kept(run, 1))
        await until(lambda: look(lambda: worker.in_flight == 0))
        await run.cancel()


async def test_replayed_steps_delay_suspension_like_steps(
    lane: Connection, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laneway.worker.progress.PATIENCE", 0.4)
    app, again, done = make_app(address), Again(), asyncio.Event()
    name = f"flow-{uuid4().hex[:8]}"

    @step
    async def part(n: int) -> int:
        return n

    async def rounds() -> None:
        for n in range(4):
            # Longer than the patience in total, shorter between two steps.
            await asyncio.sleep(0.25)
            await part(n)
            if n == 2:
                again()
        done.set()

    @app.workflow(name=name)
    async def flow() -> None:
        await asyncio.gather(laneway.sleep(timedelta(hours=1)), rounds())

    async with running(app):
        run = await lane.start(name)
        async with asyncio.timeout(20):
            await done.wait()
        await run.cancel()
    assert again.passes == 2


@pytest.mark.parametrize("how", ["task", "group", "second timer"])
async def test_abandoned_branches_end_without_a_warning(
    lane: Connection, address: str, queue: str, how: str
) -> None:
    app, name, complaints = make_app(address), f"flow-{uuid4().hex[:8]}", []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
    left: list[asyncio.Task[Any]] = []

    @step
    async def part() -> str:
        return "part"

    @app.workflow(name=name, queue=queue)
    async def flow() -> str:
        branch = laneway.sleep(timedelta(hours=1))
        left.append(asyncio.create_task(in_group(branch) if how == "group" else branch))
        found = await part()
        await asyncio.sleep(0.05)
        if how == "second timer":
            await laneway.sleep(timedelta(seconds=1.2))
        return found

    async with running(app):
        run = await lane.start(name, queue=queue)
        assert await run.result(LONG) == "part"
        await asyncio.wait(left, timeout=20)
        assert all(task.done() for task in left)
        left.clear()
        gc.collect()
        await asyncio.sleep(0)
    assert complaints == []


# Kills itself with SIGKILL before it ships A, once B is shipped.
MORTAL = """
import asyncio, os, signal, sys
from datetime import timedelta
from pathlib import Path
import laneway
address, name, log, mortal = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
app = laneway.App(address, worker=laneway.WorkerSettings(
    heartbeat=timedelta(seconds=0.1), timeout=timedelta(seconds=0.5)))

def note(text):
    with log.open("a") as file:
        file.write(f"{text}\\n")

@laneway.step
async def charge(order):
    while order == "A" and "ship-B" not in log.read_text():
        await asyncio.sleep(0.01)
    note(f"charge-{order}")

@laneway.step
async def ship(order):
    if order == "A" and mortal == "mortal":
        await asyncio.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    note(f"ship-{order}")
    return f"parcel {order}"

async def one(order):
    await charge(order)
    return await ship(order)

@app.workflow(name=name)
async def flow():
    return await asyncio.gather(one("A"), one("B"))

app.run()
"""


async def test_branches_of_a_killed_worker_resume_with_their_own_steps(
    place: Place, tmp_path: Path
) -> None:
    name, log = f"flow-{uuid4().hex[:8]}", tmp_path / "log"
    log.touch()
    async with laneway.connect(place.dsn, settings=QUIET) as lane:
        with suppress(QueueExists):
            await lane.admin.create_queue("workflows", QueueSettings(max_attempts=None))
        run = await lane.start(name)
        async with program(MORTAL, place.dsn, name, str(log), "mortal", folder=tmp_path) as dying:
            assert await dying.wait() == -9
        async with program(MORTAL, place.dsn, name, str(log), "immortal", folder=tmp_path):
            assert await run.result(timedelta(seconds=60)) == ["parcel A", "parcel B"]
    assert log.read_text().split() == ["charge-B", "ship-B", "charge-A", "ship-A"]
