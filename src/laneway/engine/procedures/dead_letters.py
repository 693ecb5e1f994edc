"""The calls that redrive dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.call import fetch, fetch_value
from laneway.engine.sqlstates import missing_group

if TYPE_CHECKING:
    import asyncpg

    from laneway.engine.procedures.call import Connection


async def replay(connection: Connection, *, group_id: int, limit: int | None) -> int:
    replayed: int = await fetch_value(
        connection,
        "select laneway.requeue_dead_letters($1, $2)",
        group_id,
        limit,
        means=missing_group(group_id),
    )
    return replayed


async def redrive_by_policy(
    connection: Connection, *, queue_id: int | None, limit: int
) -> list[asyncpg.Record]:
    """Return (queue_id, messages) of the queues that received messages."""
    return await fetch(
        connection, "select * from laneway.redrive_by_policy($1, $2)", queue_id, limit
    )
