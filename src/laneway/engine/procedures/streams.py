"""The calls of streams: leases, acks by dedup key, transactions, positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from laneway.domain.errors import LeaseLost, QueueNotFound
from laneway.engine.procedures.call import fetch, number
from laneway.engine.procedures.kv import PRECONDITION, turn_kv
from laneway.engine.sqlstates import missing_group

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime, timedelta

    import asyncpg

    from laneway.domain.kv import KvOperation
    from laneway.domain.messages import Token
    from laneway.domain.streams import Settlement
    from laneway.engine.procedures.call import Connection
    from laneway.engine.procedures.timers import TimerColumns

_NOTHING: tuple[tuple[()], ...] = ((),) * 8


class GuardedColumns(NamedTuple):
    """Messages as columns for push_within_limits.

    queues: -1, -2, … are the queues in `new`, with `settings`.
    """

    queues: Sequence[int]
    bodies: Sequence[str]
    partitions: Sequence[str] | None
    keys: Sequence[str | None] | None
    headers: Sequence[str | None] | None
    guards: Sequence[int] | None
    new: Sequence[str]
    settings: Sequence[str]


async def claim_lanes(
    connection: Connection,
    *,
    group_id: int,
    wants: Sequence[int],
    leases: Sequence[timedelta | None] | None = None,
    consumers: Sequence[str | None] | None = None,
    partitions: Collection[str] | None = None,
    priority: int | None = None,
    fill: bool = False,
) -> list[asyncpg.Record]:
    """Return (more, then a row of claim_spans) per claim; InvalidMessage as claim_spans."""
    return await fetch(
        connection,
        "select c.more, (c.span).* from laneway.claim_lanes($1, $2, $3, $4, $5, $6, true, $7) c"
        " where laneway.fits_result((c.span).bodies)",
        group_id,
        wants,
        leases,
        consumers,
        partitions,
        priority,
        fill,
        means=missing_group(group_id),
    )


async def widen_lease(
    connection: Connection,
    *,
    group_id: int,
    token: Token,
    lane: int,
    want: int,
    lanes: int,
    lease: timedelta | None,
) -> list[asyncpg.Record]:
    """Return (lease, then a row of claim_spans) per claim."""
    return await fetch(
        connection,
        "select w.lease, (w.span).* from laneway.widen_lease($1, $2, $3, $4, $5, $6) w"
        " where laneway.fits_result((w.span).bodies)",
        group_id,
        token,
        lane,
        want,
        lanes,
        lease,
    )


async def settle_stream(
    connection: Connection, settlements: Sequence[Settlement]
) -> list[asyncpg.Record]:
    """Return (idx, outcome, released, implied) for each."""
    return await fetch(
        connection,
        "select * from laneway.settle_stream($1, $2, $3, $4, $5, $6, $7, $8)",
        *zip(*settlements, strict=True),
    )


async def transact_stream(
    connection: Connection,
    *,
    required: Sequence[Token],
    settlements: Sequence[Settlement],
    pushes: GuardedColumns,
) -> list[asyncpg.Record]:
    return await fetch(
        connection,
        "select * from laneway.transact_stream"
        "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)",
        required,
        *(zip(*settlements, strict=True) if settlements else _NOTHING),
        *pushes,
        means={"LW404": lambda _: QueueNotFound(), "LW410": LeaseLost},
    )


async def transact_bundle(
    connection: Connection,
    *,
    kv: Sequence[KvOperation],
    timers: TimerColumns,
    required: Sequence[Token],
    settlements: Sequence[Settlement],
    pushes: GuardedColumns,
) -> list[asyncpg.Record]:
    arguments = [
        *turn_kv(kv),
        *timers,
        required,
        *(zip(*settlements, strict=True) if settlements else _NOTHING),
        *pushes,
    ]
    return await fetch(
        connection,
        f"select * from laneway.transact_bundle({number(arguments)})",  # noqa: S608 - only numbers
        *arguments,
        means={"LW404": lambda _: QueueNotFound(), "LW410": LeaseLost, **PRECONDITION},
    )


async def extend_leases(
    connection: Connection, leases: Sequence[Token], durations: Sequence[timedelta]
) -> list[asyncpg.Record]:
    """Return (idx, until or null, renewed) for each."""
    return await fetch(connection, "select * from laneway.extend_leases($1, $2)", leases, durations)


async def push_within_limits(
    connection: Connection, pushes: GuardedColumns
) -> list[asyncpg.Record]:
    """Return spans as push_many does, of the messages that fitted."""
    return await fetch(
        connection,
        "select * from laneway.push_within_limits($1, $2, $3, $4, $5, $6, $7, $8)",
        *pushes,
        means={"LW404": lambda _: QueueNotFound()},
    )


async def maintain_streams(connection: Connection, *, trim: bool) -> list[int]:
    """Return the queues in which messages were dead-lettered."""
    rows = await fetch(connection, "select * from laneway.maintain_streams(p_trim => $1)", trim)
    return [row[0] for row in rows]


async def list_stream_positions(
    connection: Connection,
    *,
    queue_id: int,
    group: str | None,
    partition: str | None,
    limit: int,
) -> list[asyncpg.Record]:
    return await fetch(
        connection,
        "select * from laneway.list_stream_positions($1, $2, $3, $4)",
        queue_id,
        group,
        partition,
        limit,
    )


async def find_message_by_key(
    connection: Connection,
    *,
    lane: int,
    group: str,
    key: str,
    address: tuple[int | None, int | None],
) -> asyncpg.Record | None:
    """Return (segment, seq) of the message with this dedup key."""
    rows = await fetch(
        connection,
        "select * from laneway.find_message_by_key($1, $2, $3, $4, $5)",
        lane,
        group,
        key,
        *address,
    )
    return rows[0] if rows else None


async def count_partitions(connection: Connection) -> dict[int, int]:
    rows = await fetch(connection, "select * from laneway.count_partitions()")
    return {row["queue_id"]: row["lanes"] for row in rows}


async def stream_activity(
    connection: Connection,
    *,
    queue_ids: Sequence[int],
    since: datetime,
    until: datetime,
    step: timedelta,
) -> list[asyncpg.Record]:
    """Return (at, pushed, claimed, acked, failed, dead) per interval with events."""
    return await fetch(
        connection,
        "select * from laneway.stream_activity($1, $2, $3, $4)",
        queue_ids,
        since,
        until,
        step,
    )
