"""The Python library. The same adapter connects to PostgreSQL and to a server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar

from laneway.domain.errors import LeaseLost
from laneway.domain.messages import Outcome
from laneway.domain.settings import QueueSettings
from tests.conformance.surface import Counts, DeadLetter, Received

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    import laneway
    from tests.conformance.surface import Capability, QueueOptions


class Library:
    lacks: ClassVar[Mapping[Capability, str]] = {}

    def __init__(self, queue: str, connection: laneway.Connection) -> None:
        self.queue = queue
        self._admin = connection.admin
        self._producer = connection.producer(queue)
        self._consumer = connection.consumer(queue)

    async def create_queue(self, options: QueueOptions) -> None:
        settings = QueueSettings(
            ordered=options.ordered,
            lease=options.lease,
            max_attempts=options.max_attempts,
            backoff=options.backoff,
            delay=options.delay,
        )
        await self._admin.create_queue(self.queue, settings)

    async def enqueue(
        self,
        body: str,
        *,
        partition: str = "p",
        priority: int = 0,
        delay: timedelta | None = None,
        dedup_key: str | None = None,
    ) -> str:
        message_id = await self._producer.enqueue(
            body, partition=partition, priority=priority, delay=delay, dedup_key=dedup_key
        )
        return str(message_id)

    async def claim(self, n: int = 10) -> list[Received]:
        return [
            Received(id=str(each.id), body=each.payload, attempt=each.attempt, receipt=each)
            for each in await self._consumer.dequeue_many(n)
        ]

    async def ack(self, message: Received) -> bool:
        return await self._consumer.delete(message.receipt)

    async def nack(
        self,
        message: Received,
        *,
        reason: str = "broken",
        delay: timedelta | None = None,
        dead: bool = False,
    ) -> bool:
        outcome = await self._consumer.fail(message.receipt, reason, delay=delay, dead=dead)
        return outcome is not Outcome.LOST

    async def release(self, message: Received) -> bool:
        return await self._consumer.release(message.receipt)

    async def extend(self, message: Received, lease: timedelta) -> bool:
        try:
            await self._consumer.extend(message.receipt, lease)
        except LeaseLost:
            return False
        return True

    async def dead_letters(self) -> list[DeadLetter]:
        return [
            DeadLetter(body=json.loads(each.body), reason=each.error)
            for each in await self._admin.dlq_list(self.queue)
        ]

    async def redrive(self) -> None:
        await self._admin.dlq_replay(self.queue)

    async def purge(self) -> None:
        await self._admin.purge_queue(self.queue)

    async def counts(self) -> Counts:
        metrics = await self._admin.queue_metrics(self.queue)
        return Counts(ready=metrics.pending, in_flight=metrics.locked)
