"""Streams created over HTTP and counted in the database."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from benchmarks.engine.bodies import make_bodies
from benchmarks.http.connection import open_connection
from benchmarks.http.queues import QueueRefused

if TYPE_CHECKING:
    from benchmarks.engine.site import Connection
    from benchmarks.http.stage import Stage

BATCH = 100
_FILL = 10  # batches a call

# Messages that a generator leaves leased when it stops are soon ready again, however often.
OPTIONS = {"leaseTime": 1, "retryLimit": 10_000, "retryDelay": 0}


@dataclass(frozen=True, slots=True)
class BenchStream:
    """A queue with groups g1, g2, …; every one reads everything."""

    name: str
    queue_id: int
    partitions: int
    groups: int
    connection: Connection

    @classmethod
    async def create(cls, stage: Stage, name: str, *, partitions: int, groups: int = 1) -> Self:
        async with open_connection(stage.server) as client:
            body = json.dumps({"queue": name, "options": OPTIONS})
            answer = await client.post("/api/v1/configure", body)
            if answer.status != 201:
                raise QueueRefused(f"queue {name}: {answer.body.decode()}")
            for group in range(1, groups + 1):
                await client.post(f"/api/v1/consumer-groups/g{group}/queues/{name}", "{}")
        queue_id = int(json.loads(answer.body)["queueId"])
        return cls(name, queue_id, partitions, groups, stage.connection)

    async def count_pushed(self) -> int:
        found = await self.connection.fetchval(
            "select coalesce(sum(laneway.newest_seq(lane_id, laneway.current_segment(true))), 0)"
            " from laneway.lane where queue_id = $1",
            self.queue_id,
        )
        return int(found)

    async def count_left(self) -> int:
        """Return the number of unsettled messages, summed over the groups g1, g2, …."""
        found = await self.connection.fetchval(
            "select coalesce(sum(c.queued + c.processing + c.dead), 0) from laneway.count_by_state(array("
            "select group_id from laneway.consumer_group where queue_id = $1 and name <> 'default')) c",
            self.queue_id,
        )
        return int(found)

    async def wait_until_free(self) -> None:
        """Wait until no message is leased, including leases of consumers that have gone."""
        while await self.connection.fetchval(  # noqa: ASYNC110 - PostgreSQL sends no event for it
            "select exists (select from laneway.claim c join laneway.lane l using (lane_id)"
            " where l.queue_id = $1 and c.until > clock_timestamp())",
            self.queue_id,
        ):
            await asyncio.sleep(0.05)

    async def fill(self, level: int) -> None:
        """Push whole batches into the database until at least `level` messages per group are unsettled."""
        missing = level - await self.count_left() // self.groups
        bodies = make_bodies(BATCH)
        for start in range(0, max(0, missing) // BATCH + self.partitions, _FILL):
            names = [f"p{(start + n) % self.partitions}" for n in range(_FILL)]
            await self.connection.execute(
                "select 1 from laneway.push_many(array[$1::int], $2, $3)",
                self.queue_id,
                bodies * _FILL,
                [name for name in names for _ in range(BATCH)],
            )
