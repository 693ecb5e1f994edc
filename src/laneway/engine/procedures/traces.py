"""The calls about traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.call import fetch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import asyncpg

    from laneway.engine.procedures.call import Connection


async def record_trace(
    connection: Connection,
    *,
    lane: int,
    key: str,
    group: str,
    event_type: str,
    names: Sequence[str],
    data: str,
) -> asyncpg.Record:
    """Return (trace_id, at)."""
    rows = await fetch(
        connection,
        "select * from laneway.record_trace($1, $2, $3, $4, $5, $6)",
        lane,
        key,
        group,
        event_type,
        names,
        data,
    )
    return rows[0]


async def list_traces(
    connection: Connection,
    *,
    lane: int | None = None,
    key: str | None = None,
    name: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int,
    offset: int,
) -> list[asyncpg.Record]:
    return await fetch(
        connection,
        "select * from laneway.list_traces($1, $2, $3, $4, $5, $6, $7)",
        lane,
        key,
        name,
        since,
        until,
        limit,
        offset,
    )


async def list_trace_names(
    connection: Connection, *, limit: int, offset: int
) -> list[asyncpg.Record]:
    return await fetch(connection, "select * from laneway.list_trace_names($1, $2)", limit, offset)
