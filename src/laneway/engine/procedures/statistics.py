"""The calls that return counts and rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import QueueNotFound
from laneway.domain.listings import PayloadSizes
from laneway.domain.queues import Counts
from laneway.domain.statistics import QueueMetrics, SystemStats
from laneway.engine.procedures.call import fetch, fetch_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.engine.procedures.call import Connection


async def count_by_state(connection: Connection, group_ids: Sequence[int] | None) -> list[Counts]:
    rows = await fetch(connection, "select * from laneway.count_by_state($1)", group_ids)
    return [
        Counts(
            group_id=row["group_id"],
            queue_id=row["queue_id"],
            queue=row["queue"],
            group=row["group_name"],
            queued=row["queued"],
            delayed=row["delayed"],
            processing=row["processing"],
            acknowledged=row["acknowledged"],
            dead=row["dead"],
            archived=row["archived"],
            oldest=row["oldest"],
            newest=row["newest"],
        )
        for row in rows
    ]


async def count_delayed(connection: Connection, group_id: int) -> int:
    count: int = await fetch_value(connection, "select laneway.count_delayed($1)", group_id)
    return count


async def count_in_flight(connection: Connection, group_id: int) -> int:
    count: int = await fetch_value(connection, "select laneway.count_in_flight($1)", group_id)
    return count


async def count_in_flight_by_partition(
    connection: Connection, group_id: int
) -> list[tuple[str, int]]:
    """Return (partition, messages) of every partition that has messages in flight."""
    rows = await fetch(
        connection, "select * from laneway.count_in_flight_by_partition($1)", group_id
    )
    return [(row[0], row[1]) for row in rows]


async def metrics(connection: Connection, queue: str | None, group: str) -> list[QueueMetrics]:
    rows = await fetch(
        connection,
        "select * from laneway.metrics($1, $2)",
        queue,
        group,
        means={"LW404": lambda _: QueueNotFound(queue=queue)},
    )
    return [QueueMetrics(*row) for row in rows]


async def system_stats(connection: Connection) -> SystemStats:
    (row,) = await fetch(connection, "select * from laneway.system_stats()")
    return SystemStats(*row)


async def payload_sizes(connection: Connection, *, queue_ids: Sequence[int]) -> PayloadSizes:
    rows = await fetch(connection, "select * from laneway.payload_sizes($1)", queue_ids)
    return PayloadSizes._make(rows[0])
