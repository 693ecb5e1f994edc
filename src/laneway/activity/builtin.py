"""The built-in detectors."""

from __future__ import annotations

from datetime import datetime, timedelta  # noqa: TC003 - msgspec reads the annotation
from typing import TYPE_CHECKING

import msgspec

from laneway.activity.detectors import Detector, Finding, Occasion, Registry
from laneway.domain.activity import Kind, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laneway.activity.detectors import Context
    from laneway.activity.settings import DetectorSettings
    from laneway.domain.activity import Event

_MILLISECOND = timedelta(milliseconds=1)
_DELETIONS = {Kind.DELETED, Kind.DELETED_MANY}


class _Expiry(msgspec.Struct):
    """The detail of an event of an expired lease."""

    until: datetime | None = None


def make_registry(settings: DetectorSettings | None = None) -> Registry:
    """Return the built-in detectors, enabled or disabled as the settings say."""
    registry = Registry(DETECTORS)
    if settings is not None:
        registry.apply(settings)
    return registry


def _detect_flash_message(context: Context) -> Finding | None:
    event = _event(context)
    if event.first_created is None or event.last_created is None:
        return None
    limit = context.settings.flash_message
    shortest = event.at - event.last_created
    if shortest >= limit:
        return None
    whole = event.at - event.first_created < limit
    return Finding(
        severity=Severity.WARNING,
        description=f"Dequeued {_ms(shortest):.0f} ms after it was enqueued",
        threshold=_ms(limit),
        actual=max(_ms(shortest), 0),
        # Only the ages of the oldest and the youngest message are known, so name the youngest.
        seqs=None if whole or event.last_seq is None else (event.last_seq,),
    )


def _detect_large_payload(context: Context) -> Sequence[Finding]:
    event = _event(context)
    return [
        Finding(
            severity=Severity.INFO,
            description=f"Payload of {size} bytes",
            threshold=context.settings.large_payload,
            actual=size,
            seqs=(seq,),
        )
        for seq, size in zip(event.large_seqs or (), event.large_sizes or (), strict=True)
    ]


def _detect_long_processing(context: Context) -> Finding | None:
    event = _event(context)
    limit = context.settings.long_processing
    if event.kind != Kind.ACKED or event.since is None or event.at - event.since <= limit:
        return None
    duration = event.at - event.since
    return Finding(
        severity=Severity.WARNING,
        description=f"Acknowledged {_ms(duration):.0f} ms after it was dequeued",
        threshold=_ms(limit),
        actual=_ms(duration),
    )


def _detect_lock_stolen(context: Context) -> Finding | None:
    if _event(context).kind != Kind.ACK_REFUSED:
        return None
    return Finding(
        severity=Severity.CRITICAL,
        description="Acknowledged with a token that has no lease on the message",
    )


def _detect_near_dlq(context: Context) -> Finding | None:
    event = _event(context)
    if event.kind not in {Kind.NACKED, Kind.EXPIRED}:
        return None
    if event.max_attempts is None or event.attempt is None:
        return None
    left = event.max_attempts - event.attempt
    if left > context.settings.near_dlq:
        return None
    return Finding(
        severity=Severity.WARNING,
        description=f"Failed {event.attempt} of {event.max_attempts} attempts",
        threshold=context.settings.near_dlq,
        actual=max(left, 0),
    )


def _detect_dlq_movement(context: Context) -> Finding | None:
    event = _event(context)
    if event.kind not in {Kind.DEAD, Kind.TIMED_OUT}:
        return None
    summary = (event.reason or "").partition("\n")[0]
    return Finding(
        severity=Severity.WARNING,
        description=f"Dead-lettered: {summary or 'no reason given'}",
        threshold=event.attempt,
        actual=event.attempt,
    )


def _detect_zombie_message(context: Context) -> Finding | None:
    event = _event(context)
    if event.detail is None or event.lease is None:
        return None
    until = msgspec.json.decode(event.detail, type=_Expiry).until
    limit = event.lease * context.settings.zombie_factor
    if until is None or event.at - until <= limit:
        return None
    overdue = event.at - until
    return Finding(
        severity=Severity.CRITICAL,
        description=f"Lease expired {_ms(overdue):.0f} ms ago without being extended or settled",
        threshold=_ms(limit),
        actual=_ms(overdue),
    )


def _detect_burst_dequeue(context: Context) -> Finding | None:
    limit = context.settings.burst_count
    # Reported once, by the event that reaches the limit.
    if not context.claimed - context.messages < limit <= context.claimed:
        return None
    seconds = context.settings.burst_within.total_seconds()
    return Finding(
        severity=Severity.WARNING,
        description=f"{context.claimed} messages in {seconds:g} s by one consumer",
        threshold=limit,
        actual=context.claimed,
    )


def _detect_bulk_enqueue(context: Context) -> Finding | None:
    return _find_bulk(context, _event(context).kind == Kind.PUSHED, "enqueued")


def _detect_bulk_delete(context: Context) -> Finding | None:
    return _find_bulk(context, _event(context).kind in _DELETIONS, "deleted")


def _detect_bulk_move(context: Context) -> Finding | None:
    return _find_bulk(context, _event(context).kind == Kind.MOVED, "moved")


def _detect_queue_cleared(context: Context) -> Finding | None:
    event = _event(context)
    if event.kind not in {Kind.PURGED, Kind.CLEARED}:
        return None
    return Finding(
        severity=Severity.WARNING,
        description=f"Queue cleared: {context.messages} messages",
        actual=context.messages,
    )


def _find_bulk(context: Context, meant: bool, verb: str) -> Finding | None:  # noqa: FBT001 - private
    limit = context.settings.bulk_operation
    if not meant or context.messages < limit:
        return None
    return Finding(
        severity=Severity.INFO,
        description=f"{context.messages} messages {verb} at once",
        threshold=limit,
        actual=context.messages,
    )


def _event(context: Context) -> Event:
    if context.event is None:
        raise TypeError(f"a {context.occasion} check has no event")
    return context.event


def _ms(length: timedelta) -> float:
    return length / _MILLISECOND


def _make(
    name: str,
    description: str,
    detect: Callable[[Context], Finding | Sequence[Finding] | None],
    *events: Occasion,
) -> Detector:
    return Detector(name=name, description=description, events=frozenset(events), detect=detect)


DETECTORS = (
    _make(
        "flash_message",
        "Dequeued shortly after it was enqueued",
        _detect_flash_message,
        Occasion.DEQUEUE,
    ),
    _make("large_payload", "Large payload", _detect_large_payload, Occasion.ENQUEUE),
    _make("long_processing", "Long processing time", _detect_long_processing, Occasion.ACK),
    _make("lock_stolen", "Acknowledged with a wrong token", _detect_lock_stolen, Occasion.ACK),
    _make("near_dlq", "Few attempts left", _detect_near_dlq, Occasion.NACK, Occasion.TIMEOUT),
    _make(
        "dlq_movement",
        "Dead-lettered",
        _detect_dlq_movement,
        Occasion.NACK,
        Occasion.TIMEOUT,
    ),
    _make(
        "zombie_message",
        "Lease expired long ago",
        _detect_zombie_message,
        Occasion.TIMEOUT,
    ),
    _make(
        "burst_dequeue",
        "Many messages dequeued by one consumer",
        _detect_burst_dequeue,
        Occasion.DEQUEUE,
    ),
    _make(
        "bulk_enqueue",
        "Many messages enqueued at once",
        _detect_bulk_enqueue,
        Occasion.BULK_OPERATION,
    ),
    _make(
        "bulk_delete",
        "Many messages deleted at once",
        _detect_bulk_delete,
        Occasion.BULK_OPERATION,
    ),
    _make("bulk_move", "Many messages moved at once", _detect_bulk_move, Occasion.BULK_OPERATION),
    _make("queue_cleared", "Queue cleared", _detect_queue_cleared, Occasion.BULK_OPERATION),
)
