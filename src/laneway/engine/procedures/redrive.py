"""The calls about dead letters that go to other queues, and about clients that ask again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laneway.domain.errors import InvalidSetting, QueueNotFound
from laneway.domain.moves import MoveTask
from laneway.engine.procedures.administration import encode_json
from laneway.engine.procedures.call import fetch, fetch_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    import asyncpg

    from laneway.domain.messages import Token
    from laneway.domain.settings import QueueChanges
    from laneway.engine.procedures.call import Connection

_QUEUE = {"LW404": QueueNotFound}


async def configure_queue(
    connection: Connection,
    name: str,
    *,
    settings: QueueChanges,
    section: str,
    options: Mapping[str, Any],
    seen: datetime | None,
) -> None:
    await fetch_value(
        connection,
        "select laneway.configure_queue($1, $2, $3, $4, $5)",
        name,
        encode_json(settings),
        section,
        encode_json(options),
        seen,
        means={"LW404": QueueNotFound, "LW422": InvalidSetting},
    )


async def redrive_by_policy(
    connection: Connection, *, queue_id: int | None, limit: int
) -> list[asyncpg.Record]:
    """Return (queue_id, messages) of the queues that got some."""
    return await fetch(
        connection, "select * from laneway.redrive_by_policy($1, $2)", queue_id, limit
    )


async def start_move(
    connection: Connection, *, source: str, target: str | None, rate: int | None
) -> UUID | None:
    task: UUID | None = await fetch_value(
        connection, "select laneway.start_move($1, $2, $3)", source, target, rate, means=_QUEUE
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
    """Return (queue_id, more) of the queues that got messages."""
    return await fetch(connection, "select * from laneway.run_moves($1)", limit)


async def note_attempt(
    connection: Connection,
    *,
    queue_id: int,
    attempt: str,
    places: Sequence[tuple[Token, int, int, int]],
    window: timedelta,
    received: int,
) -> None:
    columns = zip(*places, strict=True) if places else ((), (), (), ())
    await fetch_value(
        connection,
        "select laneway.note_attempt($1, $2, $3, $4, $5, $6, $7, $8)",
        queue_id,
        attempt,
        *columns,
        window,
        received,
    )


async def find_attempt(
    connection: Connection, *, queue_id: int, attempt: str
) -> list[asyncpg.Record]:
    """Return (token, segment, lane_id, seq, received) of each message it got."""
    return await fetch(connection, "select * from laneway.find_attempt($1, $2)", queue_id, attempt)


async def note_queue_deleted(connection: Connection, name: str) -> None:
    await fetch_value(connection, "select laneway.note_queue_deleted($1)", name)


async def was_queue_deleted(connection: Connection, name: str, *, within: timedelta) -> bool:
    deleted: bool = await fetch_value(
        connection, "select laneway.was_queue_deleted($1, $2)", name, within
    )
    return deleted


async def count_delayed(connection: Connection, group_id: int) -> int:
    count: int = await fetch_value(connection, "select laneway.count_delayed($1)", group_id)
    return count


async def count_in_flight(connection: Connection, group_id: int) -> int:
    count: int = await fetch_value(connection, "select laneway.count_in_flight($1)", group_id)
    return count


async def first_claim_times(
    connection: Connection, *, group_id: int, lanes: Sequence[int], seqs: Sequence[int]
) -> list[asyncpg.Record]:
    """Return (idx, at) of those that are on record."""
    return await fetch(
        connection, "select * from laneway.first_claim_times($1, $2, $3)", group_id, lanes, seqs
    )


async def sweep_redrive(connection: Connection) -> int:
    swept: int = await fetch_value(connection, "select laneway.sweep_redrive()")
    return swept
