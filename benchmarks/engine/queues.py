"""A queue of the broker, called as the engine calls it: one function per transaction."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from laneway.engine.columns import Spans, make_spans
from laneway.engine.deliveries import distribute, list_receipts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    import asyncpg

    from benchmarks.engine.site import Connection


class WrongCount(Exception):
    """A call processed fewer or more messages than the result would claim."""


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
        """Return the same queue on another connection."""
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

    async def claim(self, wants: Sequence[int], *, shared: bool = False) -> list[asyncpg.Record]:
        """Return a row for each claimed span. With `shared`, waiters may share a claim, as in the pumps."""
        return await self.connection.fetch(
            "select * from laneway.claim_spans($1, $2, p_alone => true, p_shared => $3)",
            self.group_id,
            wants,
            shared,
        )

    async def ack(self, spans: Spans) -> None:
        shared = len(set(zip(spans.tokens, spans.lanes, strict=True))) < len(spans.tokens)
        if await self.connection.fetch(
            "select * from laneway.ack_many($1, $2, $3, $4, $5)", *spans, shared
        ):
            raise WrongCount("a claim was not settled, although its lease has not expired")

    async def claim_and_ack(self, wants: Sequence[int]) -> int:
        """Claim, ack each waiter's spans, and return the number of messages."""
        claims = await self.claim(wants, shared=True)
        if claims:
            await self.ack(name_spans(claims, wants))
        return count_messages(claims)

    async def claim_and_ack_all(self, wants: Sequence[int]) -> None:
        count = await self.claim_and_ack(wants)
        if count != sum(wants):
            raise WrongCount(f"{sum(wants)} messages were requested and {count} claimed")


def count_messages(claims: Sequence[asyncpg.Record]) -> int:
    return sum(len(claim["bodies"]) for claim in claims)


def name_spans(claims: Sequence[asyncpg.Record], wants: Sequence[int]) -> Spans:
    """Return the arguments of ack_many: token, lane, first and last seq of each waiter's spans."""
    spans = Spans([], [], [], [])
    for deliveries in distribute(claims, wants):
        spans.join(make_spans(list_receipts(deliveries)))
    return spans
