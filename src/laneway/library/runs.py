"""Handles of workflow runs: wait for results, pause, resume and cancel."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import Retryable, RunCancelled, RunFailed
from laneway.domain.runs import ENDED, RunInfo, RunStatus
from laneway.library.arguments import check_optional_duration

if TYPE_CHECKING:
    from laneway.domain.backend import Backend
    from laneway.domain.runs import StepInfo

_NO_TIME = timedelta(0)
_FIRST_PAUSE = timedelta(milliseconds=10)
_LAST_PAUSE = timedelta(milliseconds=500)


class Run:
    """A handle of one workflow run."""

    def __init__(self, backend: Backend, run_id: str) -> None:
        self.run_id = run_id
        self._backend = backend

    async def info(self) -> RunInfo:
        return await self._backend.workflows.load_run(self.run_id)

    async def steps(self) -> list[StepInfo]:
        """Return the finished steps and the timers that were set, oldest first."""
        return await self._backend.workflows.load_steps(self.run_id)

    async def status(self) -> RunStatus:
        return (await self._backend.workflows.load_run(self.run_id)).status

    async def result(self, timeout: timedelta | None = None) -> Any:
        """Wait for the run's end and return what the workflow returned.

        Raises RunFailed or RunCancelled if the run ended otherwise, TimeoutError if it did not end
        in time. A timeout of zero checks once. It keeps waiting while the database or server is
        unreachable.
        """
        limit = check_optional_duration(timeout, "timeout")
        seen: RunInfo | Retryable | None = None
        pause = _FIRST_PAUSE
        try:
            async with asyncio.timeout(limit.total_seconds() if limit else None):
                while True:
                    seen = await self._look()
                    if isinstance(seen, RunInfo) and seen.status in ENDED:
                        return _read_end(seen)
                    if limit == _NO_TIME:
                        break
                    await asyncio.sleep(_choose_pause(seen, pause).total_seconds())
                    pause = min(pause * 2, _LAST_PAUSE)
        except TimeoutError:
            pass
        raise _explain_timeout(self.run_id, seen)

    async def pause(self) -> RunStatus:
        """Pause the run at its next step; running steps are finished."""
        return await self._backend.workflows.ask_run(self.run_id, "pause")

    async def resume(self) -> RunStatus:
        """Continue a paused or failed run from its last finished step."""
        return await self._backend.workflows.ask_run(self.run_id, "resume")

    async def cancel(self) -> RunStatus:
        """End the run at its next step."""
        return await self._backend.workflows.ask_run(self.run_id, "cancel")

    async def _look(self) -> RunInfo | Retryable:
        """Return the run, or the error why it cannot be read now."""
        try:
            return await self._backend.workflows.load_run(self.run_id)
        except Retryable as error:
            return error


def _read_end(run: RunInfo) -> Any:
    match run.status:
        case RunStatus.FAILED:
            summary, _, trace = str(run.error).partition("\n")
            failed = RunFailed(f"workflow run {run.run_id} failed: {summary}")
            if trace:
                failed.add_note(trace)
            raise failed
        case RunStatus.CANCELLED:
            raise RunCancelled(f"workflow run {run.run_id} was cancelled")
        case _:
            return run.result


def _choose_pause(seen: RunInfo | Retryable, pause: timedelta) -> timedelta:
    wanted = seen.retry_after if isinstance(seen, Retryable) else None
    return wanted or pause


def _explain_timeout(run_id: str, seen: RunInfo | Retryable | None) -> TimeoutError:
    match seen:
        case RunInfo():
            return TimeoutError(f"workflow run {run_id} is still {seen.status}: try again later")
        case Retryable():
            return TimeoutError(f"workflow run {run_id} could not be read: {seen}")
        case None:
            return TimeoutError(f"workflow run {run_id} could not be read in time: try again later")
