"""Attempts to receive that are repeated: what was handed out then is handed out again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.messages import Delivery, Receipt, Status

if TYPE_CHECKING:
    from datetime import timedelta

    from laneway.domain.queues import Queue
    from laneway.engine import Broker


async def recall_attempt(
    broker: Broker, queue: Queue, attempt: str, *, lease: timedelta
) -> list[Delivery]:
    """Return what the attempt got, locked anew; nothing once any of it was settled or ran out."""
    got = await broker.find_attempt(queue.name, attempt)
    messages = await broker.find(queue.name, [message for _, message in got])
    held = [
        message
        for (token, _), message in zip(got, messages, strict=True)
        if message is not None and message.status == Status.PROCESSING and message.token == token
    ]
    if len(held) < len(got):
        return []
    receipts = [Receipt(token, message.lane, message.seq) for token, message in got]
    untils = await broker.extend(receipts, lease=lease)
    deliveries = []
    for (token, _), message, until in zip(got, held, untils, strict=True):
        if until is None:
            return []
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
                key=message.key,
                headers=message.headers,
                body=message.body,
            )
        )
    return deliveries
