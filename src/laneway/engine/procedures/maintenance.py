"""The calls of maintenance: expiry, retention, clean-up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.call import fetch, fetch_value

if TYPE_CHECKING:
    from datetime import datetime

    import asyncpg

    from laneway.engine.procedures.call import Connection


async def read_clock(connection: Connection) -> datetime:
    now: datetime = await fetch_value(connection, "select clock_timestamp()")
    return now


async def is_read_only(connection: Connection) -> bool:
    """Return whether the database refuses writes: a standby, or a setting."""
    setting: str = await fetch_value(
        connection, "select pg_catalog.current_setting('transaction_read_only')"
    )
    return setting == "on"


async def try_maintenance_lock(connection: Connection) -> bool:
    """Try to acquire maintenance leadership for the length of the session."""
    acquired: bool = await fetch_value(
        connection,
        "select pg_catalog.pg_try_advisory_lock('laneway.segment'::regclass::oid::int, 1)",
    )
    return acquired


async def expire(
    connection: Connection, *, limit: int, since: datetime | None
) -> list[asyncpg.Record]:
    """Return (queue_id, group_id, messages) per expired claim."""
    return await fetch(connection, "select * from laneway.expire_claims($1, $2)", limit, since)


async def rotate(connection: Connection) -> int:
    segment: int = await fetch_value(connection, "select laneway.rotate()")
    return segment


async def retain(connection: Connection) -> list[int]:
    """Return the segments that were dropped."""
    return [row[0] for row in await fetch(connection, "select * from laneway.retain()")]


async def sweep_idle(connection: Connection, *, limit: int) -> int:
    swept: int = await fetch_value(connection, "select laneway.sweep_idle($1)", limit)
    return swept


async def sweep_dedup_keys(connection: Connection, *, limit: int) -> int:
    swept: int = await fetch_value(connection, "select laneway.sweep_dedup_keys($1)", limit)
    return swept


async def sweep_forgotten(connection: Connection, *, limit: int) -> int:
    swept: int = await fetch_value(connection, "select laneway.sweep_forgotten($1)", limit)
    return swept


async def sweep_lanes(
    connection: Connection, *, after: int | None, limit: int
) -> tuple[int, int | None]:
    """Return how many lanes were removed, and where to continue, None at the end."""
    [row] = await fetch(connection, "select * from laneway.sweep_lanes($1, $2)", after, limit)
    return row["removed"], row["after"]


async def recover_unlogged(connection: Connection, *, after: int | None) -> int | None:
    """Return where to continue, None at the end."""
    reached: int | None = await fetch_value(
        connection, "select laneway.recover_unlogged($1)", after
    )
    return reached


async def drain_outbox(connection: Connection, *, limit: int) -> list[int]:
    """Return the queues that received messages."""
    return [
        row[0] for row in await fetch(connection, "select * from laneway.drain_outbox($1)", limit)
    ]


async def sweep_sqs(connection: Connection) -> int:
    swept: int = await fetch_value(connection, "select laneway.sweep_sqs()")
    return swept
