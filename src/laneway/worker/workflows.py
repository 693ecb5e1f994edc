"""Workflows: functions whose finished steps are kept, so that another worker can go on."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar, overload

from laneway.domain.errors import BrokerClosed, InvalidSetting, Retryable, RunNotFound
from laneway.domain.runs import RunStatus
from laneway.library.arguments import check_time
from laneway.library.messages import decode_payload
from laneway.library.validation import encode_result
from laneway.worker.branches import Branch, find_place, within_run, within_step
from laneway.worker.handlers import name_of
from laneway.worker.policies import Reject, Retry, Snooze, describe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from laneway.domain.backend import Backend
    from laneway.domain.runs import DriveStatus, StepInfo, Stored
    from laneway.library.messages import Message

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)

# A timer with less to go is waited for by the worker itself, in seconds.
SHORT = 1.0

# How long a timer lets other branches go first, in seconds.
MOMENT = 0.01

TIMER = "sleep"

PAUSE = timedelta(seconds=1)

NO_RETRY = Retry(max_attempts=1)


class _Halt(BaseException):
    """Ends a run's function at a step; no error, which it might handle. `Progress.halt` says why."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow by its name; its arguments and results are JSON."""

    name: str
    queue: str
    function: Callable[..., Awaitable[Any]]


@overload
def step(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]: ...


@overload
def step(
    *, name: str | None = None, retry: Retry = NO_RETRY
) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]: ...


def step(
    function: Callable[P, Awaitable[T]] | None = None,
    *,
    name: str | None = None,
    retry: Retry = NO_RETRY,
) -> Any:
    """Make an asynchronous function a step of workflows: finished once, it is not run again.

    Its result is kept as JSON. retry: tries within the step; without one, an error is the
    workflow's to handle. Outside of a workflow it is the function it was, and within another step
    a part of that.
    """

    def decorate(inner: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        if not inspect.iscoroutinefunction(inner):
            raise InvalidSetting(f"step {name_of(inner)} is not asynchronous: make it an async def")
        laneway_step = name or inner.__name__

        @functools.wraps(inner)
        async def call(*arguments: P.args, **options: P.kwargs) -> T:
            place = find_place()
            if place is None:
                return await inner(*arguments, **options)
            result: T
            if isinstance(place, Branch):
                key = place.number(laneway_step)
                result = await place.progress.run_step(
                    key, lambda: inner(*arguments, **options), retry=retry
                )
            else:
                result = await _try(lambda: inner(*arguments, **options), retry)
            return result

        return call

    return decorate if function is None else decorate(function)


async def sleep(duration: timedelta) -> None:
    """Wait in a workflow, however long: no worker is held up, and a restart does not begin anew.

    Elsewhere, and within a step, it is asyncio's.
    """
    place = find_place()
    # Counted before it is checked: what a task of it has been counted as is used up.
    key = place.number(TIMER) if isinstance(place, Branch) else ""
    check_time(duration, "duration")
    if isinstance(place, Branch):
        await place.progress.run_timer(key, duration)
    else:
        await asyncio.sleep(duration.total_seconds())


def _label_of(coroutine: Any) -> str | None:
    if not inspect.iscoroutine(coroutine):
        return None
    if coroutine.cr_code is sleep.__code__:
        return TIMER
    # A call of a step has its name in this variable, begun or not.
    label: str | None = inspect.getcoroutinelocals(coroutine).get("laneway_step")
    return label


class Progress:
    """One run on its way: which steps are finished, and which comes next.

    halt: why its function ends before its time, if it does: how the run stands, or when it goes on.
    Then no step begins, whatever the function makes of it.
    """

    def __init__(
        self, backend: Backend, run_id: str, driver: str, finished: list[StepInfo]
    ) -> None:
        self.halt: DriveStatus | timedelta | None = None
        self._backend = backend
        self._run_id = run_id
        self._driver = driver
        self._finished = {item.step: item for item in finished}
        self._began = monotonic()
        self._over = False
        # What is under way, and the tasks that do it: a workflow may have branches.
        self._work: dict[asyncio.Future[None], asyncio.Task[Any] | None] = {}
        self._timers: list[float] = []

    async def run_step(self, key: str, call: Callable[[], Awaitable[Any]], *, retry: Retry) -> Any:
        done: StepInfo | Stored | None = self._finished.get(key)
        if done is None:
            with self._at_work():
                # As it will be read again: a tuple comes back as a list from the first time on.
                text = encode_result(await _try(call, retry))
                done = await self._store(key, result=text)
        return None if done.result is None else decode_payload(done.result)

    async def run_timer(self, key: str, duration: timedelta) -> None:
        done: StepInfo | Stored | None = self._finished.get(key)
        since = self._began
        if done is None:
            with self._at_work():
                done = await self._store(key, timer=duration)
                since = monotonic()
        if not done.remaining:
            return
        end = since + done.remaining.total_seconds()
        self._timers.append(end)
        try:
            while end - monotonic() > SHORT:
                await self._wait_aside(end)
            with self._at_work():
                await asyncio.sleep(max(end - monotonic(), 0))
        finally:
            self._timers.remove(end)

    async def finish(self) -> None:
        """Have no more steps begin, and return once those of branches left behind are done."""
        self._over = True
        while self._work:
            await asyncio.wait(list(self._work))

    async def cancel(self) -> None:
        """End the branches that are in the middle of a step."""
        for task in self._work.values():
            if task is not None:
                task.cancel()
        await self.finish()

    async def _wait_aside(self, end: float) -> None:
        """Wait for the other branches; where none has anything to do, the run goes on later."""
        # One that stands before a step begins it first, and one whose step is done goes on.
        await asyncio.sleep(MOMENT)
        own = asyncio.current_task()
        others = [work for work, task in self._work.items() if task is not own]
        if not others:
            self._stop(timedelta(seconds=max(min(self._timers) - monotonic(), 0)))
        await asyncio.wait(
            others,
            timeout=max(end - monotonic() - SHORT, 0),
            return_when=asyncio.FIRST_COMPLETED,
        )

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        if self._over or self.halt is not None:
            raise _Halt
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._work[done] = asyncio.current_task()
        try:
            yield
        finally:
            del self._work[done]
            done.set_result(None)

    async def _store(
        self, key: str, *, result: str | None = None, timer: timedelta | None = None
    ) -> Stored:
        try:
            stored = await self._backend.store_step(
                self._run_id, self._driver, key, result=result, timer=timer
            )
        except (Retryable, BrokerClosed) as error:
            # Not the workflow's doing, and not for it to see.
            logger.warning("run %s goes on later: %s", self._run_id, error)
            self._stop(PAUSE)
        if stored.status != "running":
            self._stop(stored.status)
        return stored

    def _stop(self, why: DriveStatus | timedelta) -> NoReturn:
        if isinstance(why, timedelta) and self.halt is not None:
            why = min(why, self.halt) if isinstance(self.halt, timedelta) else self.halt
        self.halt = why
        raise _Halt


async def drive(workflow: Workflow, backend: Backend, message: Message) -> None:
    """Go on with the run that a message stands for, from its last finished step."""
    try:
        await _drive(workflow, backend, message)
    except (Retryable, BrokerClosed) as error:
        # Not the workflow's doing: the message comes again, and goes on from there.
        raise Snooze(PAUSE) from error


async def _drive(workflow: Workflow, backend: Backend, message: Message) -> None:
    run_id = str(message.payload["run"])
    driver = f"{message.delivery.token}/{message.delivery.id}"
    again = False
    while True:
        try:
            run = await backend.drive_run(run_id, driver, again=again)
        except RunNotFound:
            return
        if run.status != "running":
            return
        progress = Progress(backend, run_id, driver, await backend.load_steps(run_id))
        status, result, error = await _run(workflow, progress, run.arguments)
        match progress.halt:
            case None:
                await backend.end_run(run_id, driver, status, result=result, error=error)
                return
            case timedelta() as wait:
                raise Snooze(wait)
            case "superseded":
                return
            case _:
                # It may have been resumed since: it is let go only where it was not.
                again = True


async def _run(
    workflow: Workflow, progress: Progress, arguments: str
) -> tuple[RunStatus, str | None, str | None]:
    """Call the function; return how it ended, which counts where it was not halted."""
    result, failure = None, None
    with within_run(progress, _label_of):
        try:
            try:
                result = encode_result(await workflow.function(*decode_payload(arguments)))
            except Snooze as error:
                if progress.halt is None:
                    progress.halt = error.delay
            except BaseException as error:
                if _is_ended(error):
                    raise
                # Whatever else it is, it is the run's result.
                failure = describe(error)
            await progress.finish()
        except BaseException:
            await progress.cancel()
            raise
    return RunStatus.COMPLETED if failure is None else RunStatus.FAILED, result, failure


async def _try(call: Callable[[], Awaitable[Any]], retry: Retry) -> Any:
    attempt = 0
    while True:
        attempt += 1
        try:
            with within_step():
                return await call()
        except (Reject, Snooze, _Halt):
            raise
        except BaseException as error:
            if _is_ended(error) or retry.is_over(attempt, error):
                raise
            await asyncio.sleep(retry.wait(attempt).total_seconds())


def _is_ended(error: BaseException) -> bool:
    """Tell whether the function was ended from outside, and did not fail."""
    task = asyncio.current_task()
    cancelled = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling()
    return bool(cancelled) or isinstance(error, GeneratorExit)
