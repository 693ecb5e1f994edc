"""The calls about workflow runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import QueueNotFound, RunNotFound
from laneway.domain.runs import Drive, RunInfo, RunStatus, StepInfo, Stored
from laneway.engine.procedures.call import START, Step, fetch, fetch_value

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import timedelta

    import asyncpg

    from laneway.domain.runs import DriveStatus
    from laneway.engine.procedures.call import Connection
    from laneway.engine.sqlstates import Meanings

# Runs that are purged in one step.
_AT_ONCE = 1000


async def start_workflow(
    connection: Connection,
    run_id: str,
    *,
    name: str,
    queue: str,
    given: str,
    priority: int,
    delay: timedelta | None,
) -> bool:
    began: bool = await fetch_value(
        connection,
        "select laneway.start_workflow($1, $2, $3, $4, $5, $6)",
        run_id,
        name,
        queue,
        given,
        priority,
        delay,
        means={"LW404": lambda _: QueueNotFound(queue=queue)},
    )
    return began


async def load_run(connection: Connection, run_id: str) -> RunInfo:
    rows = await fetch(connection, "select * from laneway.workflows w where w.run_id = $1", run_id)
    if not rows:
        raise RunNotFound(run=run_id)
    return _read_run(rows[0])


async def find_run_queue(connection: Connection, run_id: str) -> str | None:
    rows = await fetch(
        connection,
        "select q.name from laneway.workflow w left join laneway.queue q on q.queue_id = w.queue_id"
        " where w.run_id = $1",
        run_id,
    )
    if not rows:
        raise RunNotFound(run=run_id)
    name: str | None = rows[0][0]
    return name


async def load_steps(connection: Connection, run_id: str) -> list[StepInfo]:
    rows = await fetch(
        connection,
        "select s.step, s.result, case when s.due_at is not null"
        " then greatest(s.due_at - clock_timestamp(), interval '0') end, s.failure"
        " from laneway.workflow_step s where s.run_id = $1 order by s.finished_at",
        run_id,
    )
    return [StepInfo(*row) for row in rows]


async def lease_workflow(connection: Connection, run_id: str, driver: str, *, again: bool) -> Drive:
    (row,) = await fetch(
        connection,
        "select * from laneway.lease_workflow($1, $2, $3)",
        run_id,
        driver,
        again,
        means=_missing_run(run_id),
    )
    return Drive(*row)


async def store_step(
    connection: Connection,
    run_id: str,
    driver: str,
    step: str,
    *,
    result: str | None,
    timer: timedelta | None,
    failure: str | None,
) -> Stored:
    (row,) = await fetch(
        connection,
        "select * from laneway.store_step($1, $2, $3, $4, $5, $6)",
        run_id,
        driver,
        step,
        result,
        timer,
        failure,
        means=_missing_run(run_id),
    )
    return Stored(*row)


async def await_steps(
    connection: Connection, run_id: str, driver: str, steps: Sequence[str]
) -> DriveStatus:
    status: DriveStatus = await fetch_value(
        connection,
        "select laneway.await_steps($1, $2, $3)",
        run_id,
        driver,
        steps,
        means=_missing_run(run_id),
    )
    return status


async def complete_step(
    connection: Connection, run_id: str, step: str, result: str
) -> tuple[RunStatus, bool]:
    """Return the run's status, and whether the result was stored."""
    (row,) = await fetch(
        connection,
        "select * from laneway.complete_step($1, $2, $3)",
        run_id,
        step,
        result,
        means=_missing_run(run_id),
    )
    return RunStatus(row[0]), row[1]


async def change_workflow_status(
    connection: Connection,
    run_id: str,
    *,
    source: Collection[RunStatus],
    to: RunStatus,
    result: str | None = None,
    error: str | None = None,
    driver: str | None = None,
    resume_after: timedelta | None = None,
) -> RunStatus:
    """Return the run's previous state."""
    was: str = await fetch_value(
        connection,
        "select laneway.change_workflow_status($1, $2, $3, $4, $5, $6, $7)",
        run_id,
        list(source),
        to,
        result,
        error,
        driver,
        resume_after,
        means=_missing_run(run_id),
    )
    return RunStatus(was)


async def list_runs(
    connection: Connection, *, status: RunStatus | None, limit: int
) -> list[RunInfo]:
    rows = await fetch(
        connection,
        "select * from laneway.workflows w where $1::text is null or w.status = $1"
        " order by w.created_at desc limit $2",
        status,
        limit,
    )
    return [_read_run(row) for row in rows]


async def purge_workflows(connection: Connection, age: timedelta, *, done: Step = START) -> Step:
    """Purge one step; return how many runs in total, and whether to continue."""
    purged: int = await fetch_value(
        connection, "select laneway.purge_workflows($1, $2)", age, _AT_ONCE
    )
    return Step(done.total + purged, purged if purged == _AT_ONCE else None)


def _read_run(row: asyncpg.Record) -> RunInfo:
    info = RunInfo(*row)
    return info._replace(status=RunStatus(info.status))


def _missing_run(run_id: str) -> Meanings:
    return {"LW404": lambda _: RunNotFound(run=run_id)}
