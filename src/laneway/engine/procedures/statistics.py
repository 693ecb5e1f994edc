"""The calls that count for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import QueueNotFound
from laneway.domain.statistics import QueueMetrics, SystemStats
from laneway.engine.procedures.call import fetch

if TYPE_CHECKING:
    from laneway.engine.procedures.call import Connection


async def metrics(connection: Connection, queue: str | None, group: str) -> list[QueueMetrics]:
    rows = await fetch(
        connection,
        "select * from laneway.metrics($1, $2)",
        queue,
        group,
        means={"LW404": QueueNotFound},
    )
    return [QueueMetrics(*row) for row in rows]


async def system_stats(connection: Connection) -> SystemStats:
    (row,) = await fetch(connection, "select * from laneway.system_stats()")
    return SystemStats(*row)


async def orphans(connection: Connection) -> list[tuple[str, int]]:
    """Return tables with rows that point to nothing, and how many."""
    return [
        (row[0], row[1]) for row in await fetch(connection, "select * from laneway.find_orphans()")
    ]
