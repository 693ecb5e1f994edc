"""The calls about workers, handlers' results, and periodic jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import QueueNotFound, WorkerNotFound
from laneway.domain.jobs import JobInfo
from laneway.domain.messages import Status
from laneway.domain.runs import JobResult
from laneway.domain.workers import WorkerInfo, WorkerOrder, WorkerState
from laneway.engine.procedures.call import fetch, fetch_value
from laneway.engine.sqlstates import find_name

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime, timedelta

    import asyncpg

    from laneway.domain.ids import MessageId
    from laneway.domain.messages import OutgoingMessage, Receipt
    from laneway.domain.workers import WorkerIdentity, WorkerKind
    from laneway.engine.procedures.call import Connection
    from laneway.engine.sqlstates import Meanings


async def register_worker(connection: Connection, identity: WorkerIdentity) -> None:
    await fetch_value(
        connection,
        "select laneway.register_worker($1, $2, $3, $4, $5, $6, $7)",
        *identity,
        means={"LW404": lambda error: QueueNotFound(queue=find_name(error))},
    )


async def find_worker_kind(connection: Connection, worker_id: str) -> WorkerKind:
    rows = await fetch(
        connection, "select w.kind from laneway.worker w where w.worker_id = $1", worker_id
    )
    if not rows:
        raise WorkerNotFound(worker=worker_id)
    kind: WorkerKind = rows[0][0]
    return kind


async def stop_silent_clients(connection: Connection) -> int:
    stopped: int = await fetch_value(connection, "select laneway.stop_silent_clients()")
    return stopped


async def find_worker_queues(connection: Connection, worker_id: str) -> list[str]:
    rows = await fetch(
        connection, "select w.queues from laneway.worker w where w.worker_id = $1", worker_id
    )
    if not rows:
        raise WorkerNotFound(worker=worker_id)
    return list(rows[0][0])


async def record_heartbeat(
    connection: Connection,
    worker_id: str,
    *,
    handled: int,
    failed: int,
    progress: str | None,
) -> WorkerOrder:
    (row,) = await fetch(
        connection,
        "select * from laneway.record_heartbeat($1, $2, $3, $4)",
        worker_id,
        handled,
        failed,
        progress,
        means=_missing_worker(worker_id),
    )
    return WorkerOrder(WorkerState(row[0]), row[1] and WorkerState(row[1]), row[2])


async def extend_leases_of_worker(connection: Connection, worker_id: str, lease: timedelta) -> None:
    await fetch_value(
        connection, "select laneway.extend_leases_of_worker($1, $2)", worker_id, lease
    )


async def change_worker_state(
    connection: Connection,
    worker_id: str,
    *,
    source: Collection[WorkerState],
    to: WorkerState,
    asked: WorkerState | None = None,
    idle: bool = False,
) -> tuple[WorkerState, WorkerState, int]:
    """Return the previous state, the present state, and the number of messages in flight."""
    (row,) = await fetch(
        connection,
        "select * from laneway.change_worker_state($1, $2, $3, $4, $5)",
        worker_id,
        list(source),
        to,
        asked,
        idle,
        means=_missing_worker(worker_id),
    )
    return WorkerState(row[0]), WorkerState(row[1]), row[2]


async def list_workers(connection: Connection, queue: str | None) -> list[WorkerInfo]:
    rows = await fetch(
        connection,
        "select * from laneway.workers w where $1::text is null or $1 = any (w.queues)"
        " order by w.started_at, w.worker_id",
        queue,
    )
    return [_read_worker(row) for row in rows]


async def reclaim_worker(
    connection: Connection, worker_id: str, *, release: bool = False
) -> dict[int, int]:
    """Return how many messages were requeued in each queue."""
    rows = await fetch(
        connection,
        "select * from laneway.reclaim_worker($1, $2)",
        worker_id,
        release,
        means=_missing_worker(worker_id),
    )
    return {row[0]: row[1] for row in rows}


async def find_dead_workers(connection: Connection, timeout: timedelta | None) -> list[str]:
    rows = await fetch(connection, "select * from laneway.find_dead_workers($1)", timeout)
    return [row[0] for row in rows]


async def purge_workers(connection: Connection, age: timedelta) -> int:
    purged: int = await fetch_value(connection, "select laneway.purge_workers($1)", age)
    return purged


async def ack_results(
    connection: Connection,
    receipts: Sequence[Receipt],
    results: Sequence[str | None],
    keep: timedelta,
) -> list[int]:
    """Return the positions of those whose lease was lost."""
    tokens, lanes, seqs = zip(*receipts, strict=True)
    rows = await fetch(
        connection,
        "select * from laneway.ack_results($1, $2, $3, $4, $5)",
        tokens,
        lanes,
        seqs,
        results,
        keep,
    )
    return [row[0] for row in rows]


async def find_result(connection: Connection, message: MessageId) -> JobResult | None:
    rows = await fetch(
        connection, "select * from laneway.find_result($1, $2)", message.lane, message.seq
    )
    return JobResult(*rows[0]) if rows else None


async def find_job(connection: Connection, message: MessageId) -> JobInfo | None:
    rows = await fetch(connection, "select * from laneway.find_job($1, $2, $3)", *message)
    if not rows:
        return None
    found = JobInfo(*rows[0])
    return found._replace(status=found.status and Status(found.status))


async def sweep_results(connection: Connection, *, limit: int) -> int:
    swept: int = await fetch_value(connection, "select laneway.sweep_results($1)", limit)
    return swept


async def fire_schedule(
    connection: Connection,
    name: str,
    expression: str,
    due: datetime,
    *,
    queue: str,
    message: OutgoingMessage,
) -> bool:
    fired: bool = await fetch_value(
        connection,
        "select laneway.fire_schedule($1, $2, $3, $4, $5, $6, $7, $8)",
        name,
        expression,
        due,
        queue,
        message.body,
        message.partition,
        message.priority,
        message.headers,
        means={"LW404": lambda _: QueueNotFound(queue=queue)},
    )
    return fired


def _read_worker(row: asyncpg.Record) -> WorkerInfo:
    info = WorkerInfo(**dict(row))
    return info._replace(
        state=WorkerState(info.state), asked=info.asked and WorkerState(info.asked)
    )


def _missing_worker(worker_id: str) -> Meanings:
    return {"LW404": lambda _: WorkerNotFound(worker=worker_id)}
