"""The calls that create, change, list and delete queues."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import (
    InvalidSetting,
    QueueExists,
    QueueNotEmpty,
    QueueNotFound,
)
from laneway.domain.queues import Group, Queue
from laneway.domain.settings import QueueSettings
from laneway.engine.procedures.call import fetch, fetch_value
from laneway.engine.sqlstates import describe_own

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
        means={
            "LW409": lambda _: QueueExists(queue=name),
            "LW422": InvalidSetting,
            "22": InvalidSetting,
        },
    )
    return queue_id


async def update_queue(connection: Connection, name: str, changes: QueueChanges) -> int:
    queue_id: int = await fetch_value(
        connection,
        "select laneway.update_queue($1, $2)",
        name,
        encode_json(changes),
        means={
            "LW404": lambda _: QueueNotFound(queue=name),
            "LW422": InvalidSetting,
            "22": InvalidSetting,
        },
    )
    return queue_id


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
        means={"LW404": lambda _: QueueNotFound(queue=name), "LW422": InvalidSetting},
    )


async def delete_queue(connection: Connection, name: str, *, force: bool) -> None:
    await fetch_value(
        connection,
        "select laneway.delete_queue($1, $2)",
        name,
        force,
        means={
            "LW404": lambda _: QueueNotFound(queue=name),
            "LW409": lambda error: QueueNotEmpty(describe_own(error), queue=name),
        },
    )


async def rename_queue(connection: Connection, name: str, new_name: str) -> None:
    await fetch_value(
        connection,
        "select laneway.rename_queue($1, $2)",
        name,
        new_name,
        means={
            "LW404": lambda _: QueueNotFound(queue=name),
            "LW409": lambda _: QueueExists(queue=new_name),
            "LW422": InvalidSetting,
        },
    )


async def list_queues(connection: Connection, names: Sequence[str] | None = None) -> list[Queue]:
    rows = await fetch(connection, "select * from laneway.list_queues($1)", names)
    return [_read_queue(row) for row in rows]


async def list_partitions(connection: Connection, *, queue_ids: Sequence[int]) -> list[str]:
    rows = await fetch(connection, "select * from laneway.list_partitions($1)", queue_ids)
    return [row[0] for row in rows]


async def forget_dedup_keys(connection: Connection, queue_id: int) -> None:
    await fetch_value(connection, "select laneway.forget_dedup_keys($1)", queue_id)


async def record_queue_deletion(connection: Connection, name: str) -> None:
    await fetch_value(connection, "select laneway.record_queue_deletion($1)", name)


async def was_queue_deleted(connection: Connection, name: str, *, within: timedelta) -> bool:
    deleted: bool = await fetch_value(
        connection, "select laneway.was_queue_deleted($1, $2)", name, within
    )
    return deleted


def encode_json(values: Mapping[str, object]) -> str:
    """Return a mapping as JSON for SQL functions; a duration becomes an interval."""
    return json.dumps(values, default=_encode_duration)


def _encode_duration(value: object) -> str:
    if not isinstance(value, timedelta):
        raise TypeError(f"{value!r} cannot be a setting's value")
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
