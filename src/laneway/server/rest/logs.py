"""Entries of the activity log and anomalies, in the REST protocol's format."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from laneway.domain.activity import Kind, Severity
from laneway.server.errors import InvalidInput, Issue
from laneway.server.rest.states import STATES
from laneway.server.rest.times import to_unix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.activity import AnomalyDetails, Entry, FoundAnomaly
    from laneway.domain.ids import MessageId
    from laneway.server.lease_tokens import LeaseTokens
    from laneway.server.settings import ServerSettings

# The protocol's names of actions; the last four are Laneway's own.
ACTIONS: dict[str, str] = {
    Kind.PUSHED: "enqueue",
    Kind.CLAIMED: "dequeue",
    Kind.ACKED: "acknowledge",
    Kind.NACKED: "nack",
    Kind.DEAD: "move_to_dlq",
    Kind.EXPIRED: "timeout_requeue",
    Kind.TIMED_OUT: "timeout_to_dlq",
    Kind.MOVED: "move",
    Kind.DELETED: "delete",
    Kind.DELETED_MANY: "bulk_delete",
    Kind.DROPPED: "delete",
    Kind.CLEARED: "clear_queue",
    Kind.PURGED: "purge_queue",
    Kind.QUEUE_CREATED: "create_queue",
    Kind.QUEUE_UPDATED: "update_queue",
    Kind.QUEUE_RENAMED: "rename_queue",
    Kind.QUEUE_DELETED: "delete_queue",
    Kind.RELEASED: "release",
    Kind.EDITED: "edit",
    Kind.SOUGHT: "seek",
    Kind.ACK_REFUSED: "ack_refused",
}
# Clearing all queues is recorded as a purge of each.
_FILTERS = {"clear_all_queues": [str(Kind.PURGED)]} | {
    action: [str(kind) for kind, name in ACTIONS.items() if name == action]
    for action in ACTIONS.values()
}

_PARTS = {str(state): part for part, state in STATES.items()}
# What triggered an event that the server did not cause by itself.
BY_REQUEST = "api"
_TIMEOUTS = {Kind.EXPIRED, Kind.TIMED_OUT}
_BY_SERVER = {*_TIMEOUTS, Kind.DROPPED}
_BY_HAND = {
    Kind.MOVED,
    Kind.DELETED,
    Kind.DELETED_MANY,
    Kind.EDITED,
    Kind.CLEARED,
    Kind.PURGED,
    Kind.SOUGHT,
    Kind.QUEUE_CREATED,
    Kind.QUEUE_UPDATED,
    Kind.QUEUE_RENAMED,
    Kind.QUEUE_DELETED,
}
_SETTLED = {Kind.ACKED, Kind.NACKED, Kind.RELEASED, Kind.EXPIRED, Kind.DEAD, Kind.TIMED_OUT}
SEVERITIES = [str(severity) for severity in Severity]
_MILLISECOND = timedelta(milliseconds=1)


class AnomalyObject(msgspec.Struct, kw_only=True):
    """What was unusual."""

    type: Annotated[str, Meta(description="Detector that reported it, such as `long_processing`.")]
    severity: Annotated[str, Meta(description="`info`, `warning` or `critical`.")]
    description: Annotated[str, Meta(description="What was unusual, in words.")]
    threshold: Annotated[
        float | UnsetType,
        Meta(description="The value from which the detector reports, in the detector's unit."),
    ] = UNSET
    actual: Annotated[
        float | UnsetType, Meta(description="The value that was found, in the same unit.")
    ] = UNSET


class Log(msgspec.Struct, kw_only=True):
    """What happened to one message, or to a queue."""

    log_id: Annotated[str, Meta(description="Id of the entry.")]
    message_id: Annotated[
        str | None, Meta(description="Message that it happened to; null: the queue as a whole.")
    ]
    action: Annotated[
        str,
        Meta(
            description="What happened, such as `enqueue`, `dequeue`, `acknowledge` or `timeout_requeue`."
        ),
    ]
    timestamp: Annotated[float, Meta(description="When it happened, in Unix seconds.")]
    queue: Annotated[
        str | None, Meta(description="Queue of the message; null if the queue was deleted.")
    ]
    group: Annotated[
        str | None,
        Meta(description="Consumer group that it happened in; null if it concerns all groups."),
    ]
    source_queue: Annotated[
        str | None,
        Meta(description="Of a move: state that the message left, as `queueType` names it."),
    ]
    dest_queue: Annotated[
        str | None,
        Meta(description="Of a move: state that the message came to, as `queueType` names it."),
    ]
    priority: Annotated[int | None, Meta(description="Priority of the message.")]
    message_type: Annotated[str | None, Meta(description="Type of the message: its partition.")]
    consumer_id: Annotated[
        str | None,
        Meta(
            description="Consumer that had the lease, or producer that enqueued the message, if it named "
            "itself. Of a manual operation: `MANUAL_OPERATION_ACTOR`."
        ),
    ]
    prev_consumer_id: Annotated[
        str | None,
        Meta(description="Of a timeout: consumer whose lease expired, if it named itself."),
    ]
    lock_token: Annotated[str | None, Meta(description="Token of the lease.")]
    attempt_count: Annotated[int | None, Meta(description="Attempt that it happened in, from 1.")]
    max_attempts: Annotated[
        int | None,
        Meta(
            description="Deliveries before the message becomes a dead letter; null: no limit, or not "
            "known."
        ),
    ]
    attempts_remaining: Annotated[
        int | None, Meta(description="Attempts left after this one; null: no limit, or not known.")
    ]
    message_age_ms: Annotated[
        float | None, Meta(description="Milliseconds since the message was enqueued.")
    ]
    time_in_queue_ms: Annotated[
        float | None, Meta(description="Of a dequeue: milliseconds since the message was enqueued.")
    ]
    processing_time_ms: Annotated[
        float | None, Meta(description="Of the end of a lease: milliseconds since the dequeue.")
    ]
    payload: Annotated[
        Raw | None,
        Meta(
            description="Payload as it was enqueued, if the log still has it and it is at most 16 KiB."
        ),
    ]
    payload_size_bytes: Annotated[int | None, Meta(description="Size of the payload in bytes.")]
    error_reason: Annotated[str | None, Meta(description="Why it failed, if it did.")]
    triggered_by: Annotated[
        str, Meta(description="`api`: a request. `RELAY_ACTOR`, as set: the server by itself.")
    ]
    batch_id: Annotated[
        str | None,
        Meta(
            description="Operation that changed several messages at once; entries of one operation share "
            "it."
        ),
    ]
    batch_size: Annotated[int | None, Meta(description="How many messages that operation changed.")]
    anomaly: Annotated[
        AnomalyObject | None, Meta(description="The most severe anomaly that was found about it.")
    ]


class AnomalyEntry(msgspec.Struct, kw_only=True):
    """An anomaly, and the event that it was found about."""

    log_id: Annotated[str, Meta(description="Id of the entry in the activity log.")]
    message_id: Annotated[
        str | None, Meta(description="Message that it is about; null: the queue as a whole.")
    ]
    action: Annotated[
        str, Meta(description="What happened, such as `acknowledge` or `timeout_requeue`.")
    ]
    timestamp: Annotated[float, Meta(description="When it happened, in Unix seconds.")]
    queue: Annotated[
        str | None, Meta(description="Queue that it is about; null if the queue was deleted.")
    ]
    consumer_id: Annotated[
        str | None, Meta(description="Consumer that had the lease, if it named itself.")
    ]
    payload: Annotated[
        Raw | None,
        Meta(
            description="Payload of the message, if the log still has it and it is at most 16 KiB."
        ),
    ]
    anomaly: Annotated[AnomalyObject, Meta(description="What was unusual.")]


class _Move(msgspec.Struct):
    from_: str | None = msgspec.field(name="from", default=None)
    to: str | None = None


def read_actions(text: str | None) -> list[str] | None:
    if text is None:
        return None
    kinds: list[str] = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        if name not in _FILTERS:
            raise InvalidInput(
                [Issue("invalid_enum_value", ("action",), f"Invalid enum value {name!r}")]
            )
        kinds += _FILTERS[name]
    return kinds or None


def show_entry(entry: Entry, settings: ServerSettings, tokens: LeaseTokens) -> Log:
    facts = entry.facts
    limit = facts.max_attempts if facts is not None else None
    if entry.kind == Kind.DEAD and entry.attempt and limit is not None:
        # The consumer may have had a limit of its own.
        limit = entry.attempt
    age = None if facts is None else max((entry.at - facts.created_at) / _MILLISECOND, 0)
    processing = None
    if entry.since is not None and entry.kind in _SETTLED:
        processing = max((entry.at - entry.since) / _MILLISECOND, 0)
    source, target = _find_path(entry)
    batch = entry.batch if entry.batch is not None and entry.batch > 1 else None
    return Log(
        log_id=_name_log(entry.event_id, entry.message),
        message_id=None if entry.message is None else str(entry.message),
        action=ACTIONS.get(entry.kind, entry.kind),
        timestamp=to_unix(entry.at),
        queue=entry.queue,
        group=entry.group,
        source_queue=source,
        dest_queue=target,
        priority=entry.priority,
        message_type=entry.partition,
        consumer_id=_find_consumer(entry, settings),
        prev_consumer_id=entry.consumer if entry.kind in _TIMEOUTS else None,
        lock_token=_write_token(entry, tokens),
        attempt_count=entry.attempt,
        max_attempts=limit,
        attempts_remaining=None
        if limit is None or entry.attempt is None
        else max(limit - entry.attempt, 0),
        message_age_ms=_round(age),
        time_in_queue_ms=_round(age) if entry.kind == Kind.CLAIMED else None,
        processing_time_ms=_round(processing),
        payload=None if facts is None or facts.body is None else Raw(facts.body),
        payload_size_bytes=None if facts is None else facts.size,
        error_reason=entry.reason,
        triggered_by=settings.actor if entry.kind in _BY_SERVER else BY_REQUEST,
        batch_id=None if batch is None else str(entry.xid),
        batch_size=batch,
        anomaly=_choose_anomaly(entry.anomalies),
    )


def show_found(found: FoundAnomaly) -> AnomalyEntry:
    body = None if found.facts is None else found.facts.body
    name = f"anomaly-{found.anomaly_id}"
    if found.event_id is not None:
        name = _name_log(found.event_id, found.message)
    return AnomalyEntry(
        log_id=name,
        message_id=None if found.message is None else str(found.message),
        action=ACTIONS.get(found.kind, found.kind),
        timestamp=to_unix(found.at),
        queue=found.queue,
        consumer_id=found.consumer,
        payload=None if body is None else Raw(body),
        anomaly=_show_anomaly(found.anomaly),
    )


def _write_token(entry: Entry, tokens: LeaseTokens) -> str | None:
    if entry.token is None or entry.message is None:
        return None
    return tokens.write(entry.token, entry.message.lane, entry.message.seq)


def _find_path(entry: Entry) -> tuple[str | None, str | None]:
    if entry.kind != Kind.MOVED or entry.detail is None:
        return None, None
    move = msgspec.json.decode(entry.detail, type=_Move)
    return _PARTS.get(move.from_ or ""), _PARTS.get(move.to or "")


def _find_consumer(entry: Entry, settings: ServerSettings) -> str | None:
    by_hand = entry.consumer is None and entry.kind in _BY_HAND
    return settings.manual_actor if by_hand else entry.consumer


def _choose_anomaly(anomalies: Sequence[AnomalyDetails]) -> AnomalyObject | None:
    """Return the most severe anomaly."""
    if not anomalies:
        return None
    return _show_anomaly(max(anomalies, key=lambda anomaly: SEVERITIES.index(anomaly.severity)))


def _show_anomaly(anomaly: AnomalyDetails) -> AnomalyObject:
    return AnomalyObject(
        type=anomaly.type,
        severity=anomaly.severity,
        description=anomaly.description,
        threshold=UNSET if anomaly.threshold is None else anomaly.threshold,
        actual=UNSET if anomaly.actual is None else anomaly.actual,
    )


def _name_log(event_id: int, message: MessageId | None) -> str:
    return str(event_id) if message is None else f"{event_id}-{message.lane}-{message.seq}"


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
