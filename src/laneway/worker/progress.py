"""Progress of one run: its finished steps, its running ones, and why the run stops early."""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import contextmanager
from contextvars import Context
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary

from laneway.domain.errors import BrokerClosed, LanewayError, Retryable, RunNotFound
from laneway.domain.runs import RunStatus
from laneway.library.messages import decode_payload
from laneway.library.validation import encode_result
from laneway.worker.backoff import wait_after
from laneway.worker.branches import Branch, find_place, retrieve_errors, within_step
from laneway.worker.policies import Reject, Snooze, describe, find_delay
from laneway.worker.step_failures import read_failure, write_failure
from laneway.worker.tracebacks import make_exc_info

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from laneway.domain.backend import Backend
    from laneway.domain.runs import DriveStatus, StepInfo, Stored
    from laneway.worker.policies import Retry

T = TypeVar("T")

logger = logging.getLogger(__name__)

# The worker itself waits for timers shorter than this, in seconds.
SHORT = 1.0

# How long a run with a long timer is kept without a step while a branch waits for something else,
# in seconds.
PATIENCE = 5.0

# First and longest interval between checks whether the run can be suspended, in seconds.
FIRST_CHECK, LONGEST_CHECK = 0.01, 0.25

PAUSE = timedelta(seconds=1)

# How long storing a result is retried while the database is unreachable, in seconds.
STORE_TIMEOUT = 10.0

# Interval at which a step that waits for its next attempt checks the run's status, in seconds.
STATUS_INTERVAL = 2.0


class Halt(BaseException):
    """Ends a run's function at a step. `Progress.halt` says why.

    Not an Exception, so workflows do not catch it by accident.
    """


class Progress:
    """Runs the steps and timers of one run and stores their results; starts none once halted.

    halt: why the run's function ends early, if it does: the run's status, or the delay after which
    the run continues. Once it is set, no step starts. tasks: the run's branches, by task.
    """

    def __init__(
        self, backend: Backend, run_id: str, driver: str, finished: list[StepInfo]
    ) -> None:
        self.halt: DriveStatus | timedelta | None = None
        self.tasks: WeakKeyDictionary[asyncio.Task[Any], Branch] = WeakKeyDictionary()
        self._backend = backend
        self.run_id = run_id
        self._driver = driver
        self._finished = {item.step: item for item in finished}
        # When a step or timer was last called or finished. Calls that return a stored result count
        # too, else a run might be suspended during replay, each time before its first new step.
        self._started = self._last_step = monotonic()
        # Set once no step may start any more; ends the waits for timers.
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # The running steps, and the tasks that run them.
        self._work: dict[asyncio.Future[None], asyncio.Task[Any] | None] = {}
        # The tasks that wait for long timers or manual steps, and when these end.
        self._asleep: dict[asyncio.Task[Any] | None, float] = {}
        # The manual steps that branches wait for.
        self._manual: set[str] = set()
        # The tasks that wait for other branches; see `join`.
        self._joining: set[asyncio.Task[Any]] = set()
        self._suspender: asyncio.Task[None] | None = None

    async def run_step(self, key: str, call: Callable[[], Awaitable[Any]], *, retry: Retry) -> Any:
        """Return the step's stored result, or run the step and store its result."""
        self._last_step = monotonic()
        done: StepInfo | Stored | None = self._finished.get(key)
        if done is not None and done.failure is not None:
            failed = read_failure(done.failure)
            if failed is not None:
                raise failed
            logger.warning(
                "stored error of step %s of run %s cannot be restored here, running the step again",
                key,
                self.run_id,
            )
            done = None
        if done is None:
            done = await self._work_on(lambda: self._finish(key, call, retry))
        # Decoded even the first time, so that a tuple is a list from the first call on.
        return None if done.result_text is None else decode_payload(done.result_text)

    async def run_timer(self, key: str, duration: timedelta) -> None:
        """Wait for a timer; its start is stored, so a restart does not restart it."""
        self._last_step = monotonic()
        done: StepInfo | Stored | None = self._finished.get(key)
        since = self._started
        if done is None:
            done = await self._work_on(lambda: self._keep(key, timer=duration))
            since = monotonic()
        if not done.remaining:
            return
        end = since + done.remaining.total_seconds()
        if end - monotonic() > SHORT:
            await self._wait_until_short(end)
        await self._work_on(lambda: asyncio.sleep(max(end - monotonic(), 0)))

    async def await_manual(self, key: str) -> Any:
        """Return the result of a step that is completed from outside; the run waits without a worker."""
        self._last_step = monotonic()
        done = self._finished.get(key)
        if done is None:
            if not self._stopped.done():
                self._manual.add(key)
                await self._wait_until_short(math.inf)
            raise await self._leave()
        return done.result

    @contextmanager
    def joining(self) -> Iterator[None]:
        """Declare that the current task waits only for other branches in the enclosed code."""
        task = asyncio.current_task()
        if task is None or task in self._joining:
            yield
            return
        self._joining.add(task)
        try:
            yield
        finally:
            self._joining.discard(task)

    async def finish(self) -> None:
        """Let no more steps start; return once the running ones are done."""
        self._stop()
        if self._suspender is not None:
            self._suspender.cancel()
            await asyncio.wait({self._suspender})
        while self._work:
            await asyncio.wait(list(self._work))

    async def cancel(self) -> None:
        """Cancel the branches that are running a step, and finish."""
        for task in self._work.values():
            if task is not None:
                task.cancel()
        await self.finish()

    async def _finish(self, key: str, call: Callable[[], Awaitable[Any]], retry: Retry) -> Stored:
        """Run a step and store its result or error."""
        try:
            result = encode_result(
                await attempt(
                    call,
                    retry,
                    wait=self._wait_for_attempt,
                    on_failure=lambda *failure: self._log_failure(key, retry, *failure),
                )
            )
        except Snooze:
            raise
        except Exception as error:
            # Errors are stored too: the workflow may catch one, and must get it again on replay.
            failure = write_failure(error)
            if failure is None:
                logger.warning(
                    "error of step %s of run %s cannot be stored, the step will run again: %s",
                    key,
                    self.run_id,
                    describe(error),
                )
            else:
                await self._keep(key, failure=failure)
            raise
        return await self._keep(key, result=result)

    def _log_failure(
        self, key: str, retry: Retry, attempts: int, pause: timedelta | None, error: BaseException
    ) -> None:
        logger.error(
            "step %s of run %s failed, attempt %d%s, %s: %s",
            key,
            self.run_id,
            attempts,
            "" if retry.max_attempts is None else f" of {retry.max_attempts}",
            "no further try" if pause is None else f"next try in {pause.total_seconds():.1f} s",
            describe(error),
            exc_info=make_exc_info(error),
        )

    async def _wait_for_attempt(self, wait: timedelta) -> None:
        """Wait before a step's next attempt; halt if the run is stopped meanwhile."""
        end = monotonic() + wait.total_seconds()
        while True:
            await self._check_status()
            left = end - monotonic()
            if left <= 0:
                return
            await asyncio.sleep(min(left, STATUS_INTERVAL))

    async def _check_status(self) -> None:
        """Halt if no step may start, or if the run's status is not running."""
        if self._stopped.done():
            raise Halt
        try:
            status = (await self._backend.workflows.load_run(self.run_id)).status
        except RunNotFound:
            status = RunStatus.CANCELLED
        except LanewayError:
            # Storing the step's result decides whether this worker still drives the run.
            return
        if status is not RunStatus.RUNNING:
            self._halt(cast("DriveStatus", status.value))
            raise Halt

    async def _work_on(self, work: Callable[[], Awaitable[T]]) -> T:
        task = asyncio.current_task()
        if self._stopped.done():
            raise await self._leave()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._work[done] = task
        try:
            return await work()
        except Halt:
            # Raised again below: `_leave` waits for running steps, and this one must not be among them.
            pass
        finally:
            del self._work[done]
            done.set_result(None)
            self._last_step = monotonic()
        raise await self._leave()

    async def _wait_until_short(self, end: float) -> None:
        """Wait until a timer is short, or until no step may start any more."""
        task = asyncio.current_task()
        self._asleep[task] = end
        if self._suspender is None or self._suspender.done():
            # In an empty context, so that this task is no branch of the run.
            self._suspender = asyncio.create_task(self._suspend(), context=Context())
        try:
            left = None if end == math.inf else end - monotonic() - SHORT
            await asyncio.wait({self._stopped}, timeout=left)
        finally:
            del self._asleep[task]

    async def _suspend(self) -> None:
        """Suspend the run once it waits only for long timers."""
        pause, idle_before = FIRST_CHECK, None
        while True:
            await asyncio.sleep(pause)
            if self._work:
                await asyncio.wait(list(self._work), return_when=asyncio.FIRST_COMPLETED)
                pause, idle_before = FIRST_CHECK, None
                continue
            if not self._asleep:
                return
            idle = self._find_idle()
            # Twice the same: a branch whose join has just ended may not have been woken yet.
            if idle is not None and idle == idle_before:
                await self._halt_until_timer()
                return
            if monotonic() - self._last_step > PATIENCE:
                logger.info(
                    "run %s suspended: no step for %g seconds, and a branch waits for something other"
                    " than a timer. If it waits for branches, wait for them with laneway.join: the"
                    " run is then suspended at once",
                    self.run_id,
                    PATIENCE,
                )
                await self._halt_until_timer()
                return
            pause, idle_before = min(pause * 2, LONGEST_CHECK), idle

    def _find_idle(self) -> set[asyncio.Task[Any]] | None:
        """Return the unfinished branches, if all wait for long timers or, by `join`, for others."""
        tasks = {task for task in list(self.tasks) if not task.done()}
        return tasks if tasks <= self._asleep.keys() | self._joining else None

    async def _halt_until_timer(self) -> None:
        """Halt until the next timer is due or a manual step is completed."""
        end = min(self._asleep.values())
        if self._manual:
            try:
                status = await self._backend.workflows.await_steps(
                    self.run_id, self._driver, sorted(self._manual)
                )
            except RunNotFound:
                status = "superseded"
            except (Retryable, BrokerClosed):
                self._halt(PAUSE)
                return
            if status != "waiting" or end == math.inf:
                self._halt(status)
                return
        self._halt(timedelta(seconds=max(end - monotonic(), 0)))

    async def _keep(self, key: str, **done: Any) -> Stored:
        try:
            return await self._store(key, **done)
        except asyncio.CancelledError:
            # It is unknown whether the result was stored, so the run restarts from the stored steps.
            self._halt(PAUSE)
            raise

    async def _store(self, key: str, **done: Any) -> Stored:
        end = monotonic() + STORE_TIMEOUT
        while True:
            try:
                stored = await self._backend.workflows.store_step(
                    self.run_id, self._driver, key, **done
                )
                break
            except (Retryable, BrokerClosed) as error:
                if isinstance(error, Retryable) and monotonic() < end:
                    await wait_after(error)
                    continue
                # Not an error of the workflow, so it does not get to handle it.
                logger.warning(
                    "result of step %s of run %s not stored, the run continues later: %s",
                    key,
                    self.run_id,
                    error,
                )
                self._halt(PAUSE)
                raise Halt from None
        if stored.status != "running":
            self._halt(stored.status)
            raise Halt
        return stored

    def _halt(self, why: DriveStatus | timedelta) -> None:
        if isinstance(why, timedelta) and self.halt is not None:
            why = min(why, self.halt) if isinstance(self.halt, timedelta) else self.halt
        self.halt = why
        self._stop()

    def _stop(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(None)

    async def _leave(self) -> Halt:
        """Return the error that ends a branch, once no step is running.

        The error ends the other branches of a task group too, so their steps must be done.
        """
        while self._work and self.halt != "superseded":
            await asyncio.wait(list(self._work), return_when=asyncio.FIRST_COMPLETED)
        if isinstance(branch := find_place(), Branch):
            retrieve_errors(branch)
        return Halt()


async def _sleep(wait: timedelta) -> None:
    await asyncio.sleep(wait.total_seconds())


async def attempt(
    call: Callable[[], Awaitable[Any]],
    retry: Retry,
    *,
    wait: Callable[[timedelta], Awaitable[None]] = _sleep,
    on_failure: Callable[[int, timedelta | None, BaseException], None] | None = None,
) -> Any:
    """Run a step's function until it succeeds or its retry policy gives up.

    wait: waits for the given time before the next attempt. on_failure: called after each failed
    attempt with its number, the time until the next one (None: there is none) and the error.
    """
    task, attempts = asyncio.current_task(), 0
    while True:
        attempts += 1
        try:
            with within_step():
                return await call()
        except (Snooze, Halt):
            raise
        except BaseException as error:
            if is_ended(error, task):
                raise
            over = isinstance(error, Reject) or retry.is_over(attempts, error)
            asked = find_delay(error)
            pause = retry.wait(attempts) if asked is None else asked
            if on_failure is not None:
                on_failure(attempts, None if over else pause, error)
            if over:
                raise
        await wait(pause)


def is_ended(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Return whether a function that the task runs was cancelled or closed from outside."""
    match error:
        case asyncio.CancelledError():
            return task is not None and task.cancelling() > 0
        case GeneratorExit():
            # Either the function raised it, or it was closed outside of its own task.
            try:
                return asyncio.current_task() is not task
            except RuntimeError:
                # No event loop is running.
                return True
        case _:
            return False
