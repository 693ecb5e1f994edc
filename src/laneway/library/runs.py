"""One run of a workflow, seen from outside."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import RunCancelled, RunFailed
from laneway.domain.runs import RunStatus
from laneway.library.arguments import check_optional_duration
from laneway.library.messages import decode_payload

if TYPE_CHECKING:
    from laneway.domain.backend import Backend
    from laneway.domain.runs import RunInfo, StepInfo

_FIRST_PAUSE = timedelta(milliseconds=10)
_LAST_PAUSE = timedelta(milliseconds=500)


class Run:
    def __init__(self, backend: Backend, run_id: str) -> None:
        self.run_id = run_id
        self._backend = backend

    async def info(self) -> RunInfo:
        return await self._backend.load_run(self.run_id)

    async def steps(self) -> list[StepInfo]:
        """Return the steps that are finished, and the timers that were set, oldest first."""
        return await self._backend.load_steps(self.run_id)

    async def status(self) -> RunStatus:
        return (await self._backend.load_run(self.run_id)).status

    async def result(self, timeout: timedelta | None = None) -> Any:
        """Wait for the end and return what the workflow returned.

        RunFailed and RunCancelled tell of another end, TimeoutError of none in time.
        """
        limit = check_optional_duration(timeout, "timeout")
        async with asyncio.timeout(None if limit is None else limit.total_seconds()):
            pause = _FIRST_PAUSE
            while True:
                run = await self._backend.load_run(self.run_id)
                match run.status:
                    case RunStatus.COMPLETED:
                        return None if run.result is None else decode_payload(run.result)
                    case RunStatus.FAILED:
                        raise RunFailed(f"workflow run {self.run_id} failed: {run.error}")
                    case RunStatus.CANCELLED:
                        raise RunCancelled(f"workflow run {self.run_id} was cancelled")
                    case RunStatus.RUNNING | RunStatus.PAUSED:
                        await asyncio.sleep(pause.total_seconds())
                        pause = min(pause * 2, _LAST_PAUSE)

    async def pause(self) -> RunStatus:
        """Have the run stop at its next step; what it is in the middle of is finished first."""
        return await self._backend.ask_run(self.run_id, "pause")

    async def resume(self) -> RunStatus:
        """Have a paused or failed run go on from its last finished step."""
        return await self._backend.ask_run(self.run_id, "resume")

    async def cancel(self) -> RunStatus:
        """End the run at its next step."""
        return await self._backend.ask_run(self.run_id, "cancel")
