"""Workflows: functions whose finished steps are stored, so that another worker can continue."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, overload

from laneway.domain.errors import (
    BrokerClosed,
    InvalidRequest,
    InvalidSetting,
    LanewayError,
    Retryable,
    RunNotFound,
)
from laneway.domain.runs import RunStatus
from laneway.library.arguments import check_step, check_time
from laneway.library.messages import decode_payload
from laneway.library.validation import encode_result
from laneway.worker.branches import Branch, find_place, mark_step, within_run
from laneway.worker.handlers import name_of
from laneway.worker.policies import Reject, Retry, Snooze, describe
from laneway.worker.progress import PAUSE, Progress, attempt, is_ended
from laneway.worker.tracebacks import describe_failure, make_exc_info

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from laneway.domain.backend import Backend
    from laneway.library.messages import Message

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)

TIMER = "sleep"

DEFAULT_RETRY = Retry()

# Of a step inside another step, which is tried again as a whole.
NO_RETRY = Retry(max_attempts=1)

# When a run's message is tried again after the run could not be driven. Errors of its function do not count.
BEGIN_AGAIN = Retry(limit=timedelta(minutes=1))


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow's name, queue and function. Arguments and results are JSON."""

    name: str
    queue: str
    function: Callable[..., Awaitable[Any]]


# Coroutines of `object`: with `Any`, mypy infers Any for the result of asyncio.gather.
@overload
def step(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[object, object, T]]: ...


@overload
def step(
    *, name: str | None = None, retry: Retry | None = None
) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Coroutine[object, object, T]]]: ...


def step(
    function: Callable[P, Awaitable[T]] | None = None,
    *,
    name: str | None = None,
    retry: Retry | None = None,
) -> Any:
    """Make an async function a step of workflows: once finished, it does not run again.

    Its result is stored as JSON. retry: attempts within the step; without it, `Retry()`: 5 attempts
    with exponential backoff. Outside of a workflow, the step is the plain function; inside another
    step, it is part of that step, and is tried once unless it has a `retry`.
    """

    def decorate(inner: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[object, object, T]]:
        if not inspect.iscoroutinefunction(inner):
            raise InvalidSetting(
                f"step {name_of(inner)} is not asynchronous: define it with async def"
            )
        label = name or inner.__name__

        @functools.wraps(inner)
        async def call(*arguments: P.args, **options: P.kwargs) -> T:
            place = find_place()
            if place is None:
                return await inner(*arguments, **options)
            result: T
            if isinstance(place, Branch):
                key = place.next_key(label)
                result = await place.progress.run_step(
                    key, lambda: inner(*arguments, **options), retry=retry or DEFAULT_RETRY
                )
            else:
                result = await attempt(lambda: inner(*arguments, **options), retry or NO_RETRY)
            return result

        mark_step(call, label)
        return call

    return decorate if function is None else decorate(function)


async def sleep(duration: timedelta) -> None:
    """Wait in a workflow for any length of time; no worker waits, and a restart does not restart it.

    Outside of workflows and inside steps, it is `asyncio.sleep`.
    """
    place = find_place()
    # Before the check below: if this call is a task, its key has been counted already.
    key = place.next_key(TIMER) if isinstance(place, Branch) else ""
    check_time(duration, "duration")
    if isinstance(place, Branch):
        await place.progress.run_timer(key, duration)
    else:
        await asyncio.sleep(duration.total_seconds())


mark_step(sleep, TIMER)


async def manual_step(name: str) -> Any:
    """Wait in a workflow until `Run.complete_step` completes this step, and return its result.

    No worker waits. name: unique in the run; the step may be completed before it is waited for.
    """
    key = check_step(name)
    place = find_place()
    if not isinstance(place, Branch):
        raise InvalidRequest(
            f'manual step "{name}" is awaited outside of a workflow: await it in the workflow function'
        )
    return await place.progress.await_manual(key)


async def join(branches: Awaitable[T]) -> T:
    """Wait for other branches of a workflow, and let the run be suspended meanwhile.

    branches: a task, `asyncio.gather(…)` or `asyncio.wait(…)`, of the same run. If all other
    branches wait for long timers, the run is suspended at once; a plain `await` delays that by
    several seconds. Outside of workflows and inside steps, it is a plain `await`.
    """
    place = find_place()
    if not isinstance(place, Branch):
        return await branches
    with place.progress.joining():
        return await branches


async def drive(workflow: Workflow, backend: Backend, message: Message) -> None:
    """Continue the run that a message stands for, from its last finished step."""
    try:
        await _drive(workflow, backend, message)
    except (Retryable, BrokerClosed) as error:
        # Not an error of the workflow: the message is delivered again and the run continues.
        raise Snooze(PAUSE) from error


async def _drive(workflow: Workflow, backend: Backend, message: Message) -> None:
    try:
        run_id = str(message.payload["run"])
    except (TypeError, LookupError):
        raise Reject(
            "the message names no workflow run. Start runs with Connection.start or `laneway"
            " workflow start`"
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
            case "superseded" | "waiting":
                return
            case _:
                # The run may have been resumed since: drive it again, and let it go if it was not.
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
            # A result that cannot be stored cannot be stored next time either.
            ended = _End(error=describe(error))
            logger.error("run %s failed: %s", run_id, ended.error)  # noqa: TRY400 - the text is enough
        else:
            return
    await backend.workflows.end_run(run_id, driver, RunStatus.FAILED, error=ended.error)


async def _run(workflow: Workflow, progress: Progress, arguments: str) -> _End:
    """Call the function and return how it ended; ignored if the run was halted."""
    task, ended = asyncio.current_task(), _End()
    with within_run(progress):
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
                    # Any other error fails the run.
                    ended = _End(error=describe_failure(error))
                    if progress.halt is None:
                        _log_failure(workflow, progress.run_id, error)
            await progress.finish()
        except BaseException:
            await progress.cancel()
            raise
    return ended


def _log_failure(workflow: Workflow, run_id: str, error: BaseException) -> None:
    logger.error(
        "run %s of workflow %s failed: %s",
        run_id,
        workflow.name,
        describe(error),
        exc_info=make_exc_info(error),
    )


def _find_delays(error: BaseException) -> list[timedelta]:
    """Return the delays of an error that consists of nothing but snoozes."""
    if isinstance(error, Snooze):
        return [error.delay]
    if not isinstance(error, BaseExceptionGroup):
        return []
    found = [_find_delays(each) for each in error.exceptions]
    return [delay for delays in found for delay in delays] if all(found) else []
