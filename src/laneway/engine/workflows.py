"""The broker's calls about workflow runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import InvalidRequest, InvalidStateTransition, QueueNotFound
from laneway.domain.runs import ENDED, RUN_ASKS, RunStatus
from laneway.engine.procedures import workflows as procedures
from laneway.engine.steps import take_steps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from laneway.domain.runs import Drive, DriveStatus, RunAsk, RunInfo, StepInfo, Stored
    from laneway.engine.core import Core
    from laneway.engine.procedures.call import Connection, Step

_LIVE = (RunStatus.RUNNING, RunStatus.PAUSED)


class Workflows:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def start_run(
        self,
        run_id: str,
        *,
        name: str,
        queue: str,
        arguments: str,
        priority: int = 0,
        delay: timedelta | None = None,
    ) -> bool:
        """Start a run, unless one with this id exists; return whether it was started.

        Raises Conflict if that run is of another workflow.
        """
        try:
            found = await self._core.catalog.find(queue)
        except QueueNotFound as error:
            advice = f'Start a worker that has workflow "{name}", which creates it, or create it'
            raise QueueNotFound(queue=queue, advice=advice) from error
        async with self._core.pool.lend() as connection:
            began = await procedures.start_workflow(
                connection,
                run_id,
                name=name,
                queue=queue,
                given=arguments,
                priority=priority,
                delay=delay,
            )
        self._core.wakeups.wake(found.queue_id)
        return began

    async def load_run(self, run_id: str) -> RunInfo:
        async with self._core.pool.lend() as connection:
            return await procedures.load_run(connection, run_id)

    async def find_run_queue(self, run_id: str) -> str | None:
        """Return the name of a run's queue, None if the queue was deleted."""
        async with self._core.pool.lend() as connection:
            return await procedures.find_run_queue(connection, run_id)

    async def load_steps(self, run_id: str) -> list[StepInfo]:
        async with self._core.pool.lend() as connection:
            return await procedures.load_steps(connection, run_id)

    async def drive_run(self, run_id: str, driver: str, *, again: bool = False) -> Drive:
        """Become the driver of a run with this message; return the run's state.

        again: only continue as its driver. If the run is not running, the message is released.
        """
        async with self._core.pool.lend() as connection:
            return await procedures.lease_workflow(connection, run_id, driver, again=again)

    async def store_step(
        self,
        run_id: str,
        driver: str,
        step: str,
        *,
        result: str | None = None,
        timer: timedelta | None = None,
        failure: str | None = None,
    ) -> Stored:
        """Store a step's result or failure, or a timer, once; return what is stored, old or new."""
        async with self._core.pool.lend() as connection:
            return await procedures.store_step(
                connection, run_id, driver, step, result=result, timer=timer, failure=failure
            )

    async def end_run(
        self,
        run_id: str,
        driver: str,
        status: RunStatus,
        *,
        result: str | None = None,
        error: str | None = None,
    ) -> RunStatus:
        """End a run that is not ended and still this driver's; return its previous state."""
        async with self._core.pool.lend() as connection:
            return await procedures.change_workflow_status(
                connection,
                run_id,
                source=_LIVE,
                to=status,
                result=result,
                error=error,
                driver=driver,
            )

    async def await_steps(self, run_id: str, driver: str, steps: Sequence[str]) -> DriveStatus:
        """Give up driving a run that waits for one of these steps, unless one is completed."""
        async with self._core.pool.lend() as connection:
            return await procedures.await_steps(connection, run_id, driver, steps)

    async def complete_step(self, run_id: str, step: str, result: str) -> bool:
        """Store a manual step's result; return False if the step was completed before."""
        async with self._core.pool.lend() as connection:
            status, stored = await procedures.complete_step(connection, run_id, step, result)
            if status in ENDED:
                raise InvalidStateTransition(
                    status, RunStatus.RUNNING, f'workflow run "{run_id}" is {status}'
                )
            queue = (await procedures.load_run(connection, run_id)).queue
        if stored and queue is not None:
            self._core.wakeups.wake((await self._core.catalog.find(queue)).queue_id)
        return stored

    async def ask_run(
        self, run_id: str, ask: RunAsk, *, resume_after: timedelta | None = None
    ) -> RunStatus:
        """Pause, resume or cancel a run; return its state afterwards.

        resume_after: the pause ends by itself after this time.
        """
        source, target = RUN_ASKS[ask]
        if resume_after is not None and ask != "pause":
            raise InvalidRequest(f'resume_after is given with "{ask}": give it with "pause" only')
        async with self._core.pool.lend() as connection:
            was = await procedures.change_workflow_status(
                connection, run_id, source=source, to=target, resume_after=resume_after
            )
            if was not in source:
                raise InvalidStateTransition(was, target, f'workflow run "{run_id}" is {was}')
            queue = (await procedures.load_run(connection, run_id)).queue
        if (target is RunStatus.RUNNING or resume_after is not None) and queue is not None:
            found = await self._core.catalog.find(queue)
            self._core.wakeups.wake(found.queue_id, delayed=resume_after is not None)
        return target

    async def list_runs(
        self, *, status: RunStatus | None = None, limit: int = 100
    ) -> list[RunInfo]:
        """Return runs, newest first."""
        async with self._core.pool.lend() as connection:
            return await procedures.list_runs(connection, status=status, limit=limit)

    async def purge_runs(self, age: timedelta) -> int:
        """Delete runs that ended longer ago than this, with their steps; return how many."""

        async def purge(connection: Connection, done: Step) -> Step:
            return await procedures.purge_workflows(connection, age, done=done)

        return await take_steps(self._core.pool, purge)
