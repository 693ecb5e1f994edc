"""Queues created over HTTP and counted in the database, independently of the server's responses."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from benchmarks.engine.bodies import make_bodies
from benchmarks.http.connection import open_connection

if TYPE_CHECKING:
    from benchmarks.engine.site import Connection
    from benchmarks.http.server import RunningServer

_FILL = 1_000  # messages a call


class QueueRefused(Exception):
    """The server did not create a queue."""


@dataclass(frozen=True, slots=True)
class BenchQueue:
    name: str
    queue_id: int
    group_id: int
    connection: Connection

    @classmethod
    async def create(cls, server: RunningServer, connection: Connection, name: str) -> Self:
        async with open_connection(server) as client:
            answer = await client.post("/api/queues", json.dumps({"name": name}))
        if answer.status != 201:
            raise QueueRefused(f"queue {name}: {answer.body.decode()}")
        return await cls.find(connection, name)

    @classmethod
    async def find(cls, connection: Connection, name: str) -> Self:
        row = await connection.fetchrow(
            "select queue_id, group_id from laneway.consumer_group join laneway.queue using (queue_id)"
            " where queue.name = $1",
            name,
        )
        if row is None:
            raise QueueRefused(f"queue {name} not found in the database")
        return cls(name, row["queue_id"], row["group_id"], connection)

    async def count(self) -> int:
        """Return the number of unsettled messages: pushes add to it, only acks subtract from it."""
        found = await self.connection.fetchval(
            "select queued + processing + dead from laneway.count_by_state(array[$1::int])",
            self.group_id,
        )
        return int(found)

    async def fill(self, level: int) -> None:
        """Push into the database until at least `level` messages are unsettled."""
        for _ in range(max(0, level - await self.count()) // _FILL + 1):
            await self.connection.fetch(
                "select 1 from laneway.push_many(array[$1::int], $2, array['order'])",
                self.queue_id,
                make_bodies(_FILL),
            )
