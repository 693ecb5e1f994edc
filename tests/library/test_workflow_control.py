"""Workflows wait for manual steps, resume by themselves, and begin when and in the order asked."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import laneway
from laneway.domain.errors import InvalidRequest, InvalidStateTransition
from laneway.domain.runs import RunStatus
from tests.library.workers import make_app, running, until

if TYPE_CHECKING:
    from laneway import Connection
    from laneway.library.runs import Run
    from tests.library.shell import Shell

LONG = timedelta(seconds=30)
MOMENT = timedelta(milliseconds=300)


@pytest.fixture
def name() -> str:
    return f"flow-{uuid4().hex[:8]}"


async def is_without_driver(lane: Connection, run: Run) -> bool:
    """Tell whether no message drives the run: its worker has let it go."""
    partition = (await run.info()).name
    for status in (laneway.Status.QUEUED, laneway.Status.PROCESSING):
        found = await lane.admin.messages("workflows", status, limit=1000)
        if any(message.partition == partition for message in found):
            return False
    return True


async def test_run_waits_for_a_manual_step_without_a_worker(
    lane: Connection, address: str, name: str
) -> None:
    app, calls = make_app(address), []

    @laneway.step
    async def prepare() -> None:
        calls.append("prepare")

    @app.workflow(name=name)
    async def flow() -> Any:
        await prepare()
        return await laneway.manual_step("approval")

    async with running(app):
        run = await lane.start(name)
        await until(lambda: is_without_driver(lane, run))
        assert await run.status() is RunStatus.RUNNING
        assert await run.complete_step("approval", {"by": "Ada"})
        assert await run.result(LONG) == {"by": "Ada"}
    assert calls == ["prepare"]


async def test_manual_step_is_completed_once_and_before_the_run_waits_for_it(
    lane: Connection, address: str, name: str
) -> None:
    app = make_app(address)

    @app.workflow(name=name)
    async def flow() -> Any:
        return [await laneway.manual_step("approval"), await laneway.manual_step("approval")]

    run = await lane.start(name)
    assert await run.complete_step("approval", 1)
    assert not await run.complete_step("approval", 2)
    async with running(app):
        assert await run.result(LONG) == [1, 1]
    with pytest.raises(InvalidStateTransition):
        await run.complete_step("another")


async def test_manual_step_completed_while_the_worker_lets_the_run_go(
    lane: Connection, address: str, name: str
) -> None:
    app = make_app(address)

    @app.workflow(name=name)
    async def flow(n: int) -> Any:
        return [await laneway.manual_step(f"part-{number}") for number in range(n)]

    async with running(app):
        run = await lane.start(name, 20)
        for number in range(20):
            assert await run.complete_step(f"part-{number}", number)
        assert await run.result(LONG) == list(range(20))


async def test_manual_step_beside_a_timer(lane: Connection, address: str, name: str) -> None:
    app = make_app(address)

    @app.workflow(name=name)
    async def flow(seconds: float) -> Any:
        review = asyncio.create_task(laneway.manual_step("review"))
        timer = asyncio.create_task(laneway.sleep(timedelta(seconds=seconds)))
        await laneway.join(asyncio.wait({review, timer}, return_when=asyncio.FIRST_COMPLETED))
        return review.result() if review.done() else "too late"

    async with running(app):
        patient, hasty = await lane.start(name, 3600), await lane.start(name, 1.5)
        assert await hasty.result(LONG) == "too late"
        assert await patient.complete_step("review", "accepted")
        assert await patient.result(LONG) == "accepted"


async def test_manual_step_outside_of_a_workflow_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="outside of a workflow"):
        await laneway.manual_step("approval")
    with pytest.raises(InvalidRequest, match="#"):
        await laneway.manual_step("approval#1")


async def test_paused_run_resumes_by_itself(lane: Connection, address: str, name: str) -> None:
    app, log = make_app(address), []
    reached, go = asyncio.Event(), asyncio.Event()

    @laneway.step
    async def part(n: int) -> None:
        log.append(n)
        if n == 1:
            reached.set()
            await go.wait()

    @app.workflow(name=name)
    async def flow() -> str:
        for n in (1, 2):
            await part(n)
        return "done"

    async with running(app):
        run = await lane.start(name)
        await reached.wait()
        assert await run.pause(resume_after=MOMENT) is RunStatus.PAUSED
        paused = await run.info()
        assert paused.resume_at is not None
        go.set()
        assert await run.result(LONG) == "done"
    ended = await run.info()
    assert ended.finished_at is not None
    assert ended.finished_at >= paused.resume_at
    assert ended.resume_at is None
    assert log == [1, 2]


async def test_step_that_runs_when_its_pause_ends_is_not_repeated(
    lane: Connection, address: str, name: str
) -> None:
    app, log = make_app(address), []
    reached, go = asyncio.Event(), asyncio.Event()

    @laneway.step
    async def part(n: int) -> None:
        log.append(n)
        if n == 1:
            reached.set()
            await go.wait()

    @app.workflow(name=name)
    async def flow() -> None:
        for n in (1, 2):
            await part(n)

    async def runs() -> bool:
        return await run.status() is RunStatus.RUNNING

    async with running(app):
        run = await lane.start(name)
        await reached.wait()
        await run.pause(resume_after=timedelta(milliseconds=50))
        await until(runs)
        go.set()
        await run.result(LONG)
    assert log == [1, 2]


async def test_run_resumed_by_a_call_pauses_again_for_its_own_time(
    lane: Connection, address: str, name: str
) -> None:
    app = make_app(address)

    @app.workflow(name=name)
    async def flow() -> str:
        await laneway.sleep(timedelta(milliseconds=1))
        return "done"

    run = await lane.start(name)
    await run.pause(resume_after=timedelta(milliseconds=10))
    await run.resume()
    await run.pause(resume_after=timedelta(hours=1))
    async with running(app):
        await until(lambda: is_paused_alone(lane, run))
        await run.resume()
        assert await run.result(LONG) == "done"


async def is_paused_alone(lane: Connection, run: Run) -> bool:
    """Tell whether only the message that ends the pause is left."""
    partition = (await run.info()).name
    found = [
        message
        for message in await lane.admin.messages("workflows", limit=1000)
        if message.partition == partition
    ]
    return len(found) == 1 and await run.status() is RunStatus.PAUSED


async def test_resume_after_must_be_positive(lane: Connection) -> None:
    with pytest.raises(InvalidRequest, match="more than zero"):
        await lane.run("any").pause(resume_after=timedelta(0))


async def test_run_begins_at_its_time_and_in_order_of_priority(
    lane: Connection, address: str, name: str
) -> None:
    app, log = make_app(address), []

    @app.workflow(name=name, concurrency=1)
    async def flow(label: str) -> None:
        log.append(label)

    later = await lane.start(name, "later", at=datetime.now(UTC) + timedelta(hours=1))
    low = await lane.start(name, "low")
    high = await lane.start(name, "high", priority=9)
    soon = await lane.start(name, "soon", delay=timedelta(milliseconds=10))
    async with running(app):
        for run in (low, high, soon):
            await run.result(LONG)
    assert log.index("high") < log.index("low")
    assert sorted(log) == ["high", "low", "soon"]
    assert await later.status() is RunStatus.RUNNING
    assert [(await run.info()).priority for run in (low, high)] == [0, 9]
    with pytest.raises(InvalidRequest, match="priority"):
        await lane.start(name, "beyond", priority=10)


async def test_commands_of_a_manual_step_and_a_timed_pause(
    lane: Connection, address: str, name: str, shell: Shell
) -> None:
    app = make_app(address)

    @app.workflow(name=name)
    async def flow() -> Any:
        return await laneway.manual_step("approval")

    run = await lane.start(name)
    paused = await asyncio.to_thread(
        shell.run, "workflow", "pause", run.run_id, "--resume-after", "0.1"
    )
    assert "paused" in paused.stdout
    done = await asyncio.to_thread(shell.run, "workflow", "complete", run.run_id, "approval", "7")
    assert "is completed" in done.stdout
    async with running(app):
        assert await run.result(LONG) == 7
