"""Handles of workflow runs: wait for results, pause, resume and cancel."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import InvalidRequest, RunCancelled, RunFailed
from laneway.domain.runs import ENDED, RunStatus
from laneway.library.arguments import check_optional_time, check_step
from laneway.library.validation import encode_result
from laneway.library.waiting import Seen, wait_for_end

if TYPE_CHECKING:
    from laneway.domain.backend import Backend
    from laneway.domain.runs import RunInfo, StepInfo

_NO_TIME = timedelta(0)


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
        return _read_end(await wait_for_end(self._look, f"workflow run {self.run_id}", timeout))

    async def pause(self, *, resume_after: timedelta | None = None) -> RunStatus:
        """Pause the run at its next step; running steps are finished.

        resume_after: when the run resumes by itself, unless `resume` is called before; None: never.
        """
        later = check_optional_time(resume_after, "resume_after")
        if later is not None and later <= _NO_TIME:
            raise InvalidRequest(f"resume_after is {later}: set more than zero")
        return await self._backend.workflows.ask_run(self.run_id, "pause", resume_after=later)

    async def resume(self) -> RunStatus:
        """Continue a paused or failed run from its last finished step."""
        return await self._backend.workflows.ask_run(self.run_id, "resume")

    async def cancel(self) -> RunStatus:
        """End the run at its next step."""
        return await self._backend.workflows.ask_run(self.run_id, "cancel")

    async def complete_step(self, name: str, result: Any = None) -> bool:
        """Complete a manual step of the run: `laneway.manual_step` returns this result in it.

        Returns False, and changes nothing, if the step was completed before.
        """
        text = encode_result(result)
        return await self._backend.workflows.complete_step(self.run_id, check_step(name), text)

    async def _look(self) -> Seen[RunInfo]:
        found = await self._backend.workflows.load_run(self.run_id)
        return Seen(found, found.status, found.status in ENDED)


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
