"""Messages of the broker as the objects that clients see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, Raw

from laneway.server.rest.wire import MessageObject

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from laneway.domain.messages import Delivery, StoredMessage
    from laneway.domain.queues import Queue


def show_delivery(
    delivery: Delivery, queue: Queue, *, consumer: str | None, lease: timedelta | None
) -> MessageObject:
    """Return a message just handed out; lease: what the consumer asked for."""
    lasts = lease or delivery.lease or queue.settings.lease
    message_id = f"{delivery.segment}-{delivery.lane}-{delivery.seq}"
    taken = to_unix(delivery.until - lasts)
    body = delivery.body
    return MessageObject(
        id=message_id,
        queue_name=queue.name,
        type=delivery.partition,
        payload=Raw(body),
        priority=delivery.priority,
        status="processing",
        attempt_count=delivery.attempt,
        max_attempts=delivery.max_attempts or queue.settings.max_attempts,
        ack_timeout_seconds=lasts.total_seconds(),
        lock_token=str(delivery.token),
        locked_until=delivery.until,
        consumer_id=consumer,
        created_at=to_unix(delivery.created_at),
        dequeued_at=taken,
        acknowledged_at=None,
        last_error=None,
        payload_size=len(body) if body.isascii() else len(body.encode()),
        stream_name="queue_processing",
        stream_id=message_id,
        processing_started_at=taken,
    )


def show_message(message: StoredMessage) -> MessageObject:
    """Return a message as it is kept, whatever state it is in."""
    taken = None if message.claimed_at is None else to_unix(message.claimed_at)
    settled = message.acknowledged_at
    return MessageObject(
        id=message.text_id,
        queue_name=message.queue,
        type=message.partition,
        payload=Raw(message.body),
        priority=message.priority,
        status=message.status,  # type: ignore[arg-type]  # the view has these states only
        attempt_count=message.attempt,
        max_attempts=message.max_attempts,
        ack_timeout_seconds=message.lease.total_seconds(),
        lock_token=None if message.token is None else str(message.token),
        locked_until=message.until,
        consumer_id=message.consumer,
        created_at=to_unix(message.created_at),
        dequeued_at=taken,
        acknowledged_at=None if settled is None else to_unix(settled),
        last_error=message.error,
        payload_size=message.size,
        stream_name=f"queue_{message.status}",
        stream_id=message.text_id,
        processing_started_at=UNSET if taken is None else taken,
    )


def to_unix(moment: datetime) -> float:
    """Return Unix seconds to the millisecond."""
    return round(moment.timestamp(), 3)
