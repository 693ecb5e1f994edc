"""Stored messages as the objects of the REST protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, Raw

from laneway.server.rest.times import show_seconds, to_unix
from laneway.server.rest.wire import MessageObject

if TYPE_CHECKING:
    from laneway.domain.messages import StoredMessage
    from laneway.server.lease_tokens import LeaseTokens


def show_message(message: StoredMessage, tokens: LeaseTokens) -> MessageObject:
    """Return a stored message, in any state."""
    token = message.token
    dequeued = None if message.claimed_at is None else to_unix(message.claimed_at)
    settled = message.acknowledged_at
    progress = message.progress
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
        lock_token=None if token is None else tokens.write(token, message.lane, message.seq),
        locked_until=message.locked_until,
        consumer_id=message.consumer,
        created_at=to_unix(message.created_at),
        dequeued_at=dequeued,
        acknowledged_at=None if settled is None else to_unix(settled),
        last_error=message.error,
        payload_size=message.size,
        stream_name=f"queue_{message.status}",
        stream_id=message.text_id,
        processing_started_at=UNSET if dequeued is None else dequeued,
        progress=UNSET if progress is None else progress.share,
        progress_note=UNSET if progress is None else progress.note,
    )
