"""The calls that find single messages and change them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import InvalidMessage
from laneway.engine.procedures.call import START, Step, fetch, fetch_value
from laneway.engine.sqlstates import missing_group

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    import asyncpg

    from laneway.domain.backend import LeasedMessage
    from laneway.domain.ids import MessageId
    from laneway.engine.procedures.call import Connection


async def find_messages(
    connection: Connection, *, group_id: int, ids: Sequence[MessageId]
) -> list[asyncpg.Record]:
    """Return a row of the view laneway.messages for each id that is kept, in order."""
    return await fetch(
        connection,
        "select * from laneway.find_messages($1, $2, $3, $4)",
        group_id,
        *zip(*ids, strict=True),
    )


async def find_lanes(connection: Connection, lanes: Sequence[int]) -> list[asyncpg.Record]:
    """Return (lane_id, queue_id, queue, partition, ordered) of those that exist."""
    return await fetch(connection, "select * from laneway.find_lanes($1)", lanes)


async def find_lease_tokens(
    connection: Connection, *, group_id: int, ids: Sequence[MessageId]
) -> list[asyncpg.Record]:
    """Return (idx, token) of the messages that are leased now."""
    _, lanes, seqs = zip(*ids, strict=True)
    return await fetch(
        connection, "select * from laneway.find_lease_tokens($1, $2, $3)", group_id, lanes, seqs
    )


async def first_claim_times(
    connection: Connection, *, group_id: int, lanes: Sequence[int], seqs: Sequence[int]
) -> list[asyncpg.Record]:
    """Return (idx, at) of those that are recorded."""
    return await fetch(
        connection, "select * from laneway.first_claim_times($1, $2, $3)", group_id, lanes, seqs
    )


async def move_messages(
    connection: Connection,
    *,
    group_id: int,
    ids: Sequence[MessageId],
    source: str,
    target: str,
    reason: str | None = None,
    consumer: str | None = None,
    lease: timedelta | None = None,
) -> list[asyncpg.Record]:
    """Return (idx, token or null) of those that moved."""
    return await fetch(
        connection,
        "select * from laneway.move_messages($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        group_id,
        *zip(*ids, strict=True),
        source,
        target,
        reason,
        consumer,
        lease,
        means=missing_group(group_id),
    )


async def edit_message(
    connection: Connection,
    *,
    group_id: int,
    message: MessageId,
    source: str,
    changes: str,
    body: str | None,
    headers: str | None,
) -> bool:
    """Return whether the message was in `source`; `changes` is a JSON object."""
    changed: bool = await fetch_value(
        connection,
        "select laneway.edit_message($1, $2, $3, $4, $5, $6, $7, $8)",
        group_id,
        *message,
        source,
        changes,
        body,
        headers,
        means={**missing_group(group_id), "LW422": InvalidMessage},
    )
    return changed


async def purge(
    connection: Connection, *, group_id: int, status: str | None, done: Step = START
) -> Step:
    """Purge one step; return how many messages in total, and where to continue."""
    [row] = await fetch(
        connection,
        "select * from laneway.purge($1, $2, $3, $4)",
        group_id,
        status,
        done.after,
        done.total,
        means=missing_group(group_id),
    )
    return Step._make(row)


async def hasten(connection: Connection, *, group_id: int, until: datetime) -> int:
    hastened: int = await fetch_value(connection, "select laneway.hasten($1, $2)", group_id, until)
    return hastened


async def delete_between(
    connection: Connection,
    *,
    group_id: int,
    since: datetime,
    until: datetime,
    done: Step = START,
) -> Step:
    """Delete one step; return how many messages in total, and where to continue."""
    [row] = await fetch(
        connection,
        "select * from laneway.delete_between($1, $2, $3, $4, $5)",
        group_id,
        since,
        until,
        done.after,
        done.total,
        means=missing_group(group_id),
    )
    return Step._make(row)


async def archive_many(
    connection: Connection, *, group_id: int, holdings: Sequence[LeasedMessage]
) -> list[int]:
    """Return the positions of those that were leased, and are archived."""
    rows = await fetch(
        connection,
        "select * from laneway.archive_many($1, $2, $3, $4, $5)",
        group_id,
        *zip(*holdings, strict=True),
    )
    return [row[0] for row in rows]
