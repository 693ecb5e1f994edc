"""The calls about where the groups of streams start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import InvalidSetting, QueueNotFound
from laneway.engine.procedures.call import fetch, fetch_value

if TYPE_CHECKING:
    from datetime import datetime

    import asyncpg

    from laneway.engine.procedures.call import Connection


async def subscribe(
    connection: Connection, *, queue: str, name: str, start: str, since: datetime | None
) -> asyncpg.Record:
    """Return (start, since): where the group starts."""
    rows = await fetch(
        connection,
        "select * from laneway.subscribe($1, $2, $3, $4)",
        queue,
        name,
        start,
        since,
        means={"LW404": lambda _: QueueNotFound(queue=queue), "LW422": InvalidSetting},
    )
    return rows[0]


async def set_subscription(connection: Connection, *, name: str, since: datetime) -> None:
    await fetch_value(connection, "select laneway.set_subscription($1, $2)", name, since)


async def list_counted_groups(connection: Connection) -> list[int]:
    groups: list[int] = await fetch_value(connection, "select laneway.list_counted_groups()")
    return groups


async def list_subscriptions(connection: Connection) -> list[asyncpg.Record]:
    return await fetch(connection, "select * from laneway.list_subscriptions()")


async def forget_subscription(connection: Connection, *, name: str, queue_id: int | None) -> None:
    await fetch_value(connection, "select laneway.forget_subscription($1, $2)", name, queue_id)
