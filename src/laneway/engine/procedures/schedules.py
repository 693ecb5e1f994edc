"""The calls about periodic jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import QueueNotFound, ScheduleNotFound
from laneway.domain.ids import MessageId
from laneway.domain.schedules import ScheduleInfo
from laneway.engine.procedures.call import fetch, fetch_value

if TYPE_CHECKING:
    from datetime import datetime

    from laneway.domain.messages import OutgoingMessage
    from laneway.engine.procedures.call import Connection


async def register_schedule(
    connection: Connection,
    name: str,
    expression: str,
    *,
    queue: str,
    message: OutgoingMessage,
    timed: bool,
) -> None:
    await fetch_value(
        connection,
        "select laneway.register_schedule($1, $2, $3, $4, $5, $6, $7)",
        name,
        expression,
        queue,
        None if timed else message.body,
        message.partition,
        message.priority,
        message.headers,
        means={"LW404": lambda _: QueueNotFound(queue=queue)},
    )


async def list_schedules(connection: Connection, queue: str | None) -> list[ScheduleInfo]:
    rows = await fetch(
        connection,
        "select * from laneway.list_schedules($1)",
        queue,
        means={"LW404": lambda _: QueueNotFound(queue=queue)},
    )
    return [ScheduleInfo(*row) for row in rows]


async def pause_schedule(
    connection: Connection, name: str, *, queue: str, paused: bool
) -> datetime | None:
    since: datetime | None = await fetch_value(
        connection,
        "select laneway.pause_schedule($1, $2, $3)",
        name,
        queue,
        paused,
        means={"LW404": lambda _: ScheduleNotFound(schedule=name, queue=queue)},
    )
    return since


async def run_schedule(connection: Connection, name: str, *, queue: str) -> MessageId:
    [row] = await fetch(
        connection,
        "select * from laneway.run_schedule($1, $2)",
        name,
        queue,
        means={"LW404": lambda _: ScheduleNotFound(schedule=name, queue=queue)},
    )
    return MessageId(*row)
