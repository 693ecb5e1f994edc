"""Workflows: functions whose finished steps are kept, so that another worker can go on."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar, overload

from laneway.domain.errors import BrokerClosed, InvalidSetting, Retryable, RunNotFound
from laneway.domain.runs import RunStatus
from laneway.library.arguments import check_time
from laneway.library.messages import decode_payload
from laneway.library.validation import encode_result
from laneway.worker.handlers import name_of
from laneway.worker.policies import Reject, Retry, Snooze, describe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from laneway.domain.backend import Backend
    from laneway.domain.runs import DriveStatus, StepInfo, Stored
    from laneway.library.messages import Message

P = ParamSpec("P")
T = TypeVar("T")

_current: ContextVar[_Progress] = ContextVar("laneway workflow")

logger = logging.getLogger(__name__)

# A timer with less to go is waited for by the worker itself, in seconds.
SHORT = 1.0

# How long a timer lets other branches go first, in seconds.
MOMENT = 0.01

PAUSE = timedelta(seconds=1)

NO_RETRY = Retry(max_attempts=1)


class _Halt(BaseException):
    """Ends a run's function at a step; no error, which it might handle. `_Progress.halt` says why."""


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
    workflow's to handle. Outside of a workflow it is the function it was.
    """

    def decorate(inner: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        if not inspect.iscoroutinefunction(inner):
            raise InvalidSetting(f"step {name_of(inner)} is not asynchronous: make it an async def")
        label = name or inner.__name__

        @functools.wraps(inner)
        async def call(*arguments: P.args, **options: P.kwargs) -> T:
            progress = _current.get(None)
            if progress is None:
                return await inner(*arguments, **options)
            result: T = await progress.run_step(
                label, lambda: inner(*arguments, **options), retry=retry
            )
            return result

        return call

    return decorate if function is None else decorate(function)


async def sleep(duration: timedelta) -> None:
    """Wait in a workflow, however long: no worker is held up, and a restart does not begin anew."""
    check_time(duration, "duration")
    progress = _current.get(None)
    if progress is None:
        await asyncio.sleep(duration.total_seconds())
    else:
        await progress.run_timer(duration)


class _Progress:
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
        self._calls: Counter[str] = Counter()
        self._began = monotonic()
        self._over = False
        # What is under way, and the tasks that do it: a workflow may have branches.
        self._work: dict[asyncio.Future[None], asyncio.Task[Any] | None] = {}
        self._timers: list[float] = []

    async def run_step(
        self, label: str, call: Callable[[], Awaitable[Any]], *, retry: Retry
    ) -> Any:
        key = self._number(label)
        done: StepInfo | Stored | None = self._finished.get(key)
        if done is None:
            with self._at_work():
                # As it will be read again: a tuple comes back as a list from the first time on.
                text = encode_result(await _try(call, retry))
                done = await self._store(key, result=text)
        return None if done.result is None else decode_payload(done.result)

    async def run_timer(self, duration: timedelta) -> None:
        key = self._number("sleep")
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

    def _number(self, label: str) -> str:
        self._calls[label] += 1
        return f"{label}#{self._calls[label]}"


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
        progress = _Progress(backend, run_id, driver, await backend.load_steps(run_id))
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
    workflow: Workflow, progress: _Progress, arguments: str
) -> tuple[RunStatus, str | None, str | None]:
    """Call the function; return how it ended, which counts where it was not halted."""
    mark = _current.set(progress)
    result, failure = None, None
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
    finally:
        _current.reset(mark)
    return RunStatus.COMPLETED if failure is None else RunStatus.FAILED, result, failure


async def _try(call: Callable[[], Awaitable[Any]], retry: Retry) -> Any:
    attempt = 0
    while True:
        attempt += 1
        try:
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
