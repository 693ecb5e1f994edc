"""Workflow steps that fail, are cancelled or are retried."""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

import laneway
from laneway import Retry, RetryAfter, Status, step
from laneway.domain.errors import RunFailed
from tests.library.workers import listed, look, make_app, running, settled, until

if TYPE_CHECKING:
    from laneway import Connection

LONG = timedelta(seconds=30)
ONCE = Retry(max_attempts=1)


async def test_handled_step_failure_is_raised_again_when_the_run_resumes(
    lane: Connection, address: str
) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"

    @step(retry=ONCE)
    async def charge() -> None:
        log.append("charge")
        raise ConnectionError(111, "away", "card.txt")

    @step
    async def tell(reason: str) -> None:
        log.append(reason)

    @app.workflow(name=name)
    async def flow() -> str:
        try:
            await charge()
        except ConnectionError as error:
            await tell(str(error))
            await laneway.sleep(timedelta(seconds=1.2))
            return f"given up: {error.errno}"
        return "charged"

    async with running(app):
        run = await lane.start(name)
        assert await run.result(LONG) == "given up: 111"
    assert log == ["charge", "[Errno 111] away: 'card.txt'"]
    assert [item.failure is None for item in await run.steps()] == [False, True, True]


async def test_failed_steps_are_tried_again_when_a_failed_run_is_resumed(
    lane: Connection, address: str
) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"

    @step(retry=ONCE)
    async def work(number: int) -> int:
        log.append(number)
        if number and log.count(number) == 1:
            raise ValueError("declined")
        return number

    @app.workflow(name=name)
    async def flow() -> list[int]:
        found = await asyncio.gather(*(work(n) for n in range(3)), return_exceptions=True)
        # Nothing tells that this comes of those.
        if any(isinstance(item, Exception) for item in found):
            raise RuntimeError("some failed")
        return [item for item in found if isinstance(item, int)]

    async with running(app):
        run = await lane.start(name)
        with pytest.raises(RunFailed, match="some failed"):
            await run.result(LONG)
        failed = {item.step: item.error is not None for item in await run.steps()}
        assert failed == {"work#1": False, "work#2": True, "work#3": True}
        await run.resume()
        assert await run.result(LONG) == [0, 1, 2]
    assert [item.error for item in await run.steps()] == [None, None, None]
    assert sorted(log) == [0, 1, 1, 2, 2]


class _Odd(Exception):
    """One that cannot be raised again as it was."""

    def __init__(self, what: object) -> None:
        super().__init__("odd")
        self.what = what


async def test_failure_that_json_cannot_keep_is_not_kept(lane: Connection, address: str) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"

    @step(retry=ONCE)
    async def odd() -> None:
        log.append("odd")
        raise _Odd(object())

    @app.workflow(name=name)
    async def flow() -> int:
        with suppress(_Odd):
            await odd()
        await laneway.sleep(timedelta(seconds=1.2))
        return len(log)

    async with running(app):
        assert await (await lane.start(name)).result(LONG) == 2


async def test_run_resumes_from_the_stored_result_of_a_cancelled_step(
    lane: Connection, address: str
) -> None:
    """Whether it is kept and what its workflow sees agree, however close the cancellation comes."""
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"
    seen: list[str] = []

    @step
    async def work() -> str:
        task = asyncio.current_task()
        assert task is not None
        if not seen:
            # Comes while what this returns is being stored.
            asyncio.get_running_loop().call_soon(task.cancel)
        return "done"

    @step
    async def give_up() -> None:
        raise AssertionError("begun though nobody knows what is kept")

    @app.workflow(name=name)
    async def flow() -> str:
        try:
            return await work()
        except asyncio.CancelledError:
            seen.append("cancelled")
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        await give_up()
        return "given up"

    async with running(app):
        run = await lane.start(name)
        assert await run.result(LONG) == "done"
        assert [item.step for item in await run.steps()] == ["work#1"]
    assert seen == ["cancelled"]


async def test_run_may_end_while_one_of_its_steps_waits_for_a_retry(
    lane: Connection, address: str
) -> None:
    app, tries, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"
    queue = f"flows-{uuid4().hex[:8]}"

    @step(retry=Retry(backoff=timedelta(hours=1)))
    async def never() -> None:
        tries.append(1)
        raise ConnectionError("away")

    @app.workflow(name=name, queue=queue)
    async def flow() -> None:
        await never()

    async with running(app):
        run = await lane.start(name, queue=queue)
        await until(lambda: look(lambda: bool(tries)))
        await run.cancel()
        # Its message is let go, without another try.
        await until(lambda: settled(lane, queue, 1))
    assert tries == [1]


async def test_message_without_a_run_is_dead_lettered(lane: Connection, address: str) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"
    queue = f"flows-{uuid4().hex[:8]}"

    @app.workflow(name=name, queue=queue)
    async def flow() -> None: ...

    async with running(app):
        await lane.producer(queue).enqueue({"x": 1}, partition=name)
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
    assert dead.attempt == 1
    assert "names no workflow run" in (dead.error or "")


async def test_run_that_failed_in_a_task_group_names_the_cause(
    lane: Connection, address: str
) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"

    @step(retry=ONCE)
    async def pay() -> None:
        raise ValueError("declined")

    @app.workflow(name=name)
    async def flow() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(pay())

    async with running(app):
        with pytest.raises(RunFailed, match=r"ExceptionGroup: .*ValueError: declined"):
            await (await lane.start(name)).result(LONG)


async def test_step_that_snoozes_in_a_task_group_suspends_its_run(
    lane: Connection, address: str
) -> None:
    app, tries, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"

    @step
    async def wait() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise laneway.Snooze(timedelta(milliseconds=100))
        return len(tries)

    @app.workflow(name=name)
    async def flow() -> int:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(wait())
        return task.result()

    async with running(app):
        assert await (await lane.start(name)).result(LONG) == 2


async def test_branches_that_share_a_context_keep_their_own_steps(
    lane: Connection, address: str
) -> None:
    app, log, name = make_app(address), [], f"flow-{uuid4().hex[:8]}"

    @step
    async def work(number: int) -> int:
        log.append(number)
        await asyncio.sleep(0.05)
        return number

    @step(retry=ONCE)
    async def fail() -> None:
        log.append(-1)
        if log.count(-1) == 1:
            raise ValueError("once")

    async def branch(number: int) -> int:
        return await work(number)

    @app.workflow(name=name)
    async def flow() -> list[int]:
        context = contextvars.copy_context()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(branch(n), context=context) for n in range(3)]
        await fail()
        return [task.result() for task in tasks]

    async with running(app):
        run = await lane.start(name)
        with pytest.raises(RunFailed, match="once"):
            await run.result(LONG)
        await run.resume()
        assert await run.result(LONG) == [0, 1, 2]
    assert log == [0, 1, 2, -1, -1]


async def test_result_that_cannot_be_kept_fails_its_run(lane: Connection, address: str) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"
    at_server = address.startswith("http")

    @app.workflow(name=name)
    async def flow(size: int) -> str:
        return "x" * size

    async with running(app):
        run = await lane.start(name, 18_000_000)
        if at_server:
            with pytest.raises(RunFailed, match="MessageTooLarge"):
                await run.result(LONG)
        else:
            assert len(await run.result(LONG)) == 18_000_000


async def test_step_is_retried_after_the_delay_that_its_error_asks_for(
    lane: Connection, address: str, queue: str
) -> None:
    app, calls = make_app(address), []

    @step(retry=Retry(max_attempts=2, backoff=timedelta(hours=1)))
    async def call() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise RetryAfter(timedelta(0))
        return len(calls)

    @app.workflow(name=queue, queue=queue)
    async def flow() -> int:
        return await call()

    async with running(app):
        run = await lane.start(queue, queue=queue)
        assert await run.result(timedelta(seconds=30)) == 2
