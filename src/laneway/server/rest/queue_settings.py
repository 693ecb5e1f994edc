"""A queue's settings, as requests set them and answers show them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from laneway.domain.settings import QueueChanges, QueueKind, QueueSettings
from laneway.server.errors import InvalidInput, Issue
from laneway.server.rest.times import IntervalText, read_interval, show_interval, show_seconds
from laneway.server.rest.wire import Attempts, Seconds

if TYPE_CHECKING:
    from laneway.domain.queues import Counts, Queue
    from laneway.server.settings import ServerSettings

NewQueueName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+(?!\n)$")]
Description = Annotated[str, Meta(max_length=500)]
Bytes = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class QueueInfo(msgspec.Struct, kw_only=True):
    """A queue with its settings and counts."""

    name: Annotated[str, Meta(description="Name of the queue.")]
    queue_type: Annotated[
        QueueKind,
        Meta(
            description="`standard` and `partitioned` mean the same here. `unlogged`: faster, and emptied "
            "by a crash of PostgreSQL."
        ),
    ]
    ack_timeout_seconds: Annotated[
        float, Meta(description="Lease duration in seconds for messages without their own.")
    ]
    max_attempts: Annotated[
        int | None,
        Meta(description="Deliveries before a message becomes a dead letter; null: no limit."),
    ]
    partition_interval: Annotated[
        str | None,
        Meta(
            description="Steps in which settled messages are removed, such as `1 day`; null: as the log's "
            "segments are dropped."
        ),
    ]
    retention_interval: Annotated[
        str | None,
        Meta(
            description="How long settled messages are kept, such as `7 days`; null: the retention of the "
            "log."
        ),
    ]
    durable_claims: Annotated[
        bool, Meta(description="Whether a dequeue is on disk before the server responds.")
    ]
    max_bytes: Annotated[int, Meta(description="Maximum size of a payload in bytes.")]
    description: Annotated[str | None, Meta(description="Description of the queue.")]
    created_at: Annotated[datetime, Meta(description="When the queue was created.")]
    updated_at: Annotated[datetime, Meta(description="When its settings were last changed.")]
    message_count: Annotated[int, Meta(description="Queued messages: ready or delayed.")]
    processing_count: Annotated[int, Meta(description="Messages in flight.")]
    dead_count: Annotated[int, Meta(description="Dead letters.")]


class NewQueue(msgspec.Struct, kw_only=True):
    """A queue to create."""

    name: Annotated[
        NewQueueName, Meta(description="Name of the queue: 1 to 64 letters, digits, `_` and `-`.")
    ]
    queue_type: Annotated[
        QueueKind,
        Meta(
            description="`unlogged` is faster, and a crash of PostgreSQL empties the queue. `standard` "
            "(the default) and `partitioned` mean the same. It cannot be changed later."
        ),
    ] = "standard"
    ack_timeout_seconds: Annotated[
        Seconds | None,
        Meta(
            description="Lease duration in seconds for messages without their own, at most ten years. "
            "Default: the server's setting, 30 unless configured."
        ),
    ] = None
    max_attempts: Annotated[
        Attempts | None,
        Meta(
            description="Deliveries before a message becomes a dead letter, 1 to 32,767. Default: the "
            "server's setting, 3 unless configured."
        ),
    ] = None
    partition_interval: Annotated[
        IntervalText | None,
        Meta(
            description="Steps in which settled messages are removed after `retention_interval`, all "
            "messages of a step at once. Requires `retention_interval`."
        ),
    ] = None
    retention_interval: Annotated[
        IntervalText | None,
        Meta(
            description="How long settled messages are kept. Default: the retention of the log, a day "
            "unless configured."
        ),
    ] = None
    durable_claims: Annotated[
        bool,
        Meta(
            description="Whether a dequeue is on disk before the server responds. With false, a crash of "
            "PostgreSQL may lose the dequeues of the last 0.6 seconds, and their messages are "
            "ready again at once. Default: true."
        ),
    ] = True
    max_bytes: Annotated[
        Bytes | None,
        Meta(
            description="Maximum size of a payload in bytes. Larger ones are refused (413). Default: "
            "16777216 (16 MiB)."
        ),
    ] = None
    description: Annotated[
        Description | None, Meta(description="Description of the queue, at most 500 characters.")
    ] = None


class QueueUpdate(msgspec.Struct, kw_only=True):
    """The settings of a queue to change; settings that are not named keep their values."""

    queue_type: Annotated[
        QueueKind | UnsetType,
        Meta(
            description="Only the queue's present type is accepted: the type is fixed when the queue is "
            "created."
        ),
    ] = UNSET
    ack_timeout_seconds: Annotated[
        Seconds | UnsetType,
        Meta(
            description="Lease duration in seconds for messages without their own, at most ten years."
        ),
    ] = UNSET
    max_attempts: Annotated[
        Attempts | UnsetType,
        Meta(description="Deliveries before a message becomes a dead letter, 1 to 32,767."),
    ] = UNSET
    partition_interval: Annotated[
        IntervalText | UnsetType | None,
        Meta(description="Steps in which settled messages are removed. Null removes the setting."),
    ] = UNSET
    retention_interval: Annotated[
        IntervalText | UnsetType | None,
        Meta(description="How long settled messages are kept. Null removes the setting."),
    ] = UNSET
    durable_claims: Annotated[
        bool | UnsetType,
        Meta(description="Whether a dequeue is on disk before the server responds."),
    ] = UNSET
    max_bytes: Annotated[
        Bytes | UnsetType,
        Meta(description="Maximum size of a payload in bytes. It applies to new messages."),
    ] = UNSET
    description: Annotated[
        Description | UnsetType | None,
        Meta(description="Description of the queue, at most 500 characters. Null removes it."),
    ] = UNSET


def show_queue(queue: Queue, counts: Counts | None) -> QueueInfo:
    """Return a queue's settings and counts; no counts are zeros."""
    settings = queue.settings
    return QueueInfo(
        name=queue.name,
        queue_type=settings.kind,
        ack_timeout_seconds=show_seconds(settings.lease),
        max_attempts=settings.max_attempts,
        partition_interval=show_interval(settings.retention_step),
        retention_interval=show_interval(settings.retention),
        durable_claims=settings.durable_claims,
        max_bytes=settings.max_bytes,
        description=settings.description,
        created_at=queue.created_at,
        updated_at=queue.updated_at,
        message_count=counts.queued if counts else 0,
        processing_count=counts.processing if counts else 0,
        dead_count=counts.dead if counts else 0,
    )


def read_settings(body: NewQueue, defaults: ServerSettings) -> QueueSettings:
    """Return the settings of a new queue; the server's defaults where the body names none."""
    retention = _read(body.retention_interval, "retention_interval")
    step = _read(body.partition_interval, "partition_interval")
    _require_retention(step, retention)
    return QueueSettings(
        kind=body.queue_type,
        lease=defaults.ack_timeout
        if body.ack_timeout_seconds is None
        else timedelta(seconds=body.ack_timeout_seconds),
        max_attempts=body.max_attempts or defaults.max_attempts,
        backoff=timedelta(0),
        retention=retention,
        retention_step=step,
        record_events=defaults.activity.enabled,
        durable_claims=body.durable_claims,
        max_bytes=body.max_bytes or QueueSettings().max_bytes,
        description=body.description,
    )


def read_changes(body: QueueUpdate, queue: Queue) -> QueueChanges:
    """Return the settings that an update changes."""
    changes = QueueChanges()
    if body.queue_type is not UNSET and body.queue_type != queue.settings.kind:
        message = (
            f"Queue '{queue.name}' is {queue.settings.kind}: the type of a queue cannot change"
        )
        raise InvalidInput([Issue("custom", ("queue_type",), message)])
    if body.ack_timeout_seconds is not UNSET:
        changes["lease"] = timedelta(seconds=body.ack_timeout_seconds)
    if body.max_attempts is not UNSET:
        changes["max_attempts"] = body.max_attempts
    if body.durable_claims is not UNSET:
        changes["durable_claims"] = body.durable_claims
    if body.max_bytes is not UNSET:
        changes["max_bytes"] = body.max_bytes
    if body.description is not UNSET:
        changes["description"] = body.description
    retention, step = queue.settings.retention, queue.settings.retention_step
    if body.retention_interval is not UNSET:
        retention = changes["retention"] = _read(body.retention_interval, "retention_interval")
    if body.partition_interval is not UNSET:
        step = changes["retention_step"] = _read(body.partition_interval, "partition_interval")
    _require_retention(step, retention)
    return changes


def _require_retention(step: timedelta | None, retention: timedelta | None) -> None:
    if step is not None and retention is None:
        message = "partition_interval applies after retention_interval: set retention_interval too"
        raise InvalidInput([Issue("custom", ("partition_interval",), message)])


def _read(text: str | None, name: str) -> timedelta | None:
    return None if text is None else read_interval(text, name)
