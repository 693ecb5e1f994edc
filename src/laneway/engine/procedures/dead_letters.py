"""The calls that redrive dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.dead_letters import FailureGroup
from laneway.domain.ids import MessageId
from laneway.engine.procedures.call import fetch, fetch_value
from laneway.engine.sqlstates import missing_group

if TYPE_CHECKING:
    import asyncpg

    from laneway.domain.dead_letters import DeadLetterFilter
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


async def find_dead_letters(
    connection: Connection, *, group_id: int, wanted: DeadLetterFilter, limit: int
) -> list[MessageId]:
    """Return the ids of dead letters that match, whatever `wanted.ids` says; oldest failure first."""
    rows = await fetch(
        connection,
        "select * from laneway.find_dead_letters($1, $2, $3, $4, $5, $6, $7)",
        group_id,
        limit,
        wanted.until,
        wanted.since,
        wanted.signature,
        wanted.partition,
        wanted.search,
    )
    return [MessageId(*row) for row in rows]


async def list_failure_groups(
    connection: Connection, *, group_id: int, limit: int
) -> list[FailureGroup]:
    rows = await fetch(
        connection, "select * from laneway.list_failure_groups($1, $2)", group_id, limit
    )
    return [FailureGroup(*row) for row in rows]


async def redrive_by_policy(
    connection: Connection, *, queue_id: int | None, limit: int
) -> list[asyncpg.Record]:
    """Return (queue_id, messages) of the queues that received messages."""
    return await fetch(
        connection, "select * from laneway.redrive_by_policy($1, $2)", queue_id, limit
    )
