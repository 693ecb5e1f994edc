"""Workflows: functions whose finished steps are kept, so that another worker can go on."""

from __future__ import annotations

import asyncio
import functools
import inspect
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, overload

from laneway.domain.errors import (
    BrokerClosed,
    InvalidSetting,
    LanewayError,
    Retryable,
    RunNotFound,
)
from laneway.domain.runs import RunStatus
from laneway.library.arguments import check_time
from laneway.library.messages import decode_payload
from laneway.library.validation import encode_result
from laneway.worker.branches import Branch, find_place, within_run
from laneway.worker.handlers import name_of
from laneway.worker.policies import Reject, Retry, Snooze, describe
from laneway.worker.progress import PAUSE, Progress, attempt, is_ended

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from laneway.domain.backend import Backend
    from laneway.library.messages import Message

P = ParamSpec("P")
T = TypeVar("T")

TIMER = "sleep"

NO_RETRY = Retry(max_attempts=1)

# When a run is begun with again that could not be driven: not for what its function did.
BEGIN_AGAIN = Retry(limit=timedelta(minutes=1))


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow by its name; its arguments and results are JSON."""

    name: str
    queue: str
    function: Callable[..., Awaitable[Any]]


# Of objects and not of Any, for which mypy takes what gather returns for Any.
@overload
def step(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[object, object, T]]: ...


@overload
def step(
    *, name: str | None = None, retry: Retry = NO_RETRY
) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Coroutine[object, object, T]]]: ...


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

    def decorate(inner: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[object, object, T]]:
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
                result = await attempt(lambda: inner(*arguments, **options), retry)
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


async def drive(workflow: Workflow, backend: Backend, message: Message) -> None:
    """Go on with the run that a message stands for, from its last finished step."""
    try:
        await _drive(workflow, backend, message)
    except (Retryable, BrokerClosed) as error:
        # Not the workflow's doing: the message comes again, and goes on from there.
        raise Snooze(PAUSE) from error


async def _drive(workflow: Workflow, backend: Backend, message: Message) -> None:
    try:
        run_id = str(message.payload["run"])
    except (TypeError, LookupError):
        raise Reject(
            "this message stands for no run of a workflow: begin one with `start`"
        ) from None
    driver = f"{message.delivery.token}/{message.delivery.id}"
    again = False
    while True:
        try:
            run = await backend.workflows.drive_run(run_id, driver, again=again)
            if run.status != "running":
                return
            finished = await backend.workflows.load_steps(run_id)
        except RunNotFound:
            return
        progress = Progress(backend, run_id, driver, finished)
        ended = await _run(workflow, progress, run.arguments)
        match progress.halt:
            case None:
                await _end(backend, run_id, driver, ended)
                return
            case timedelta() as wait:
                raise Snooze(wait)
            case "superseded":
                return
            case _:
                # It may have been resumed since: it is let go only where it was not.
                again = True


class _End(NamedTuple):
    """How a run's function ended."""

    result: str | None = None
    error: str | None = None


async def _end(backend: Backend, run_id: str, driver: str, ended: _End) -> None:
    if ended.error is None:
        try:
            await backend.workflows.end_run(
                run_id, driver, RunStatus.COMPLETED, result=ended.result
            )
        except (Retryable, BrokerClosed):
            raise
        except LanewayError as error:
            # A result that cannot be kept will not be the next time.
            ended = _End(error=describe(error))
        else:
            return
    await backend.workflows.end_run(run_id, driver, RunStatus.FAILED, error=ended.error)


async def _run(workflow: Workflow, progress: Progress, arguments: str) -> _End:
    """Call the function; return how it ended, which counts where it was not halted."""
    task, ended = asyncio.current_task(), _End()
    with within_run(progress, _label_of):
        try:
            try:
                ended = _End(encode_result(await workflow.function(*decode_payload(arguments))))
            except BaseException as error:
                if is_ended(error, task):
                    raise
                delays = _find_delays(error)
                if delays:
                    if progress.halt is None:
                        progress.halt = min(delays)
                else:
                    # Whatever else it is, it is the run's result.
                    ended = _End(error=describe(error))
            await progress.finish()
        except BaseException:
            await progress.cancel()
            raise
    return ended


def _find_delays(error: BaseException) -> list[timedelta]:
    """Return the times by which the run is put off, if nothing else went wrong."""
    if isinstance(error, Snooze):
        return [error.delay]
    if not isinstance(error, BaseExceptionGroup):
        return []
    found = [_find_delays(each) for each in error.exceptions]
    return [delay for delays in found for delay in delays] if all(found) else []
