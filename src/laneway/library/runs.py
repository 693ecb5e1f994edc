"""One run of a workflow, seen from outside."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import Retryable, RunCancelled, RunFailed
from laneway.domain.runs import ENDED, RunInfo, RunStatus
from laneway.library.arguments import check_optional_duration
from laneway.library.messages import decode_payload

if TYPE_CHECKING:
    from laneway.domain.backend import Backend
    from laneway.domain.runs import StepInfo

_NO_TIME = timedelta(0)
_FIRST_PAUSE = timedelta(milliseconds=10)
_LAST_PAUSE = timedelta(milliseconds=500)


class Run:
    def __init__(self, backend: Backend, run_id: str) -> None:
        self.run_id = run_id
        self._backend = backend

    async def info(self) -> RunInfo:
        return await self._backend.workflows.load_run(self.run_id)

    async def steps(self) -> list[StepInfo]:
        """Return the steps that are finished, and the timers that were set, oldest first."""
        return await self._backend.workflows.load_steps(self.run_id)

    async def status(self) -> RunStatus:
        return (await self._backend.workflows.load_run(self.run_id)).status

    async def result(self, timeout: timedelta | None = None) -> Any:
        """Wait for the end and return what the workflow returned.

        RunFailed and RunCancelled tell of another end, TimeoutError of none in time; a timeout of
        zero looks once. A database or server that is away is waited for as well.
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
        """Have the run stop at its next step; what it is in the middle of is finished first."""
        return await self._backend.workflows.ask_run(self.run_id, "pause")

    async def resume(self) -> RunStatus:
        """Have a paused or failed run go on from its last finished step."""
        return await self._backend.workflows.ask_run(self.run_id, "resume")

    async def cancel(self) -> RunStatus:
        """End the run at its next step."""
        return await self._backend.workflows.ask_run(self.run_id, "cancel")

    async def _look(self) -> RunInfo | Retryable:
        """Return the run, or why it cannot be seen at the moment."""
        try:
            return await self._backend.workflows.load_run(self.run_id)
        except Retryable as error:
            return error


def _read_end(run: RunInfo) -> Any:
    match run.status:
        case RunStatus.FAILED:
            raise RunFailed(f"workflow run {run.run_id} failed: {run.error}")
        case RunStatus.CANCELLED:
            raise RunCancelled(f"workflow run {run.run_id} was cancelled")
        case _:
            return None if run.result is None else decode_payload(run.result)


def _choose_pause(seen: RunInfo | Retryable, pause: timedelta) -> timedelta:
    wanted = seen.retry_after if isinstance(seen, Retryable) else None
    return wanted or pause


def _explain_timeout(run_id: str, seen: RunInfo | Retryable | None) -> TimeoutError:
    match seen:
        case RunInfo():
            return TimeoutError(f"workflow run {run_id} is still {seen.status}: ask again later")
        case Retryable():
            return TimeoutError(f"workflow run {run_id} could not be seen: {seen}")
        case None:
            return TimeoutError(f"workflow run {run_id} was not seen in time: ask again later")
