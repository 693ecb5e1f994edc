"""The calls that read the log by place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.call import fetch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import asyncpg

    from laneway.engine.procedures.call import Connection


async def read_partitions(
    connection: Connection,
    *,
    queues: Sequence[int | None],
    partitions: Sequence[str],
    after: Sequence[int],
    max_bytes: Sequence[int],
    total: int,
) -> list[asyncpg.Record]:
    return await fetch(
        connection,
        "select * from laneway.read_partitions($1, $2, $3, $4, $5)",
        queues,
        partitions,
        after,
        max_bytes,
        total,
    )


async def list_changed_partitions(
    connection: Connection,
    *,
    queues: Sequence[int],
    since: Sequence[datetime | None],
    after: Sequence[int],
    limits: Sequence[int],
) -> list[asyncpg.Record]:
    return await fetch(
        connection,
        "select * from laneway.list_changed_partitions($1, $2, $3, $4)",
        queues,
        since,
        after,
        limits,
    )
