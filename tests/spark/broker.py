"""Changes to the broker, one statement at a time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg


def run(dsn: str, statement: str, *arguments: Any) -> list[asyncpg.Record]:
    async def call() -> list[asyncpg.Record]:
        connection = await asyncpg.connect(dsn)
        try:
            rows: list[asyncpg.Record] = await connection.fetch(statement, *arguments)
            return rows
        finally:
            await connection.close()

    return asyncio.run(call())


def create_queue(dsn: str, name: str, **settings: Any) -> int:
    row = run(dsn, "select laneway.create_queue($1, $2) as id", name, json.dumps(settings))[0]
    return int(row["id"])


def push(dsn: str, queue: int, bodies: list[Any], **columns: Any) -> None:
    """Push bodies to one partition and priority; headers and keys are lists beside them."""
    headers = columns.get("headers")
    run(
        dsn,
        "select * from laneway.push_many(array[$1::int], $2::json[], array[$3::text],"
        " array[$4::smallint], null, $5::text[], $6::json[])",
        queue,
        [json.dumps(body) for body in bodies],
        columns.get("partition", ""),
        columns.get("priority", 0),
        columns.get("keys"),
        None if headers is None else [json.dumps(each) for each in headers],
    )


def rotate(dsn: str) -> int:
    return int(run(dsn, "select laneway.rotate(true) as segment")[0]["segment"])


def settle_events(dsn: str) -> None:
    """Wait until no transaction is under way that could still write an event."""

    async def wait() -> None:
        connection = await asyncpg.connect(dsn)
        try:
            while not await connection.fetchval(
                "select coalesce((select e.xid from laneway.event e order by e.xid desc limit 1)"
                " < pg_snapshot_xmin(pg_current_snapshot()), true)"
            ):
                await asyncio.sleep(0.02)
        finally:
            await connection.close()

    asyncio.run(wait())
