"""The calls that create, reposition and delete consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import (
    GroupExists,
    GroupNotFound,
    InvalidSetting,
    QueueNotFound,
)
from laneway.engine.procedures.call import START, Step, fetch, fetch_value
from laneway.engine.sqlstates import missing_group

if TYPE_CHECKING:
    from datetime import datetime

    from laneway.engine.procedures.call import Connection


async def create_group(
    connection: Connection,
    *,
    queue: str,
    name: str,
    ordered: bool | None,
    start: str,
    since: datetime | None,
) -> int:
    group_id: int = await fetch_value(
        connection,
        "select laneway.create_group($1, $2, $3, $4, $5)",
        queue,
        name,
        ordered,
        start,
        since,
        means={
            "LW404": lambda _: QueueNotFound(queue=queue),
            "LW409": lambda _: GroupExists(group=name, queue=queue),
            "LW422": InvalidSetting,
        },
    )
    return group_id


async def delete_group(connection: Connection, *, queue: str, name: str) -> None:
    await fetch_value(
        connection,
        "select laneway.delete_group($1, $2)",
        queue,
        name,
        means={"LW404": lambda _: GroupNotFound(group=name, queue=queue), "LW422": InvalidSetting},
    )


async def mark_readers_idle(
    connection: Connection, group_id: int, *, after: int | None
) -> int | None:
    """Mark idle the readers with nothing to read; return where to continue, None at the end."""
    reached: int | None = await fetch_value(
        connection, "select laneway.mark_readers_idle($1, $2)", group_id, after
    )
    return reached


async def seek(
    connection: Connection,
    *,
    group_id: int,
    to: str,
    time: datetime | None,
    seq: int | None,
    partition: str | None,
    done: Step = START,
) -> Step:
    """Move the lanes of one step; return how many lanes in total, and where to continue."""
    [row] = await fetch(
        connection,
        "select * from laneway.seek($1, $2, $3, $4, $5, $6, $7)",
        group_id,
        to,
        time,
        seq,
        partition,
        done.after,
        done.total,
        means=missing_group(group_id),
    )
    return Step._make(row)
