"""The functions that docs/sql.md documents, called over asyncpg."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar

from tests.conformance.surface import Capability, Counts, DeadLetter, Received

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    import asyncpg

    from tests.conformance.surface import QueueOptions


class Sql:
    lacks: ClassVar[Mapping[Capability, str]] = {
        Capability.REDRIVE: "no function for it in api/",
        Capability.RELEASE: "no function for it in api/",
        Capability.PURGE: "no function for it in api/",
    }

    def __init__(self, queue: str, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self.queue = queue
        self._connection = connection

    async def create_queue(self, options: QueueOptions) -> None:
        settings = {
            "ordered": options.ordered,
            "lease": str(options.lease),
            "max_attempts": options.max_attempts,
            "backoff": str(options.backoff),
            "delay": options.delay and str(options.delay),
        }
        await self._connection.execute(
            "select laneway.create_queue($1, $2)", self.queue, json.dumps(settings)
        )

    async def enqueue(
        self,
        body: str,
        *,
        partition: str = "p",
        priority: int = 0,
        delay: timedelta | None = None,
        dedup_key: str | None = None,
    ) -> str:
        message_id: str = await self._connection.fetchval(
            "select laneway.push($1, $2, $3, $4, $5, $6)",
            self.queue,
            json.dumps(body),
            partition,
            priority,
            delay,
            dedup_key,
        )
        return message_id

    async def claim(self, n: int = 10) -> list[Received]:
        rows = await self._connection.fetch("select * from laneway.pop($1, $2)", self.queue, n)
        return [
            Received(
                id=row["id"],
                body=json.loads(row["body"]),
                attempt=row["attempt"],
                receipt=(row["id"], row["token"]),
            )
            for row in rows
        ]

    async def ack(self, message: Received) -> bool:
        done: bool = await self._connection.fetchval("select laneway.ack($1, $2)", *message.receipt)
        return done

    async def nack(
        self,
        message: Received,
        *,
        reason: str = "broken",
        delay: timedelta | None = None,
        dead: bool = False,
    ) -> bool:
        outcome = await self._connection.fetchval(
            "select laneway.nack($1, $2, $3, $4, $5)",
            *message.receipt,
            reason,
            delay,
            True if dead else None,
        )
        return bool(outcome != "lost")

    async def release(self, message: Received) -> bool:
        raise NotImplementedError

    async def extend(self, message: Received, lease: timedelta) -> bool:
        until = await self._connection.fetchval(
            "select laneway.extend($1, $2, $3)", *message.receipt, lease
        )
        return until is not None

    async def dead_letters(self) -> list[DeadLetter]:
        rows = await self._connection.fetch(
            "select payload, last_error from laneway.messages where queue_name = $1 and status = 'dead'",
            self.queue,
        )
        return [
            DeadLetter(body=json.loads(row["payload"]), reason=row["last_error"]) for row in rows
        ]

    async def redrive(self) -> None:
        raise NotImplementedError

    async def purge(self) -> None:
        raise NotImplementedError

    async def counts(self) -> Counts:
        row = await self._connection.fetchrow("select * from laneway.metrics($1)", self.queue)
        assert row is not None
        return Counts(ready=row["pending"], in_flight=row["locked"])
