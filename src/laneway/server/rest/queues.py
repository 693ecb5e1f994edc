"""The routes about queues themselves."""

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
from laneway.server.operations import Operation, Role
from laneway.server.responses import Answer, answer_json
from laneway.server.rest.access import queue_in_path
from laneway.server.rest.times import IntervalText, read_interval, show_interval, show_seconds
from laneway.server.rest.wire import Attempts, QueueName, Reply, Seconds, StateName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.queues import Counts, Queue
    from laneway.server.calls import Call

NewQueueName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+(?!\n)$")]
Description = Annotated[str, Meta(max_length=500)]


class QueueInfo(msgspec.Struct, kw_only=True):
    name: str
    queue_type: QueueKind
    ack_timeout_seconds: float
    max_attempts: int | None
    partition_interval: str | None
    retention_interval: str | None
    durable_claims: bool
    description: str | None
    created_at: datetime
    updated_at: datetime
    message_count: int
    processing_count: int
    dead_count: int


class NewQueue(msgspec.Struct, kw_only=True):
    """A queue to make. Without ack_timeout_seconds and max_attempts the server's settings apply.

    retention_interval: how long settled messages are kept. partition_interval: in which steps they
    leave after that, all of one step at once. durable_claims: false lets a crash of PostgreSQL
    forget the claims of its last moments, for more dequeues a second.
    """

    name: NewQueueName
    queue_type: QueueKind = "standard"
    ack_timeout_seconds: Seconds | None = None
    max_attempts: Attempts | None = None
    partition_interval: IntervalText | None = None
    retention_interval: IntervalText | None = None
    durable_claims: bool = True
    description: Description | None = None


class QueueUpdate(msgspec.Struct, kw_only=True):
    """What to change of a queue; null takes an interval or the description away."""

    queue_type: QueueKind | UnsetType = UNSET
    ack_timeout_seconds: Seconds | UnsetType = UNSET
    max_attempts: Attempts | UnsetType = UNSET
    partition_interval: IntervalText | UnsetType | None = UNSET
    retention_interval: IntervalText | UnsetType | None = UNSET
    durable_claims: bool | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET


class Purge(msgspec.Struct):
    status: StateName | Literal["all"] = "all"


class Rename(msgspec.Struct):
    new_name: NewQueueName = msgspec.field(name="newName")


class ByName(msgspec.Struct):
    name: QueueName


class Deletion(msgspec.Struct):
    name: QueueName
    force: bool = False


class QueueList(msgspec.Struct):
    queues: list[QueueInfo]
    total: int


class QueueChanged(msgspec.Struct):
    message: str
    queue: QueueInfo


class QueueDeleted(msgspec.Struct):
    message: str
    deleted_messages: int


class Purged(msgspec.Struct):
    message: str
    deleted_count: int


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
        message = f"Queue '{queue.name}' is {queue.settings.kind}: that is fixed once it is made"
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
        message = (
            "Messages leave in steps of partition_interval once retention_interval has passed: "
            "give retention_interval too"
        )
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
        summary="Make a queue",
        body=NewQueue,
        example={
            "name": "mail",
            "ack_timeout_seconds": 60,
            "max_attempts": 5,
            "description": "Outgoing",
        },
        answers={201: QueueChanged, 409: Reply},
        role=Role.ADMIN,
        reach=_new_queue,
        tag="queues",
    ),
    Operation(
        method="GET",
        path="/queues",
        handler=list_queues,
        summary="List the queues",
        answers={200: QueueList},
        role=Role.READ,
        reach=filtered,
        compress=True,
        tag="queues",
    ),
    Operation(
        method="GET",
        path="/queues/{name}",
        handler=get_queue,
        summary="Look at a queue",
        parameters=ByName,
        answers={200: QueueInfo, 404: Reply},
        role=Role.READ,
        reach=queue_in_path,
        tag="queues",
    ),
    Operation(
        method="PATCH",
        path="/queues/{name}",
        handler=update_queue,
        summary="Change a queue's settings",
        parameters=ByName,
        body=QueueUpdate,
        example={"ack_timeout_seconds": 120},
        answers={200: QueueChanged, 404: Reply},
        role=Role.ADMIN,
        reach=queue_in_path,
        tag="queues",
    ),
    Operation(
        method="DELETE",
        path="/queues/{name}",
        handler=delete_queue,
        summary="Delete a queue; with `force` also one that is not empty",
        parameters=Deletion,
        answers={200: QueueDeleted, 400: Reply, 404: Reply},
        role=Role.ADMIN,
        reach=queue_in_path,
        tag="queues",
    ),
    Operation(
        method="POST",
        path="/queues/{name}/purge",
        handler=purge_queue,
        summary="Delete all messages of a queue, or those of one state",
        parameters=ByName,
        body=Purge,
        example={"status": "dead"},
        body_optional=True,
        answers={200: Purged, 404: Reply},
        role=Role.ADMIN,
        reach=queue_in_path,
        tag="queues",
    ),
    Operation(
        method="POST",
        path="/queues/{name}/rename",
        handler=rename_queue,
        summary="Give a queue another name",
        parameters=ByName,
        body=Rename,
        example={"newName": "letters"},
        answers={200: QueueChanged, 404: Reply, 409: Reply},
        role=Role.ADMIN,
        reach=_both_names,
        tag="queues",
    ),
)
