"""Repeated receive attempts: a repetition returns the same messages again."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from laneway.domain.messages import Delivery, Receipt, Status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import timedelta

    from laneway.domain.queues import Queue
    from laneway.engine import Broker


class Attempts:
    """The receive attempts of one process; a repetition waits for the first call to finish."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def take_turn(
        self, queue: Queue, attempt: str, *, patience: float
    ) -> AsyncIterator[bool]:
        """Enter the attempt, one call at a time; yield False after the timeout."""
        # The last one removes the entry.
        turn = self._turns.setdefault((queue.queue_id, attempt), asyncio.Lock())
        try:
            async with asyncio.timeout(patience):
                await turn.acquire()
        except TimeoutError:
            yield False
            return
        try:
            yield True
        finally:
            turn.release()


class Recalled(NamedTuple):
    """The messages of an attempt. received: its time, in milliseconds of Unix time."""

    deliveries: list[Delivery]
    received: int


async def find_attempt(
    broker: Broker, queue: Queue, attempt: str, *, lease: timedelta
) -> Recalled | None:
    """Return the attempt's messages, leased anew; None if any was settled or its lease expired."""
    got = await broker.receive_attempts.find(queue.name, attempt)
    if not got:
        return None
    stored = await broker.messages.find(queue.name, [message for _, message, _ in got])
    messages = [
        message
        for (token, *_), message in zip(got, stored, strict=True)
        if message is not None and message.status == Status.PROCESSING and message.token == token
    ]
    if len(messages) < len(got):
        return None
    receipts = [Receipt(token, message.lane, message.seq) for token, message, _ in got]
    untils = await broker.extend(receipts, lease=lease)
    deliveries = []
    for (token, *_), message, until in zip(got, messages, untils, strict=True):
        if until is None:
            return None
        deliveries.append(
            Delivery(
                token=token,
                segment=message.segment,
                lane=message.lane,
                seq=message.seq,
                partition=message.partition,
                priority=message.priority,
                attempt=message.attempt,
                created_at=message.created_at,
                until=until,
                lease=lease,
                max_attempts=message.max_attempts,
                dedup_key=message.dedup_key,
                headers=message.headers_text,
                body=message.body,
            )
        )
    return Recalled(deliveries, got[0][2])
