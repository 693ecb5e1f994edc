"""The routes that create, show, change and delete queues."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from laneway.domain.messages import Status
from laneway.domain.queues import DEFAULT_GROUP
from laneway.domain.settings import QueueChanges, QueueKind, QueueSettings
from laneway.server.access import filtered, named
from laneway.server.errors import InvalidInput, Issue
from laneway.server.operations import Operation, Response, Role
from laneway.server.responses import Answer, answer_json
from laneway.server.rest.access import queue_in_path
from laneway.server.rest.times import IntervalText, read_interval, show_interval, show_seconds
from laneway.server.rest.wire import QUEUE_NOT_FOUND, Attempts, QueueName, Reply, Seconds, StateName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.queues import Counts, Queue
    from laneway.server.calls import Call

NewQueueName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+(?!\n)$")]
Description = Annotated[str, Meta(max_length=500)]


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
    description: Annotated[
        Description | UnsetType | None,
        Meta(description="Description of the queue, at most 500 characters. Null removes it."),
    ] = UNSET


class Purge(msgspec.Struct):
    """Which messages to delete."""

    status: Annotated[
        StateName | Literal["all"],
        Meta(description="State of the messages to delete. Default: `all`."),
    ] = "all"


class Rename(msgspec.Struct):
    """The new name of a queue."""

    new_name: Annotated[
        NewQueueName, Meta(description="The new name: 1 to 64 letters, digits, `_` and `-`.")
    ] = msgspec.field(name="newName")


class ByName(msgspec.Struct):
    name: Annotated[QueueName, Meta(description="Name of the queue.")]


class Deletion(msgspec.Struct):
    name: Annotated[QueueName, Meta(description="Name of the queue.")]
    force: Annotated[
        bool,
        Meta(
            description="Whether to delete a queue that is not empty, with all its messages. Default: "
            "false."
        ),
    ] = False


class QueueList(msgspec.Struct):
    """The queues that the API key may use."""

    queues: Annotated[list[QueueInfo], Meta(description="The queues, by name.")]
    total: Annotated[int, Meta(description="How many queues there are.")]


class QueueChanged(msgspec.Struct):
    """A queue after a change."""

    message: Annotated[str, Meta(description="What happened, in words for people.")]
    queue: Annotated[QueueInfo, Meta(description="The queue as it is now.")]


class QueueDeleted(msgspec.Struct):
    """A queue was deleted."""

    message: Annotated[str, Meta(description="What happened, in words for people.")]
    deleted_messages: Annotated[
        int,
        Meta(description="Messages deleted with the queue: queued, in flight and dead letters."),
    ]


class Purged(msgspec.Struct):
    """Messages were deleted."""

    message: Annotated[str, Meta(description="What happened, in words for people.")]
    deleted_count: Annotated[int, Meta(description="How many messages were deleted.")]


async def create_queue(call: Call[None, NewQueue]) -> Answer:
    body = call.body
    retention = _read(body.retention_interval, "retention_interval")
    step = _read(body.partition_interval, "partition_interval")
    _require_retention(step, retention)
    defaults = call.settings
    settings = QueueSettings(
        kind=body.queue_type,
        lease=defaults.ack_timeout
        if body.ack_timeout_seconds is None
        else timedelta(seconds=body.ack_timeout_seconds),
        max_attempts=body.max_attempts or defaults.max_attempts,
        retention=retention,
        retention_step=step,
        record_events=defaults.activity.enabled,
        durable_claims=body.durable_claims,
        description=body.description,
    )
    queue = await call.broker.queues.create(body.name, settings)
    return answer_json(
        201, QueueChanged(f"Queue '{queue.name}' created successfully", show_queue(queue, None))
    )


async def list_queues(call: Call[None, None]) -> Answer:
    queues = await call.broker.queues.list_all()
    counts = {
        count.queue: count
        for count in await call.broker.statistics.counts()
        if count.group == DEFAULT_GROUP
    }
    shown = [
        show_queue(queue, counts.get(queue.name))
        for queue in queues
        if call.identity.may_use(queue.name)
    ]
    return answer_json(200, QueueList(shown, len(shown)))


async def get_queue(call: Call[ByName, None]) -> Answer:
    return answer_json(200, await _look(call, await call.broker.queues.get(call.parameters.name)))


async def update_queue(call: Call[ByName, QueueUpdate]) -> Answer:
    name = call.parameters.name
    queue = await call.broker.queues.get(name)
    changes = _read_changes(call.body, queue)
    if changes:
        queue = await call.broker.queues.update(name, changes)
    return answer_json(
        200, QueueChanged(f"Queue '{name}' updated successfully", await _look(call, queue))
    )


async def delete_queue(call: Call[Deletion, None]) -> Answer:
    name, force = call.parameters.name, call.parameters.force
    # Without force, only an empty queue is deleted.
    counts = await call.broker.statistics.counts(name) if force else []
    await call.broker.queues.delete(name, force=force)
    deleted = sum(count.queued + count.processing + count.dead for count in counts)
    return answer_json(200, QueueDeleted(f"Queue '{name}' deleted successfully", deleted))


async def purge_queue(call: Call[ByName, Purge]) -> Answer:
    name, status = call.parameters.name, call.body.status
    purged = await call.broker.messages.purge(
        name, status=None if status == "all" else Status(status)
    )
    return answer_json(200, Purged(f"Purged {purged} messages from queue '{name}'", purged))


async def rename_queue(call: Call[ByName, Rename]) -> Answer:
    name, new_name = call.parameters.name, call.body.new_name
    queue = await call.broker.queues.rename(name, new_name)
    return answer_json(
        200,
        QueueChanged(f"Queue '{name}' renamed to '{new_name}'", await _look(call, queue)),
    )


def show_queue(queue: Queue, counts: Counts | None) -> QueueInfo:
    settings = queue.settings
    return QueueInfo(
        name=queue.name,
        queue_type=settings.kind,
        ack_timeout_seconds=show_seconds(settings.lease),
        max_attempts=settings.max_attempts,
        partition_interval=show_interval(settings.retention_step),
        retention_interval=show_interval(settings.retention),
        durable_claims=settings.durable_claims,
        description=settings.description,
        created_at=queue.created_at,
        updated_at=queue.updated_at,
        message_count=counts.queued if counts else 0,
        processing_count=counts.processing if counts else 0,
        dead_count=counts.dead if counts else 0,
    )


async def _look(call: Call[Any, Any], queue: Queue) -> QueueInfo:
    counts = await call.broker.statistics.counts(queue.name)
    return show_queue(queue, counts[0] if counts else None)


def _read_changes(body: QueueUpdate, queue: Queue) -> QueueChanges:
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


@named
async def _new_queue(call: Call[Any, Any], /) -> Sequence[str]:
    return (call.body.name,)


@named
async def _both_names(call: Call[Any, Any], /) -> Sequence[str]:
    return (call.parameters.name, call.body.new_name)


OPERATIONS = (
    Operation(
        method="POST",
        path="/queues",
        handler=create_queue,
        summary="Create a queue",
        description=(
            "Creates a queue. Settings that the request does not name get the server's "
            "defaults. Every protocol sees the new queue at once. Creating a queue that "
            "exists changes nothing and returns 409: use `PATCH /api/queues/{name}` to change "
            "its settings."
        ),
        body=NewQueue,
        example={
            "name": "mail",
            "ack_timeout_seconds": 60,
            "max_attempts": 5,
            "description": "Outgoing",
        },
        answers={
            201: Response(QueueChanged, "The queue is created."),
            409: Response(Reply, "A queue of this name exists."),
        },
        role=Role.ADMIN,
        reach=_new_queue,
        tag="queues",
    ),
    Operation(
        method="GET",
        path="/queues",
        handler=list_queues,
        summary="List the queues",
        description=(
            "Returns every queue that the API key may use, with its settings and counts. The "
            "counts are computed by subtraction, so they cost the same however many messages "
            "there are."
        ),
        answers={200: Response(QueueList, "The queues.")},
        role=Role.READ,
        reach=filtered,
        compress=True,
        tag="queues",
    ),
    Operation(
        method="GET",
        path="/queues/{name}",
        handler=get_queue,
        summary="Show a queue",
        description="Returns the settings and counts of one queue.",
        parameters=ByName,
        answers={200: Response(QueueInfo, "The queue."), 404: QUEUE_NOT_FOUND},
        role=Role.READ,
        reach=queue_in_path,
        tag="queues",
    ),
    Operation(
        method="PATCH",
        path="/queues/{name}",
        handler=update_queue,
        summary="Change a queue's settings",
        description=(
            "Changes the settings that the request names; the others keep their values. New "
            "settings apply to messages enqueued before, too, unless those have their own. "
            "Every server process uses them within a moment."
        ),
        parameters=ByName,
        body=QueueUpdate,
        example={"ack_timeout_seconds": 120},
        answers={200: Response(QueueChanged, "The settings are changed."), 404: QUEUE_NOT_FOUND},
        role=Role.ADMIN,
        reach=queue_in_path,
        tag="queues",
    ),
    Operation(
        method="DELETE",
        path="/queues/{name}",
        handler=delete_queue,
        summary="Delete a queue",
        description=(
            "Deletes a queue with its settings, messages and consumer groups. Without "
            "`force`, a queue that has messages (ready, delayed, in flight or dead letters), "
            "unfinished workflow runs or outbox messages is not deleted. With `force`, they "
            "are deleted and the runs fail."
        ),
        parameters=Deletion,
        answers={
            200: Response(QueueDeleted, "The queue is deleted."),
            400: Response(
                Reply, "The queue is not empty. Set `force=true` to delete it with its messages."
            ),
            404: QUEUE_NOT_FOUND,
        },
        role=Role.ADMIN,
        reach=queue_in_path,
        tag="queues",
    ),
    Operation(
        method="POST",
        path="/queues/{name}/purge",
        handler=purge_queue,
        summary="Delete all messages of a queue, or those of one state",
        description=(
            "Deletes messages and keeps the queue. It works in steps, so messages enqueued "
            "meanwhile may stay. Consumers that have a lease on a deleted message get 400 or "
            "409 when they settle it."
        ),
        parameters=ByName,
        body=Purge,
        example={"status": "dead"},
        body_optional=True,
        answers={200: Response(Purged, "The messages are deleted."), 404: QUEUE_NOT_FOUND},
        role=Role.ADMIN,
        reach=queue_in_path,
        tag="queues",
    ),
    Operation(
        method="POST",
        path="/queues/{name}/rename",
        handler=rename_queue,
        summary="Rename a queue",
        description=(
            "Changes the name and keeps messages, leases and settings. Requests with the old "
            "name return 404 from then on."
        ),
        parameters=ByName,
        body=Rename,
        example={"newName": "letters"},
        answers={
            200: Response(QueueChanged, "The queue is renamed."),
            404: QUEUE_NOT_FOUND,
            409: Response(Reply, "Another queue has the new name."),
        },
        role=Role.ADMIN,
        reach=_both_names,
        tag="queues",
    ),
)
