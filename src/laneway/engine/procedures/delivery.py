"""The calls on the hot path: push, claim, settle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import QueueNotFound
from laneway.engine.procedures.call import fetch, fetch_value
from laneway.engine.sqlstates import missing_group

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    import asyncpg

    from laneway.domain.messages import Token
    from laneway.engine.columns import MessageColumns, Spans
    from laneway.engine.procedures.call import Connection
    from laneway.engine.sqlstates import Meanings

# The queues are named by their ids, which were looked up before.
_QUEUE: Meanings = {"LW404": lambda _: QueueNotFound()}

# The columns' windows are the functions' last argument.
_PUSH = "select * from laneway.push_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $11, $12, $10)"
_PUSH_MIXED = "select * from laneway.push_mixed($1, $2, $3, $4, $5, $6, $7, $8, $9, $11, $12, $10)"
_PUSH_TELLING = (
    "select p.*, (select laneway.notify_at_commit($13))"
    " from laneway.push_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $11, $12, $10) p"
)
_PUSH_MIXED_TELLING = (
    "select p.*, (select laneway.notify_at_commit($13))"
    " from laneway.push_mixed($1, $2, $3, $4, $5, $6, $7, $8, $9, $11, $12, $10) p"
)


async def push_many(
    connection: Connection,
    *,
    queues: Sequence[int],
    columns: MessageColumns,
    note: str | None = None,
    guards: Sequence[int | None] | None = None,
) -> list[asyncpg.Record]:
    """Return spans: (idx, count, segment, lane_id, seq, duplicate)."""
    return await fetch(
        connection,
        _PUSH if _fit_one_lane(queues, columns) else _PUSH_MIXED,
        queues,
        *columns,
        note,
        guards,
        means=_QUEUE,
    )


async def push_notifying(
    connection: Connection,
    *,
    queues: Sequence[int],
    columns: MessageColumns,
    note: str | None = None,
    guards: Sequence[int | None] | None = None,
    notice: str,
) -> tuple[list[asyncpg.Record], bool]:
    """Return spans as push_many does, and whether the commit notified other processes."""
    rows = await fetch(
        connection,
        _PUSH_TELLING if _fit_one_lane(queues, columns) else _PUSH_MIXED_TELLING,
        queues,
        *columns,
        note,
        guards,
        notice,
        means=_QUEUE,
    )
    return [row[:6] for row in rows], bool(rows) and rows[0][6]  # type: ignore[misc]


def _fit_one_lane(queues: Sequence[int], columns: MessageColumns) -> bool:
    """Return whether push_many can do it without push_mixed, which would cost a tenth more."""
    _, partitions, priorities, *others = columns
    return all(each is None for each in others) and all(
        each is None or len(each) == 1 for each in (queues, partitions, priorities)
    )


async def transact(
    connection: Connection, *, acks: Spans, queues: Sequence[int], columns: MessageColumns
) -> list[asyncpg.Record]:
    """Return spans as push_many does."""
    return await fetch(
        connection,
        "select * from laneway.push_and_ack($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        *acks,
        queues,
        *columns,
        means=_QUEUE,
    )


async def claim_spans(
    connection: Connection,
    *,
    group_id: int,
    wants: Sequence[int],
    leases: Sequence[timedelta | None] | None = None,
    consumers: Sequence[str | None] | None = None,
    partition: str | None = None,
    priority: int | None = None,
    shared: bool = False,
    avoid: Sequence[str] | None = None,
) -> list[asyncpg.Record]:
    """Return a row per claim: its first waiter, and its messages as arrays (see `distribute`).

    InvalidMessage if there is not room for all of them in one result: claim fewer.
    """
    return await fetch(
        connection,
        "select * from laneway.claim_spans($1, $2, $3, $4, $5, $6, true, $7, $8) c"
        " where laneway.fits_result(c.bodies)",
        group_id,
        wants,
        leases,
        consumers,
        partition,
        priority,
        shared,
        avoid,
        means=missing_group(group_id),
    )


async def ack_many(
    connection: Connection,
    *,
    tokens: Sequence[Token],
    lanes: Sequence[int],
    first: Sequence[int],
    last: Sequence[int],
) -> list[asyncpg.Record]:
    """Return what was not settled: (idx of the span, first_seq, last_seq)."""
    return await fetch(
        connection,
        "select * from laneway.ack_many($1, $2, $3, $4, $5)",
        tokens,
        lanes,
        first,
        last,
        len(set(zip(tokens, lanes, strict=True))) < len(tokens),
    )


async def ack_whole(
    connection: Connection,
    *,
    tokens: Sequence[Token],
    lanes: Sequence[int],
    first: Sequence[int],
    last: Sequence[int],
) -> None:
    """Settle as ack_many does, all or nothing: LeaseLost if a lease is lost."""
    await fetch(
        connection,
        "select laneway.raise_lease_lost(a.first_seq) from laneway.ack_many($1, $2, $3, $4, $5) a",
        tokens,
        lanes,
        first,
        last,
        len(set(zip(tokens, lanes, strict=True))) < len(tokens),
    )


async def nack_many(
    connection: Connection,
    *,
    tokens: Sequence[Token],
    lanes: Sequence[int],
    seqs: Sequence[int],
    reasons: Sequence[str | None] | None = None,
    delays: Sequence[timedelta | None] | None = None,
    dead: Sequence[bool | None] | None = None,
) -> list[asyncpg.Record]:
    """Return (idx, outcome) for every item."""
    return await fetch(
        connection,
        "select * from laneway.nack_many($1, $2, $3, $4, $5, $6)",
        tokens,
        lanes,
        seqs,
        reasons,
        delays,
        dead,
    )


async def release_many(
    connection: Connection,
    *,
    tokens: Sequence[Token],
    lanes: Sequence[int],
    seqs: Sequence[int],
    delay: timedelta | None = None,
) -> list[asyncpg.Record]:
    """Return (idx,) of messages whose lease was lost."""
    return await fetch(
        connection,
        "select * from laneway.release_many($1, $2, $3, $4)",
        tokens,
        lanes,
        seqs,
        delay,
    )


async def extend_many(
    connection: Connection,
    *,
    tokens: Sequence[Token],
    lanes: Sequence[int],
    seqs: Sequence[int],
    leases: Sequence[timedelta],
) -> list[asyncpg.Record]:
    """Return (idx, until or null) for every item."""
    return await fetch(
        connection,
        "select * from laneway.extend_many($1, $2, $3, $4)",
        tokens,
        lanes,
        seqs,
        leases,
    )


async def next_due(connection: Connection, group_id: int) -> timedelta | None:
    """Return how long until a delayed or retried message is due, by the database's clock."""
    wait: timedelta | None = await fetch_value(
        connection, "select laneway.next_due($1) - clock_timestamp()", group_id
    )
    return wait


async def ready_groups(connection: Connection, group_ids: Sequence[int]) -> list[int]:
    """Return those of the groups that may have ready messages."""
    rows = await fetch(connection, "select * from laneway.ready_groups($1)", group_ids)
    return [row[0] for row in rows]
