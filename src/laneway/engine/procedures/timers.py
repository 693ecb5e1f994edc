"""The calls of timers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from laneway.engine.procedures.call import fetch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    import asyncpg

    from laneway.engine.procedures.call import Connection


class TimerColumns(NamedTuple):
    """Operations on timers as columns for apply_timers.

    queues: -1, -2, … are the queues to create; None of a cancel where there is no such queue.
    """

    queues: Sequence[int | None]
    keys: Sequence[str]
    ids: Sequence[UUID | None]
    delays: Sequence[timedelta | None]
    partitions: Sequence[str | None]
    dedup_keys: Sequence[str | None]
    headers: Sequence[str | None]
    bodies: Sequence[str | None]
    guards: Sequence[int | None]


async def fire_timers(connection: Connection, *, limit: int) -> tuple[list[int], timedelta | None]:
    """Return the queues that got messages, and how long it is until the next timer is due."""
    *pushed, last = await fetch(connection, "select * from laneway.fire_timers($1)", limit)
    return [row["queue_id"] for row in pushed], last["until_next"]


async def list_timers(
    connection: Connection, *, queue_id: int, key: str | None, after: str | None, limit: int
) -> list[asyncpg.Record]:
    return await fetch(
        connection, "select * from laneway.list_timers($1, $2, $3, $4)", queue_id, key, after, limit
    )
