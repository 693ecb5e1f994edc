"""The routes that handle messages by hand: edit, move, delete, clear."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from laneway.domain.messages import MessageChanges
from laneway.server.access import every_queue, looked_up
from laneway.server.errors import InvalidInput, Issue
from laneway.server.operations import Operation, Role
from laneway.server.responses import Answer, answer_json
from laneway.server.rest.access import find_usable, queue_in_query
from laneway.server.rest.leases import locate
from laneway.server.rest.objects import show_message
from laneway.server.rest.states import STATES, QueuePart
from laneway.server.rest.times import MomentText, read_moment
from laneway.server.rest.wire import (
    Attempts,
    Message,
    MessageObject,
    MessageType,
    Priority,
    QueueName,
    Seconds,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.ids import MessageId
    from laneway.engine.messages import Target
    from laneway.server.calls import Call
    from laneway.server.rest.leases import Located
    from laneway.server.settings import ServerSettings

# Of a message that may be none: what is no id is an id that no message has.
IdText = Annotated[str, Meta(max_length=255)]
# As many as one call moves without keeping others waiting.
MOST = 10_000


class Edited(msgspec.Struct):
    """Which message to edit, and in which part it is expected."""

    id: IdText
    queue_type: Literal["main", "processing", "dead"] = msgspec.field(name="queueType")


class Edit(msgspec.Struct, kw_only=True):
    """What to change; what is not named stays. A message in hand shows it when handed out again."""

    type: MessageType | UnsetType = UNSET
    payload: Raw | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    max_attempts: Attempts | UnsetType = UNSET
    ack_timeout_seconds: Seconds | UnsetType = UNSET


class Deleted(msgspec.Struct):
    id: IdText
    queue_type: QueuePart = msgspec.field(name="queueType")


class DeletedPart(msgspec.Struct):
    queue_type: QueuePart = msgspec.field(name="queueType")


class Ids(msgspec.Struct):
    message_ids: Annotated[list[IdText], Meta(max_length=MOST)] = msgspec.field(name="messageIds")


class Named(msgspec.Struct):
    id: IdText


class Move(msgspec.Struct, kw_only=True):
    messages: Annotated[list[IdText | Named], Meta(max_length=MOST)]
    from_queue: QueuePart = msgspec.field(name="fromQueue")
    to_queue: QueuePart = msgspec.field(name="toQueue")
    error_reason: Annotated[str, Meta(max_length=2000)] | None = msgspec.field(
        name="errorReason", default=None
    )

    @property
    def ids(self) -> list[str]:
        return [item if isinstance(item, str) else item.id for item in self.messages]


class Cleared(msgspec.Struct):
    queue_type: QueuePart = msgspec.field(name="queueType")
    queue_name: QueueName | None = msgspec.field(name="queueName", default=None)


class DeletedBetween(msgspec.Struct):
    start_timestamp: MomentText = msgspec.field(name="startTimestamp")
    end_timestamp: MomentText = msgspec.field(name="endTimestamp")


class EditResult(msgspec.Struct):
    success: bool
    data: MessageObject


class NotEdited(msgspec.Struct):
    success: bool
    message: str


class Success(msgspec.Struct):
    success: bool


class DeleteResult(msgspec.Struct):
    success: bool
    deleted_count: int = msgspec.field(name="deletedCount")
    message: str = ""


class MoveResult(msgspec.Struct):
    message: str
    moved_count: int = msgspec.field(name="movedCount")


class ClearResult(msgspec.Struct):
    success: bool
    queue_type: QueuePart = msgspec.field(name="queueType")
    message: str = ""


async def edit_message(call: Call[Edited, Edit]) -> Answer:
    changes = _read_changes(call.body, call.settings)
    for found in await _locate(call, [call.parameters.id]):
        state = STATES[call.parameters.queue_type]
        if await call.broker.messages.edit(found.queue, found.id, changes, source=state):
            (message,) = await call.broker.messages.find(found.queue, [found.id])
            if message is not None:
                return answer_json(200, EditResult(success=True, data=show_message(message)))
    return answer_json(404, NotEdited(success=False, message="Message not found"))


async def delete_message(call: Call[Deleted, None]) -> Answer:
    wanted = call.parameters
    deleted = await _move(call, [wanted.id], source=wanted.queue_type, target="deleted")
    return answer_json(200, Success(success=deleted > 0))


async def delete_messages(call: Call[DeletedPart, Ids]) -> Answer:
    ids = call.body.message_ids
    deleted = await _move(call, ids, source=call.parameters.queue_type, target="deleted")
    return answer_json(
        200,
        DeleteResult(
            success=True, deleted_count=deleted, message=f"{deleted} messages deleted successfully"
        ),
    )


async def move_messages(call: Call[None, Move]) -> Answer:
    body = call.body
    if body.from_queue == body.to_queue:
        raise InvalidInput(
            [Issue("custom", ("toQueue",), "Messages move to another part than they are in")]
        )
    moved = await _move(
        call,
        body.ids,
        source=body.from_queue,
        target=STATES[body.to_queue],
        reason=body.error_reason,
    )
    return answer_json(200, MoveResult(f"{moved} messages moved successfully", moved))


async def clear_queues(call: Call[None, None]) -> Answer:
    await call.broker.messages.purge_each()
    return answer_json(200, Message(message="All queues cleared successfully"))


async def clear_part(call: Call[Cleared, None]) -> Answer:
    part, queue = call.parameters.queue_type, call.parameters.queue_name
    if queue is None and b"queueName" in call.request.query:
        # A name that was left empty by mistake must not stand for every queue.
        raise InvalidInput([Issue("too_small", ("queueName",), "Expected the name of a queue")])
    await call.broker.messages.purge_each(None if queue is None else [queue], status=STATES[part])
    return answer_json(
        200,
        ClearResult(success=True, queue_type=part, message=f"{part} queue cleared successfully"),
    )


async def delete_messages_between(call: Call[DeletedBetween, None]) -> Answer:
    deleted = await call.broker.messages.delete_between(
        None,
        read_moment(call.parameters.start_timestamp, "startTimestamp"),
        read_moment(call.parameters.end_timestamp, "endTimestamp"),
    )
    return answer_json(200, Message(message=f"{deleted} messages removed successfully"))


async def _move(
    call: Call[Any, Any],
    texts: Sequence[str],
    *,
    source: QueuePart,
    target: Target,
    reason: str | None = None,
) -> int:
    """Return how many were there and moved; a person's hand is on record as who did it."""
    queues: dict[str, list[MessageId]] = {}
    for found in await _locate(call, texts):
        queues.setdefault(found.queue, []).append(found.id)
    moved = 0
    for queue, ids in queues.items():
        moved += len(
            await call.broker.messages.move(
                queue,
                ids,
                source=STATES[source],
                target=target,
                reason=reason,
                consumer=call.settings.manual_actor,
            )
        )
    return moved


async def _locate(call: Call[Any, Any], texts: Sequence[str]) -> Sequence[Located]:
    """Return those that are there for the caller's key."""
    usable = await find_usable(call, texts)
    return await locate(call.broker, [texts[position] for position in usable], look=False)


def _read_changes(body: Edit, settings: ServerSettings) -> MessageChanges:
    changes = MessageChanges()
    if body.type is not UNSET:
        changes["partition"] = body.type
    if body.payload is not UNSET:
        changes["body"] = str(body.payload, "utf-8")
    if body.priority is not UNSET:
        highest = settings.priority_levels - 1
        if body.priority > highest:
            raise InvalidInput([Issue("too_big", ("priority",), f"Expected `int` <= {highest}")])
        changes["priority"] = body.priority
    if body.max_attempts is not UNSET:
        changes["max_attempts"] = body.max_attempts
    if body.ack_timeout_seconds is not UNSET:
        changes["lease"] = timedelta(seconds=body.ack_timeout_seconds)
    if not changes:
        raise InvalidInput([Issue("custom", (), "Nothing to change: name what is to be different")])
    return changes


OPERATIONS = (
    Operation(
        method="PUT",
        path="/queue/message/{id}",
        handler=edit_message,
        summary="Edit a message; its id stays",
        parameters=Edited,
        body=Edit,
        example={"payload": {"to": "grace@example.org"}, "priority": 9},
        answers={200: EditResult, 404: NotEdited},
        role=Role.ADMIN,
        reach=looked_up,
    ),
    Operation(
        method="DELETE",
        path="/queue/message/{id}",
        handler=delete_message,
        summary="Delete a message",
        parameters=Deleted,
        answers={200: Success},
        role=Role.ADMIN,
        reach=looked_up,
    ),
    Operation(
        method="POST",
        path="/queue/messages/delete",
        handler=delete_messages,
        summary="Delete many messages of one state",
        parameters=DeletedPart,
        body=Ids,
        example={"messageIds": ["2-1-1"]},
        answers={200: DeleteResult},
        role=Role.ADMIN,
        reach=looked_up,
    ),
    Operation(
        method="POST",
        path="/queue/move",
        handler=move_messages,
        summary="Move messages from one state to another",
        body=Move,
        example={"messages": ["2-1-1"], "fromQueue": "dead", "toQueue": "main"},
        answers={200: MoveResult},
        role=Role.WRITE,
        reach=looked_up,
    ),
    Operation(
        method="DELETE",
        path="/queue/clear",
        handler=clear_queues,
        summary="Delete all messages of all queues",
        answers={200: Message},
        role=Role.ADMIN,
        reach=every_queue,
    ),
    Operation(
        method="DELETE",
        path="/queue/{queueType}/clear",
        handler=clear_part,
        summary="Delete all messages of one state, of one queue or of all",
        parameters=Cleared,
        answers={200: ClearResult, 404: Message},
        role=Role.ADMIN,
        reach=queue_in_query,
    ),
    Operation(
        method="DELETE",
        path="/queue/messages",
        handler=delete_messages_between,
        summary="Delete all messages of a range of time, whatever their state",
        parameters=DeletedBetween,
        answers={200: Message},
        role=Role.ADMIN,
        reach=every_queue,
    ),
)
