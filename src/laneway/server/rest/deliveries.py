"""Claimed messages as JSON; what the messages of one claim share is encoded once."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Raw

from laneway.engine.deliveries import arrange, list_attempts
from laneway.server.responses import encode
from laneway.server.rest.times import UnixWriter, show_seconds, to_unix
from laneway.server.rest.wire import MessageObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta

    from laneway.domain.messages import ClaimedSpan
    from laneway.domain.queues import Queue
    from laneway.server.lease_tokens import LeaseTokens

# Marks the places where messages differ. JSON never contains this byte: strings escape it.
_MARK = b"\0"


class DequeueContext(NamedTuple):
    """What a dequeue asked for: the queue, the consumer and the lease duration; and how to write tokens."""

    queue: Queue
    consumer: str | None
    lease: timedelta | None
    tokens: LeaseTokens


class _Varying(NamedTuple):
    """The fields that may differ between messages of a claim, but are mostly equal."""

    attempt: int
    lease: timedelta | None
    max_attempts: int | None
    error: str | None


class DeliveryWriter:
    """Writes messages as JSON; caches the encoding of the last lease, which concurrent consumers may share."""

    def __init__(self) -> None:
        self._lease_key: tuple[object, ...] = ()
        self._pieces: Sequence[str] = ()
        self._times = UnixWriter()

    def write(self, spans: Sequence[ClaimedSpan], context: DequeueContext) -> list[str]:
        """Return each message as a MessageObject in JSON, in the order of delivery."""
        return arrange(spans, [self._write(span, context) for span in spans])

    def _write(self, span: ClaimedSpan, context: DequeueContext) -> list[str]:
        written: list[str] = []
        start = after_id = after_body = after_token = after_time = after_size = end = ""
        shared: _Varying | None = None
        # Of this consumer alone, unlike the claim.
        token = context.tokens.write(span.token, span.lane, span.first, len(span.bodies))
        columns = (self._times.write(span.created_at), span.bodies, _list_varying(span))
        for seq, (created_at, body, own) in enumerate(zip(*columns, strict=False), span.first):
            if own is not shared and own != shared:
                shared = own
                pieces = self._find_shared(span, own, context)
                start, after_id, after_body, after_token, after_time, after_size, end = pieces
            size = len(body) if body.isascii() else len(body.encode())
            written.append(
                f"{start}{seq}{after_id}{body}{after_body}{token}{after_token}{created_at}{after_time}"
                f"{size}{after_size}{seq}{end}"
            )
        return written

    def _find_shared(
        self, span: ClaimedSpan, own: _Varying, context: DequeueContext
    ) -> Sequence[str]:
        token, segment, lane, _, partition, priority, _, until, *_ = span
        lease_key = (token, segment, lane, partition, priority, until, own, context)
        if lease_key != self._lease_key:
            self._pieces = _encode_shared(span, own, context)
            self._lease_key = lease_key
        return self._pieces


def _list_varying(span: ClaimedSpan) -> Iterable[_Varying]:
    columns = (span.leases, span.max_attempts, span.errors)
    if not span.attempts and not any(columns):
        return repeat(_Varying(span.attempt, None, None, None))
    own = (column or repeat(None) for column in columns)
    return map(_Varying._make, zip(list_attempts(span), *own, strict=False))


def _encode_shared(span: ClaimedSpan, own: _Varying, context: DequeueContext) -> Sequence[str]:
    """Return the JSON of a message in pieces: between them come seq, body, token, time, size, and seq."""
    mark: Any = Raw(_MARK)
    quoted: Any = Raw(b'"%b"' % _MARK)
    message_id: Any = Raw(b'"%d-%d-%b"' % (span.segment, span.lane, _MARK))
    queue, consumer, lease, _ = context
    duration = lease or own.lease or queue.settings.lease
    dequeued_at = to_unix(span.until - duration)
    shared = MessageObject(
        id=message_id,
        queue_name=queue.name,
        type=span.partition,
        payload=mark,
        priority=span.priority,
        status="processing",
        attempt_count=own.attempt,
        max_attempts=own.max_attempts or queue.settings.max_attempts,
        ack_timeout_seconds=show_seconds(duration),
        lock_token=quoted,
        locked_until=span.until,
        consumer_id=consumer,
        created_at=mark,
        dequeued_at=dequeued_at,
        acknowledged_at=None,
        last_error=own.error,
        payload_size=mark,
        stream_name="queue_processing",
        stream_id=message_id,
        processing_started_at=dequeued_at,
    )
    return encode(shared).decode().split(_MARK.decode())
