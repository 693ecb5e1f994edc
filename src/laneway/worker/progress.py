"""One run on its way: which steps are finished, what is under way, and why it is let go."""

from __future__ import annotations

import asyncio
import logging
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
from laneway.worker.branches import Branch, find_place, forgive, waits_for_tasks, within_step
from laneway.worker.policies import Reject, Snooze, describe
from laneway.worker.step_failures import read_failure, write_failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from laneway.domain.backend import Backend
    from laneway.domain.runs import DriveStatus, StepInfo, Stored
    from laneway.worker.policies import Retry

T = TypeVar("T")

logger = logging.getLogger(__name__)

# A timer with less to go is waited for by the worker itself, in seconds.
SHORT = 1.0

# How long a timer lets other branches wait for what is neither a timer nor a branch, in seconds.
PATIENCE = 5.0

# How often it looks what they do, at first and at last, in seconds.
OFTEN, SELDOM = 0.01, 0.25

PAUSE = timedelta(seconds=1)

# How long a result is kept trying to be stored where the database is away, in seconds.
STORING = 10.0

# How often a step that waits for another try looks whether its run is to go on, in seconds.
LOOK = 2.0


class Halt(BaseException):
    """Ends a run's function at a step; no error, which it might handle. `Progress.halt` says why."""


class Progress:
    """Keeps what a run's steps and timers did, and has no more of them begin once it is halted.

    halt: why the run's function ends before its time, if it does: how the run stands, or when it
    goes on. Whatever the function makes of it, no step begins then. tasks: the run's branches.
    """

    def __init__(
        self, backend: Backend, run_id: str, driver: str, finished: list[StepInfo]
    ) -> None:
        self.halt: DriveStatus | timedelta | None = None
        self.tasks: WeakKeyDictionary[asyncio.Task[Any], Branch] = WeakKeyDictionary()
        self._backend = backend
        self._run_id = run_id
        self._driver = driver
        self._finished = {item.step: item for item in finished}
        self._began = self._moved = monotonic()
        # Nothing more begins, and timers are called off.
        self._off: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # What is under way, and the tasks that do it: a workflow may have branches.
        self._work: dict[asyncio.Future[None], asyncio.Task[Any] | None] = {}
        # Those that wait for long timers, and when these end.
        self._asleep: dict[asyncio.Task[Any] | None, float] = {}
        self._watch: asyncio.Task[None] | None = None

    async def run_step(self, key: str, call: Callable[[], Awaitable[Any]], *, retry: Retry) -> Any:
        done: StepInfo | Stored | None = self._finished.get(key)
        if done is not None and done.failure is not None:
            failed = read_failure(done.failure)
            if failed is not None:
                raise failed
            logger.warning("step %s of run %s failed of what is unknown here", key, self._run_id)
            done = None
        if done is None:
            done = await self._work_on(lambda: self._finish(key, call, retry))
        # As it will be read again: a tuple comes back as a list from the first time on.
        return None if done.result is None else decode_payload(done.result)

    async def run_timer(self, key: str, duration: timedelta) -> None:
        done: StepInfo | Stored | None = self._finished.get(key)
        since = self._began
        if done is None:
            done = await self._work_on(lambda: self._keep(key, timer=duration))
            since = monotonic()
        if not done.remaining:
            return
        end = since + done.remaining.total_seconds()
        if end - monotonic() > SHORT:
            await self._wait_aside(end)
        await self._work_on(lambda: asyncio.sleep(max(end - monotonic(), 0)))

    async def finish(self) -> None:
        """Have no more steps begin, and return once those of branches left behind are done."""
        self._call_off()
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait({self._watch})
        while self._work:
            await asyncio.wait(list(self._work))

    async def cancel(self) -> None:
        """End the branches that are in the middle of a step."""
        for task in self._work.values():
            if task is not None:
                task.cancel()
        await self.finish()

    async def _finish(self, key: str, call: Callable[[], Awaitable[Any]], retry: Retry) -> Stored:
        """Run a step, and keep what became of it."""
        try:
            result = encode_result(await attempt(call, retry, rest=self._rest))
        except Snooze:
            raise
        except Exception as error:
            # Kept too, since the workflow may handle it, and would do otherwise the next time.
            failure = write_failure(error)
            if failure is None:
                logger.warning(
                    "what step %s of run %s failed of cannot be kept, and it will be tried again: %s",
                    key,
                    self._run_id,
                    describe(error),
                )
            else:
                await self._keep(key, failure=failure)
            raise
        return await self._keep(key, result=result)

    async def _rest(self, wait: timedelta) -> None:
        """Wait for the next try of a step, as long as the run goes on."""
        end = monotonic() + wait.total_seconds()
        while True:
            await self._look()
            left = end - monotonic()
            if left <= 0:
                return
            await asyncio.sleep(min(left, LOOK))

    async def _look(self) -> None:
        """Halt where the run was called off, or is not to go on."""
        if self._off.done():
            raise Halt
        try:
            status = (await self._backend.workflows.load_run(self._run_id)).status
        except RunNotFound:
            status = RunStatus.CANCELLED
        except LanewayError:
            # Not the step's doing; what it comes to is stored, or not, by whoever may.
            return
        if status is not RunStatus.RUNNING:
            self._halt(cast("DriveStatus", status.value))
            raise Halt

    async def _work_on(self, work: Callable[[], Awaitable[T]]) -> T:
        task = asyncio.current_task()
        if self._off.done():
            raise await self._leave()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._work[done] = task
        try:
            return await work()
        except Halt:
            # It waits for others' steps, and none may wait for its own: first that is over.
            pass
        finally:
            del self._work[done]
            done.set_result(None)
            self._moved = monotonic()
        raise await self._leave()

    async def _wait_aside(self, end: float) -> None:
        """Wait for a timer until it is short, or is called off with the run."""
        task = asyncio.current_task()
        self._asleep[task] = end
        if self._watch is None or self._watch.done():
            # No branch of the run.
            self._watch = asyncio.create_task(self._put_off(), context=Context())
        try:
            await asyncio.wait({self._off}, timeout=end - monotonic() - SHORT)
        finally:
            del self._asleep[task]

    async def _put_off(self) -> None:
        """Have the run go on later, once its timers are all that it waits for."""
        pause = OFTEN
        while True:
            await asyncio.sleep(pause)
            if self._work:
                await asyncio.wait(list(self._work), return_when=asyncio.FIRST_COMPLETED)
                pause = OFTEN
                continue
            if not self._asleep:
                return
            if self._is_idle() or monotonic() - self._moved > PATIENCE:
                left = min(self._asleep.values()) - monotonic()
                self._halt(timedelta(seconds=max(left, 0)))
                return
            pause = min(pause * 2, SELDOM)

    def _is_idle(self) -> bool:
        """Tell whether every branch waits for a timer, or for others of them."""
        return all(
            task in self._asleep or task.done() or waits_for_tasks(task, self.tasks)
            for task in list(self.tasks)
        )

    async def _keep(self, key: str, **done: Any) -> Stored:
        try:
            return await self._store(key, **done)
        except asyncio.CancelledError:
            # Nobody knows whether it is kept, and what the run sees must agree with that: it begins anew.
            self._halt(PAUSE)
            raise

    async def _store(self, key: str, **done: Any) -> Stored:
        end = monotonic() + STORING
        while True:
            try:
                stored = await self._backend.workflows.store_step(
                    self._run_id, self._driver, key, **done
                )
                break
            except (Retryable, BrokerClosed) as error:
                if isinstance(error, Retryable) and monotonic() < end:
                    await wait_after(error)
                    continue
                # Not the workflow's doing, and not for it to see.
                logger.warning("run %s goes on later: %s", self._run_id, error)
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
        self._call_off()

    def _call_off(self) -> None:
        if not self._off.done():
            self._off.set_result(None)

    async def _leave(self) -> Halt:
        """Return what ends a branch, and those in a group with it, once no step is under way."""
        while self._work and self.halt != "superseded":
            await asyncio.wait(list(self._work), return_when=asyncio.FIRST_COMPLETED)
        if isinstance(branch := find_place(), Branch):
            forgive(branch)
        return Halt()


async def _sleep(wait: timedelta) -> None:
    await asyncio.sleep(wait.total_seconds())


async def attempt(
    call: Callable[[], Awaitable[Any]],
    retry: Retry,
    *,
    rest: Callable[[timedelta], Awaitable[None]] = _sleep,
) -> Any:
    """Run a step's function, as often as its policy has it; rest: how to wait for another try."""
    task, tries = asyncio.current_task(), 0
    while True:
        tries += 1
        try:
            with within_step():
                return await call()
        except (Reject, Snooze, Halt):
            raise
        except BaseException as error:
            if is_ended(error, task) or retry.is_over(tries, error):
                raise
        await rest(retry.wait(tries))


def is_ended(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Tell whether a function that the task runs was ended from outside, and did not fail."""
    match error:
        case asyncio.CancelledError():
            return task is not None and task.cancelling() > 0
        case GeneratorExit():
            # Raised by the function itself, or by whoever closes it: that is not its own task.
            return asyncio._get_running_loop() is None or asyncio.current_task() is not task  # noqa: SLF001 - does not raise
        case _:
            return False
