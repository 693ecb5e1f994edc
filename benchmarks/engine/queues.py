"""A queue of the broker, spoken to as the engine does: one function call, one transaction."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    import asyncpg

    from benchmarks.engine.site import Connection

Held = tuple[list["UUID"], list[int], list[int], list[int]]


class WrongCount(Exception):
    """A call did less or more than the figure would say."""


@dataclass(frozen=True, slots=True)
class Queue:
    connection: Connection
    queue_id: int
    group_id: int

    @classmethod
    async def create(cls, connection: Connection, name: str, **settings: str) -> Self:
        queue_id = await connection.fetchval(
            "select laneway.create_queue($1, $2)", name, json.dumps(settings)
        )
        group_id = await connection.fetchval(
            "select group_id from laneway.consumer_group where queue_id = $1", queue_id
        )
        return cls(connection, queue_id, group_id)

    def over(self, connection: Connection) -> Queue:
        """Return the same queue, spoken to on another connection."""
        return Queue(connection, self.queue_id, self.group_id)

    async def push(
        self,
        bodies: Sequence[str],
        *,
        partitions: Sequence[str] | None = None,
        delay: timedelta | None = None,
    ) -> None:
        await self.connection.fetch(
            "select * from laneway.push_many($1, $2, $3, p_delays => $4)",
            [self.queue_id],
            bodies,
            partitions,
            None if delay is None else [delay],
        )

    async def claim(self, wants: Sequence[int]) -> list[asyncpg.Record]:
        """Return a row for every run of one lane that went to one waiter."""
        return await self.connection.fetch(
            "select * from laneway.claim_runs($1, $2, p_alone => true)", self.group_id, wants
        )

    async def ack(self, held: Held) -> None:
        if await self.connection.fetch("select * from laneway.ack_many($1, $2, $3, $4)", *held):
            raise WrongCount("a claim was not settled, although its time was not up")

    async def take(self, wants: Sequence[int]) -> int:
        """Claim and settle, one run per token; return how many messages there were."""
        runs = await self.claim(wants)
        if runs:
            await self.ack(name_runs(runs))
        return count_messages(runs)

    async def take_all(self, wants: Sequence[int]) -> None:
        taken = await self.take(wants)
        if taken != sum(wants):
            raise WrongCount(f"{sum(wants)} messages were asked for and {taken} came")


def count_messages(runs: Sequence[asyncpg.Record]) -> int:
    return sum(len(run["bodies"]) for run in runs)


def name_runs(runs: Sequence[asyncpg.Record]) -> Held:
    """Return what ack_many takes: token, lane, first and last seq, of every run."""
    return (
        [run["token"] for run in runs],
        [run["lane_id"] for run in runs],
        [run["first_seq"] for run in runs],
        [run["first_seq"] + len(run["bodies"]) - 1 for run in runs],
    )
