"""Messages just handed out, as JSON: what those of one lock share is encoded once for all."""

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

# Stands where messages differ: JSON has no such byte, in strings it is escaped.
_MARK = b"\0"


class Taker(NamedTuple):
    """Who took messages of which queue; lease: what it asked for."""

    queue: Queue
    consumer: str | None
    lease: timedelta | None


class _Own(NamedTuple):
    """What a message may have of its own, and its neighbours mostly have the same."""

    attempt: int
    lease: timedelta | None
    max_attempts: int | None
    error: str | None


class HandoutWriter:
    """Writes messages as JSON; remembers the last lock, which those who ride together share."""

    def __init__(self) -> None:
        self._lock: tuple[object, ...] = ()
        self._pieces: Sequence[str] = ()
        self._times = UnixWriter()

    def write(self, handouts: Sequence[ClaimedSpan], taker: Taker) -> list[str]:
        """Return each message as a MessageObject in JSON, in the order of delivery."""
        return arrange(handouts, [self._write(handout, taker) for handout in handouts])

    def _write(self, handout: ClaimedSpan, taker: Taker) -> list[str]:
        written: list[str] = []
        start = after_id = after_body = after_time = after_size = end = ""
        shared: _Own | None = None
        columns = (self._times.write(handout.created_at), handout.bodies, _list_own(handout))
        for seq, (created_at, body, own) in enumerate(zip(*columns, strict=False), handout.first):
            if own is not shared and own != shared:
                shared = own
                pieces = self._find_shared(handout, own, taker)
                start, after_id, after_body, after_time, after_size, end = pieces
            size = len(body) if body.isascii() else len(body.encode())
            written.append(
                f"{start}{seq}{after_id}{body}{after_body}{created_at}{after_time}{size}{after_size}{seq}{end}"
            )
        return written

    def _find_shared(self, handout: ClaimedSpan, own: _Own, taker: Taker) -> Sequence[str]:
        token, segment, lane, _, partition, priority, _, until, *_ = handout
        lock = (token, segment, lane, partition, priority, until, own, taker)
        if lock != self._lock:
            self._pieces = _encode_shared(handout, own, taker)
            self._lock = lock
        return self._pieces


def _list_own(handout: ClaimedSpan) -> Iterable[_Own]:
    columns = (handout.leases, handout.max_attempts, handout.errors)
    if not handout.attempts and not any(columns):
        return repeat(_Own(handout.attempt, None, None, None))
    own = (column or repeat(None) for column in columns)
    return map(_Own._make, zip(list_attempts(handout), *own, strict=False))


def _encode_shared(handout: ClaimedSpan, own: _Own, taker: Taker) -> Sequence[str]:
    """Return the JSON of a message in pieces: between them come seq, body, time, size, and seq."""
    mark: Any = Raw(_MARK)
    message_id: Any = Raw(b'"%d-%d-%b"' % (handout.segment, handout.lane, _MARK))
    queue, consumer, lease = taker
    lasts = lease or own.lease or queue.settings.lease
    taken = to_unix(handout.until - lasts)
    shared = MessageObject(
        id=message_id,
        queue_name=queue.name,
        type=handout.partition,
        payload=mark,
        priority=handout.priority,
        status="processing",
        attempt_count=own.attempt,
        max_attempts=own.max_attempts or queue.settings.max_attempts,
        ack_timeout_seconds=show_seconds(lasts),
        lock_token=str(handout.token),
        locked_until=handout.until,
        consumer_id=consumer,
        created_at=mark,
        dequeued_at=taken,
        acknowledged_at=None,
        last_error=own.error,
        payload_size=mark,
        stream_name="queue_processing",
        stream_id=message_id,
        processing_started_at=taken,
    )
    return encode(shared).decode().split(_MARK.decode())
