"""The calls about events, the activity log and anomalies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laneway.domain.activity import ConsumerStats, Event, Facts, Snapshot
from laneway.engine.procedures.call import fetch, fetch_value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    import asyncpg

    from laneway.domain.activity import ActivityFilter, AnomalyFilter
    from laneway.domain.ids import MessageId
    from laneway.domain.messages import Token
    from laneway.engine.procedures.call import Connection


async def read_snapshot(connection: Connection) -> Snapshot:
    return Snapshot(*await fetch_value(connection, "select pg_catalog.pg_current_snapshot()"))


async def activity_place(connection: Connection) -> Snapshot:
    """Return how far detectors have read the events."""
    return Snapshot(*await fetch_value(connection, "select laneway.activity_place()"))


async def follow_events(
    connection: Connection, *, seen: Snapshot, limit: int, large: int
) -> tuple[list[Event], Snapshot]:
    """Return the events since `seen`, and a new snapshot, or `seen` if there are none."""
    rows = await fetch(
        connection, "select * from laneway.follow_events($1, $2, $3)", seen, limit, large
    )
    now = Snapshot(*rows[0]["now"]) if rows else seen
    return [Event._make(row[1:]) for row in map(tuple, rows)], now


async def store_activity(
    connection: Connection, *, seen: Snapshot, now: Snapshot, anomalies: str, consumers: str
) -> bool:
    """Return whether it was stored: not if another process has read since `seen`."""
    stored: bool = await fetch_value(
        connection,
        "select laneway.store_activity($1, $2, $3, $4)",
        seen,
        now,
        anomalies,
        consumers,
    )
    return stored


async def list_activity(
    connection: Connection, *, wanted: ActivityFilter, limit: int, offset: int, bound: int
) -> list[asyncpg.Record]:
    return await fetch(
        connection,
        "select * from laneway.list_activity($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        wanted.queue_ids,
        wanted.kinds,
        wanted.consumer,
        wanted.since,
        wanted.until,
        wanted.anomalous,
        wanted.anomaly_type,
        limit,
        offset,
        bound,
    )


async def message_activity(connection: Connection, message: MessageId) -> list[asyncpg.Record]:
    return await fetch(
        connection,
        "select * from laneway.message_activity($1, $2)",
        message.lane,
        message.seq,
    )


async def message_facts(
    connection: Connection, ids: Sequence[MessageId], *, largest: int
) -> list[Facts]:
    """Return what the log still stores, with bodies of up to `largest` bytes."""
    rows = await fetch(
        connection,
        "select * from laneway.message_facts($1, $2, $3, $4)",
        *_columns(ids),
        largest,
    )
    return list(map(Facts._make, rows))


async def find_anomalies(
    connection: Connection, *, xids: Sequence[int], event_ids: Sequence[int]
) -> list[asyncpg.Record]:
    return await fetch(connection, "select * from laneway.find_anomalies($1, $2)", xids, event_ids)


async def list_anomalies(
    connection: Connection,
    *,
    wanted: AnomalyFilter,
    sort: str,
    descending: bool,
    limit: int,
    bound: int,
) -> list[asyncpg.Record]:
    return await fetch(
        connection,
        "select * from laneway.list_anomalies($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        wanted.queue_ids,
        wanted.severity,
        wanted.type,
        wanted.since,
        wanted.until,
        sort,
        descending,
        limit,
        bound,
    )


async def count_anomalies(
    connection: Connection, *, wanted: AnomalyFilter, bound: int
) -> list[asyncpg.Record]:
    """Return (type, severity, count)."""
    return await fetch(
        connection,
        "select * from laneway.count_anomalies($1, $2, $3, $4, $5, $6)",
        wanted.queue_ids,
        wanted.severity,
        wanted.type,
        wanted.since,
        wanted.until,
        bound,
    )


async def list_consumers(
    connection: Connection, *, queue_ids: Sequence[int] | None, consumer: str | None
) -> list[ConsumerStats]:
    rows = await fetch(
        connection, "select * from laneway.list_consumers($1, $2)", queue_ids, consumer
    )
    return list(map(ConsumerStats._make, rows))


async def record_event(
    connection: Connection, *, action: str, ids: Sequence[MessageId], tokens: Sequence[Token | None]
) -> int:
    recorded: int = await fetch_value(
        connection,
        "select laneway.record_event($1, $2, $3, $4, $5)",
        action,
        *_columns(ids),
        tokens,
    )
    return recorded


async def clear_activity(connection: Connection) -> None:
    await fetch_value(connection, "select laneway.clear_activity()")


async def sweep_activity(connection: Connection, *, limit: int) -> int:
    swept: int = await fetch_value(connection, "select laneway.sweep_activity($1)", limit)
    return swept


async def set_event_retention(connection: Connection, retention: timedelta) -> None:
    await fetch_value(connection, "select laneway.set_event_retention($1)", retention)


def _columns(ids: Sequence[MessageId]) -> tuple[Any, ...]:
    return tuple(zip(*ids, strict=True)) if ids else ((), (), ())
