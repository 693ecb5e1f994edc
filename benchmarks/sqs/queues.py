"""Queues created by CreateQueue and filled in the database."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from urllib.parse import urlencode

from benchmarks.engine.bodies import make_bodies
from benchmarks.http.connection import open_connection
from benchmarks.http.queues import BenchQueue, QueueRefused

if TYPE_CHECKING:
    from benchmarks.engine.site import Connection
    from benchmarks.http.server import RunningServer

GROUPS = 1_000

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class SqsQueue(BenchQueue):
    @classmethod
    async def create(cls, server: RunningServer, connection: Connection, name: str) -> Self:
        form = {"Action": "CreateQueue", "QueueName": name}
        if name.endswith(".fifo"):
            form |= {"Attribute.1.Name": "FifoQueue", "Attribute.1.Value": "true"}
        async with open_connection(server) as client:
            answer = await client.get(f"/?{urlencode(form)}")
        row = await connection.fetchrow(
            "select queue_id, group_id from laneway.consumer_group join laneway.queue using (queue_id)"
            " where queue.name = $1",
            name,
        )
        if row is None:
            raise QueueRefused(f"queue {name}: {answer.body.decode()}")
        return cls(name, row["queue_id"], row["group_id"], connection)

    async def fill(self, level: int) -> None:
        """Push until at least `level` messages are unsettled, to all message groups of a FIFO queue in turn."""
        for _ in range(max(0, level - await self.count()) // GROUPS + 1):
            if not self.name.endswith(".fifo"):
                await self.connection.fetch(
                    "select 1 from laneway.push_many(array[$1::int], $2)",
                    self.queue_id,
                    make_bodies(GROUPS),
                )
                continue
            await self.connection.fetch(
                "select 1 from laneway.push_many(array[$1::int], $2, $3, p_keys => $4)",
                self.queue_id,
                make_bodies(GROUPS),
                [f"g{n}" for n in range(GROUPS)],
                [f"fill-{next(_numbers)}" for _ in range(GROUPS)],
            )
