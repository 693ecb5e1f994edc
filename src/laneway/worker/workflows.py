"""Workflows: functions whose finished steps are kept, so that another worker can go on."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from laneway.domain.errors import BrokerClosed, InvalidSetting, Retryable, RunNotFound
from laneway.domain.runs import RunStatus
from laneway.library.messages import decode_payload, encode_payload
from laneway.worker.handlers import name_of
from laneway.worker.policies import Reject, Retry, Snooze, describe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from laneway.domain.backend import Backend
    from laneway.domain.runs import StepInfo, Stored
    from laneway.library.messages import Message

P = ParamSpec("P")
T = TypeVar("T")

_current: ContextVar[_Progress] = ContextVar("laneway workflow")

# A timer with less to go is waited for by the worker itself.
SHORT = timedelta(seconds=1)

PAUSE = timedelta(seconds=1)

NO_RETRY = Retry(max_attempts=1)


class _Halt(BaseException):
    """Ends a run's function at a step: it was paused, cancelled, or another drives it."""


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
    progress = _current.get(None)
    if progress is None:
        await asyncio.sleep(duration.total_seconds())
    else:
        await progress.run_timer(duration)


class _Progress:
    """One run on its way: which steps are finished, and which comes next."""

    def __init__(
        self, backend: Backend, run_id: str, driver: str, finished: list[StepInfo]
    ) -> None:
        self._backend = backend
        self._run_id = run_id
        self._driver = driver
        self._finished = {item.step: item for item in finished}
        self._calls: Counter[str] = Counter()

    async def run_step(
        self, label: str, call: Callable[[], Awaitable[Any]], *, retry: Retry
    ) -> Any:
        key = self._number(label)
        done = self._finished.get(key)
        if done is not None:
            return None if done.result is None else decode_payload(done.result)
        result = await _try(call, retry)
        # As it will be read again: a tuple comes back as a list from the first time on.
        text = encode_payload(result)
        stored = await self._backend.store_step(self._run_id, self._driver, key, result=text)
        self._obey(stored)
        return None if stored.result is None else decode_payload(stored.result)

    async def run_timer(self, duration: timedelta) -> None:
        key = self._number("sleep")
        done = self._finished.get(key)
        if done is None:
            stored = await self._backend.store_step(self._run_id, self._driver, key, timer=duration)
            self._obey(stored)
            remaining = stored.remaining
        else:
            remaining = done.remaining
        if not remaining:
            return
        if remaining > SHORT:
            raise Snooze(remaining)
        await asyncio.sleep(remaining.total_seconds())

    def _number(self, label: str) -> str:
        self._calls[label] += 1
        return f"{label}#{self._calls[label]}"

    def _obey(self, stored: Stored) -> None:
        if stored.status != "running":
            raise _Halt(stored.status)


async def drive(workflow: Workflow, backend: Backend, message: Message) -> None:
    """Go on with the run that a message stands for, from its last finished step."""
    run_id = str(message.payload["run"])
    driver = f"{message.delivery.token}/{message.delivery.id}"
    try:
        run = await backend.drive_run(run_id, driver)
    except RunNotFound:
        return
    if run.status is not RunStatus.RUNNING:
        return
    progress = _Progress(backend, run_id, driver, await backend.load_steps(run_id))
    mark = _current.set(progress)
    try:
        result = await workflow.function(*decode_payload(run.arguments))
        text = encode_payload(result)
    except _Halt:
        return
    except Snooze:
        raise
    except (Retryable, BrokerClosed) as error:
        # Not the workflow's doing: the message comes again, and goes on from there.
        raise Snooze(PAUSE) from error
    except BaseException as error:
        if _is_ended(error):
            raise
        # Whatever else it is, it is the run's result.
        await backend.end_run(run_id, driver, RunStatus.FAILED, error=describe(error))
    else:
        await backend.end_run(run_id, driver, RunStatus.COMPLETED, result=text)
    finally:
        _current.reset(mark)


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
