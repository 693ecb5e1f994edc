"""The routes that delete all messages of a state, a queue or a time range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from laneway.server.access import every_queue
from laneway.server.decoder import NothingMore
from laneway.server.errors import InvalidInput, Issue
from laneway.server.operations import Operation, Response, Role
from laneway.server.responses import Answer, answer_json
from laneway.server.rest.access import queue_in_query
from laneway.server.rest.states import STATES, QueuePart
from laneway.server.rest.times import MomentText, read_moment
from laneway.server.rest.wire import QUEUE_NOT_FOUND, QueueName, Reply

if TYPE_CHECKING:
    from laneway.server.calls import Call


class Cleared(msgspec.Struct, forbid_unknown_fields=True):
    queue_type: Annotated[QueuePart, Meta(description="State of the messages to delete.")] = (
        msgspec.field(name="queueType")
    )
    queue_name: Annotated[
        QueueName | None,
        Meta(
            description="Only messages of this queue. Default: all queues. An empty name is refused "
            "(422)."
        ),
    ] = msgspec.field(name="queueName", default=None)


class DeletedBetween(msgspec.Struct, forbid_unknown_fields=True):
    start_timestamp: Annotated[
        MomentText, Meta(description="Delete messages enqueued at this time or later.")
    ] = msgspec.field(name="startTimestamp")
    end_timestamp: Annotated[
        MomentText, Meta(description="Delete messages enqueued at this time or earlier.")
    ] = msgspec.field(name="endTimestamp")


class ClearResult(msgspec.Struct):
    """The messages of a state were deleted."""

    success: Annotated[bool, Meta(description="Always true.")]
    queue_type: Annotated[QueuePart, Meta(description="State of the deleted messages.")] = (
        msgspec.field(name="queueType")
    )
    message: Annotated[str, Meta(description="What happened, in words for people.")] = ""


async def clear_queues(call: Call[NothingMore, NothingMore]) -> Answer:
    await call.broker.messages.purge_each()
    return answer_json(200, Reply(message="All queues cleared successfully"))


async def clear_part(call: Call[Cleared, NothingMore]) -> Answer:
    part, queue = call.parameters.queue_type, call.parameters.queue_name
    if queue is None and b"queueName" in call.request.query:
        # A name left empty by mistake must not select every queue.
        raise InvalidInput([Issue("too_small", ("queueName",), "Expected the name of a queue")])
    await call.broker.messages.purge_each(None if queue is None else [queue], status=STATES[part])
    return answer_json(
        200,
        ClearResult(success=True, queue_type=part, message=f"{part} queue cleared successfully"),
    )


async def delete_messages_between(call: Call[DeletedBetween, NothingMore]) -> Answer:
    deleted = await call.broker.messages.delete_between(
        None,
        read_moment(call.parameters.start_timestamp, "startTimestamp"),
        read_moment(call.parameters.end_timestamp, "endTimestamp"),
    )
    return answer_json(200, Reply(message=f"{deleted} messages removed successfully"))


OPERATIONS = (
    Operation(
        method="DELETE",
        path="/queue/clear",
        handler=clear_queues,
        summary="Delete all messages of all queues",
        description=(
            "Deletes every message of every queue, one queue after the other. Queues and "
            "their settings stay. It takes an API key that is not limited to some queues."
        ),
        parameters=NothingMore,
        body=NothingMore,
        body_optional=True,
        answers={200: Response(Reply, "The messages are deleted.")},
        role=Role.ADMIN,
        reach=every_queue,
    ),
    Operation(
        method="DELETE",
        path="/queue/{queueType}/clear",
        handler=clear_part,
        summary="Delete all messages of one state",
        description=(
            "Deletes the messages of one state, of one queue or of all. Each queue is cleared "
            "by itself, one after the other. Without `queueName` it takes an API key that is "
            "not limited to some queues."
        ),
        parameters=Cleared,
        body=NothingMore,
        body_optional=True,
        answers={200: Response(ClearResult, "The messages are deleted."), 404: QUEUE_NOT_FOUND},
        role=Role.ADMIN,
        reach=queue_in_query,
    ),
    Operation(
        method="DELETE",
        path="/queue/messages",
        handler=delete_messages_between,
        summary="Delete all messages of a time range, in any state",
        description=(
            "Deletes the messages of all queues that were enqueued in a time range, in flight "
            "or not. The cost does not depend on their number. It takes an API key that is "
            "not limited to some queues."
        ),
        parameters=DeletedBetween,
        body=NothingMore,
        body_optional=True,
        answers={200: Response(Reply, "The messages are deleted.")},
        role=Role.ADMIN,
        reach=every_queue,
    ),
)
