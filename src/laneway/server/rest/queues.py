"""The routes that create, show, change and delete queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from laneway.domain.messages import Status
from laneway.domain.queues import DEFAULT_GROUP
from laneway.server.access import filtered, named
from laneway.server.decoder import NothingMore
from laneway.server.operations import Operation, Response, Role
from laneway.server.responses import Answer, answer_json
from laneway.server.rest.access import queue_in_path
from laneway.server.rest.queue_settings import (
    NewQueue,
    NewQueueName,
    QueueInfo,
    QueueUpdate,
    read_changes,
    read_settings,
    show_queue,
)
from laneway.server.rest.wire import QUEUE_NOT_FOUND, QueueName, Reply, StateName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.queues import Queue
    from laneway.server.calls import Call


class Purge(msgspec.Struct, forbid_unknown_fields=True):
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


class ToPurge(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[QueueName, Meta(description="Name of the queue.")]


class Deletion(msgspec.Struct, forbid_unknown_fields=True):
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
    queue = await call.broker.queues.create(call.body.name, read_settings(call.body, call.settings))
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
    changes = read_changes(call.body, queue)
    if changes:
        queue = await call.broker.queues.update(name, changes)
    return answer_json(
        200, QueueChanged(f"Queue '{name}' updated successfully", await _look(call, queue))
    )


async def delete_queue(call: Call[Deletion, NothingMore]) -> Answer:
    name, force = call.parameters.name, call.parameters.force
    # Without force, only an empty queue is deleted.
    counts = await call.broker.statistics.counts(name) if force else []
    await call.broker.queues.delete(name, force=force)
    deleted = sum(count.queued + count.processing + count.dead for count in counts)
    return answer_json(200, QueueDeleted(f"Queue '{name}' deleted successfully", deleted))


async def purge_queue(call: Call[ToPurge, Purge]) -> Answer:
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


async def _look(call: Call[Any, Any], queue: Queue) -> QueueInfo:
    counts = await call.broker.statistics.counts(queue.name)
    return show_queue(queue, counts[0] if counts else None)


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
        body=NothingMore,
        body_optional=True,
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
        parameters=ToPurge,
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
