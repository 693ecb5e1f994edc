"""The calls about move tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import QueueNotFound
from laneway.domain.moves import MoveTask
from laneway.engine.procedures.call import fetch, fetch_value
from laneway.engine.sqlstates import find_name

if TYPE_CHECKING:
    from uuid import UUID

    import asyncpg

    from laneway.engine.procedures.call import Connection


async def start_move(
    connection: Connection, *, source: str, target: str | None, rate: int | None
) -> UUID | None:
    task: UUID | None = await fetch_value(
        connection,
        "select laneway.start_move($1, $2, $3)",
        source,
        target,
        rate,
        means={"LW404": lambda error: QueueNotFound(queue=find_name(error))},
    )
    return task


async def cancel_move(connection: Connection, task: UUID, *, queue_id: int) -> int | None:
    moved: int | None = await fetch_value(
        connection, "select laneway.cancel_move($1, $2)", task, queue_id
    )
    return moved


async def list_moves(connection: Connection, *, source: str, limit: int) -> list[MoveTask]:
    rows = await fetch(connection, "select * from laneway.list_moves($1, $2)", source, limit)
    return [MoveTask._make(row) for row in rows]


async def run_moves(connection: Connection, *, limit: int) -> list[asyncpg.Record]:
    """Return (queue_id, more) of the queues that received messages."""
    return await fetch(connection, "select * from laneway.run_moves($1)", limit)
