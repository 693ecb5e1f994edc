"""The calls that make, change and remove queues and groups."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import (
    GroupExists,
    GroupNotFound,
    InvalidSetting,
    QueueExists,
    QueueNotEmpty,
    QueueNotFound,
)
from laneway.domain.queues import Group, Queue
from laneway.domain.settings import QueueSettings
from laneway.engine.procedures.call import START, Step, fetch, fetch_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from laneway.domain.settings import QueueChanges
    from laneway.engine.procedures.call import Connection

_SETTINGS = tuple(QueueSettings.__dataclass_fields__)
_MICROSECOND = timedelta(microseconds=1)


async def create_queue(connection: Connection, name: str, settings: QueueSettings) -> int:
    queue_id: int = await fetch_value(
        connection,
        "select laneway.create_queue($1, $2)",
        name,
        encode_json(asdict(settings)),
        means={"LW409": QueueExists, "LW422": InvalidSetting, "22": InvalidSetting},
    )
    return queue_id


async def update_queue(connection: Connection, name: str, changes: QueueChanges) -> int:
    queue_id: int = await fetch_value(
        connection,
        "select laneway.update_queue($1, $2)",
        name,
        encode_json(changes),
        means={"LW404": QueueNotFound, "LW422": InvalidSetting, "22": InvalidSetting},
    )
    return queue_id


async def delete_queue(connection: Connection, name: str, *, force: bool) -> None:
    await fetch_value(
        connection,
        "select laneway.delete_queue($1, $2)",
        name,
        force,
        means={"LW404": QueueNotFound, "LW409": QueueNotEmpty},
    )


async def rename_queue(connection: Connection, name: str, new_name: str) -> None:
    await fetch_value(
        connection,
        "select laneway.rename_queue($1, $2)",
        name,
        new_name,
        means={"LW404": QueueNotFound, "LW409": QueueExists, "LW422": InvalidSetting},
    )


async def list_queues(connection: Connection, names: Sequence[str] | None = None) -> list[Queue]:
    rows = await fetch(connection, "select * from laneway.list_queues($1)", names)
    return [_read_queue(row) for row in rows]


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
        means={"LW404": QueueNotFound, "LW409": GroupExists, "LW422": InvalidSetting},
    )
    return group_id


async def delete_group(connection: Connection, *, queue: str, name: str) -> None:
    await fetch_value(
        connection,
        "select laneway.delete_group($1, $2)",
        queue,
        name,
        means={"LW404": GroupNotFound, "LW422": InvalidSetting},
    )


async def mark_readers_idle(
    connection: Connection, group_id: int, *, after: int | None
) -> int | None:
    """Mark readers idle that have nothing to read, a step; return where to go on, None at the end."""
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
    """Move a step; return how many lanes in all, and where to go on."""
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
        means={"LW404": GroupNotFound},
    )
    return Step._make(row)


def encode_json(values: Mapping[str, object]) -> str:
    """Write a mapping as the SQL functions read it; a duration becomes an interval."""
    return json.dumps(values, default=_encode_duration)


def _encode_duration(value: object) -> str:
    if not isinstance(value, timedelta):
        raise TypeError(f"{value!r} has no place in a setting")
    return f"{value // _MICROSECOND} microseconds"


def _read_queue(row: asyncpg.Record) -> Queue:
    settings: dict[str, Any] = {name: row[name] for name in _SETTINGS}
    settings["options"] = json.loads(settings["options"])
    return Queue(
        queue_id=row["queue_id"],
        name=row["name"],
        settings=QueueSettings(**settings),
        groups={
            name: Group(group_id=group_id, name=name, ordered=ordered, created_at=created_at)
            for group_id, name, ordered, created_at in zip(
                row["group_ids"] or (),
                row["group_names"] or (),
                row["group_ordered"] or (),
                row["group_created_at"] or (),
                strict=True,
            )
        },
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        guards=row["guards"],
    )
