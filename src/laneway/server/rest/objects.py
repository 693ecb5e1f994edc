"""Messages of the broker as the objects that clients see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, Raw

from laneway.server.rest.times import show_seconds
from laneway.server.rest.wire import MessageObject

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta

    from laneway.domain.messages import Delivery, StoredMessage, Token
    from laneway.domain.queues import Queue


def show_deliveries(
    deliveries: Iterable[Delivery], queue: Queue, *, consumer: str | None, lease: timedelta | None
) -> list[MessageObject]:
    """Return messages just handed out; lease: what the consumer asked for.

    What the messages of one claim share is worked out once: there may be thousands a second.
    """
    settings = queue.settings
    shown: list[MessageObject] = []
    claim: tuple[Token, timedelta | None] | None = None
    taken = seconds = 0.0
    lock_token = place = ""
    for message in deliveries:
        token, segment, lane, seq, partition, priority, attempt, created_at, until = message[:9]
        own_lease, max_attempts, _, _, body, error = message[9:]
        if claim != (token, own_lease):
            claim = token, own_lease
            lasts = lease or own_lease or settings.lease
            taken = to_unix(until - lasts)
            seconds = show_seconds(lasts)
            lock_token = str(token)
            place = f"{segment}-{lane}-"
        message_id = place + str(seq)
        shown.append(
            MessageObject(
                message_id,
                queue.name,
                partition,
                Raw(body),
                priority,
                "processing",
                attempt,
                max_attempts or settings.max_attempts,
                seconds,
                lock_token,
                until,
                consumer,
                to_unix(created_at),
                taken,
                None,
                error,
                len(body) if body.isascii() else len(body.encode()),
                "queue_processing",
                message_id,
                taken,
            )
        )
    return shown


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
        ack_timeout_seconds=show_seconds(message.lease),
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
