"""The routes for manual changes to messages that are named by their ids: edit, move, delete."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from laneway.domain.messages import MessageChanges
from laneway.server.access import looked_up
from laneway.server.decoder import NothingMore
from laneway.server.errors import InvalidInput, Issue
from laneway.server.operations import Operation, Response, Role
from laneway.server.responses import Answer, answer_json
from laneway.server.rest.access import find_usable
from laneway.server.rest.leases import locate
from laneway.server.rest.objects import show_message
from laneway.server.rest.states import STATES, QueuePart
from laneway.server.rest.wire import (
    Attempts,
    MessageObject,
    MessageType,
    NewPriority,
    Seconds,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.ids import MessageId
    from laneway.engine.messages import Target
    from laneway.server.calls import Call
    from laneway.server.rest.leases import Located
    from laneway.server.settings import ServerSettings

# An id that may name no message. A malformed id is treated as unknown.
IdText = Annotated[str, Meta(max_length=255)]
# Messages per call, so that one call does not delay others.
MOST = 10_000


class Edited(msgspec.Struct):
    """The message to edit, and the state that it is expected in."""

    id: Annotated[IdText, Meta(description="Message id, such as `2-1-1`.")]
    queue_type: Annotated[
        Literal["main", "processing", "dead"],
        Meta(
            description="State that the message is expected in. A message in another state is not edited."
        ),
    ] = msgspec.field(name="queueType")


class Edit(msgspec.Struct, kw_only=True):
    """What to change; fields that are not named keep their values."""

    type: Annotated[MessageType | UnsetType, Meta(description="New type: its partition.")] = UNSET
    payload: Annotated[Raw | UnsetType, Meta(description="New payload: any JSON.")] = UNSET
    priority: Annotated[NewPriority | UnsetType, Meta(description="New priority.")] = UNSET
    max_attempts: Annotated[
        Attempts | UnsetType, Meta(description="New limit on deliveries, 1 to 32,767.")
    ] = UNSET
    ack_timeout_seconds: Annotated[
        Seconds | UnsetType, Meta(description="New lease duration in seconds, at most ten years.")
    ] = UNSET


class Deleted(msgspec.Struct, forbid_unknown_fields=True):
    id: Annotated[IdText, Meta(description="Message id, such as `2-1-1`.")]
    queue_type: Annotated[
        QueuePart,
        Meta(
            description="State that the message is expected in. A message in another state is not "
            "deleted."
        ),
    ] = msgspec.field(name="queueType")


class DeletedPart(msgspec.Struct, forbid_unknown_fields=True):
    queue_type: Annotated[
        QueuePart,
        Meta(
            description="State that the messages are expected in. Messages in another state are not "
            "deleted."
        ),
    ] = msgspec.field(name="queueType")


class Ids(msgspec.Struct, forbid_unknown_fields=True):
    """Messages, by their ids."""

    message_ids: Annotated[
        list[IdText],
        Meta(max_length=MOST, description="Ids of the messages to delete, at most 10,000."),
    ] = msgspec.field(name="messageIds")


class Named(msgspec.Struct):
    """A message, by its id."""

    id: Annotated[IdText, Meta(description="Message id, such as `2-1-1`.")]


class Move(msgspec.Struct, kw_only=True):
    """Messages to move from one state to another."""

    messages: Annotated[
        list[IdText | Named],
        Meta(
            max_length=MOST,
            description="Ids of the messages to move, or objects with an `id`; at most 10,000.",
        ),
    ]
    from_queue: Annotated[
        QueuePart,
        Meta(
            description="State that the messages are expected in. Messages in another state are skipped."
        ),
    ] = msgspec.field(name="fromQueue")
    to_queue: Annotated[
        QueuePart, Meta(description="State to move them to. It must differ from `fromQueue`.")
    ] = msgspec.field(name="toQueue")
    error_reason: Annotated[
        Annotated[str, Meta(max_length=2000)] | None,
        Meta(description="Reason to record with the messages, at most 2000 characters."),
    ] = msgspec.field(name="errorReason", default=None)

    @property
    def ids(self) -> list[str]:
        return [item if isinstance(item, str) else item.id for item in self.messages]


class EditResult(msgspec.Struct):
    """The message after the edit."""

    success: Annotated[bool, Meta(description="Always true.")]
    data: Annotated[MessageObject, Meta(description="The message as it is now.")]


class NotEdited(msgspec.Struct):
    """The message was not edited."""

    success: Annotated[bool, Meta(description="Always false.")]
    message: Annotated[str, Meta(description="Why, in words for people.")]


class Success(msgspec.Struct):
    """Whether the message was deleted."""

    success: Annotated[bool, Meta(description="False if no such message is in that state.")]


class DeleteResult(msgspec.Struct):
    """How many messages were deleted."""

    success: Annotated[bool, Meta(description="Always true.")]
    deleted_count: Annotated[
        int,
        Meta(
            description="How many messages were deleted. Others did not exist or were in another state."
        ),
    ] = msgspec.field(name="deletedCount")
    message: Annotated[str, Meta(description="What happened, in words for people.")] = ""


class MoveResult(msgspec.Struct):
    """How many messages were moved."""

    message: Annotated[str, Meta(description="What happened, in words for people.")]
    moved_count: Annotated[
        int,
        Meta(
            description="How many messages were moved. Others did not exist or were in another state."
        ),
    ] = msgspec.field(name="movedCount")


async def edit_message(call: Call[Edited, Edit]) -> Answer:
    changes = _read_changes(call.body, call.settings)
    for found in await _locate(call, [call.parameters.id]):
        state = STATES[call.parameters.queue_type]
        if await call.broker.messages.edit(found.queue, found.id, changes, source=state):
            (message,) = await call.broker.messages.find(found.queue, [found.id])
            if message is not None:
                shown = show_message(message, await call.service.find_lease_tokens())
                return answer_json(200, EditResult(success=True, data=shown))
    return answer_json(404, NotEdited(success=False, message="Message not found"))


async def delete_message(call: Call[Deleted, NothingMore]) -> Answer:
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
        raise InvalidInput([Issue("custom", ("toQueue",), "toQueue must differ from fromQueue")])
    moved = await _move(
        call,
        body.ids,
        source=body.from_queue,
        target=STATES[body.to_queue],
        reason=body.error_reason,
    )
    return answer_json(200, MoveResult(f"{moved} messages moved successfully", moved))


async def _move(
    call: Call[Any, Any],
    texts: Sequence[str],
    *,
    source: QueuePart,
    target: Target,
    reason: str | None = None,
) -> int:
    """Return how many messages were moved; the activity log records it as a manual operation."""
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
    """Return the messages that exist and that the caller's key may use."""
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
        raise InvalidInput([Issue("custom", (), "Nothing to change: name at least one field")])
    return changes


OPERATIONS = (
    Operation(
        method="PUT",
        path="/queue/message/{id}",
        handler=edit_message,
        summary="Edit a message",
        description=(
            "Changes the type, payload, priority or limits of a message; its id stays. It "
            "takes effect only while the message is in the state that `queueType` names. A "
            "message in flight shows the change at its next delivery."
        ),
        parameters=Edited,
        body=Edit,
        example={"payload": {"to": "grace@example.org"}, "priority": 9},
        answers={
            200: Response(EditResult, "The message is edited."),
            404: Response(NotEdited, "No message with this id is in that state."),
        },
        role=Role.ADMIN,
        reach=looked_up,
    ),
    Operation(
        method="DELETE",
        path="/queue/message/{id}",
        handler=delete_message,
        summary="Delete a message",
        description=(
            "Deletes a message while it is in the state that `queueType` names. If it is not, "
            "nothing changes and `success` is false."
        ),
        parameters=Deleted,
        body=NothingMore,
        body_optional=True,
        answers={
            200: Response(
                Success,
                "The request was processed. `success` tells whether the message was deleted.",
            )
        },
        role=Role.ADMIN,
        reach=looked_up,
    ),
    Operation(
        method="POST",
        path="/queue/messages/delete",
        handler=delete_messages,
        summary="Delete many messages of one state",
        description=(
            "Deletes up to 10,000 messages by their ids. Messages in another state than "
            "`queueType` are skipped. Each queue's messages are deleted in one transaction."
        ),
        parameters=DeletedPart,
        body=Ids,
        example={"messageIds": ["2-1-1"]},
        answers={
            200: Response(
                DeleteResult,
                "The request was processed. `deletedCount` tells how many messages were deleted.",
            )
        },
        role=Role.ADMIN,
        reach=looked_up,
    ),
    Operation(
        method="POST",
        path="/queue/move",
        handler=move_messages,
        summary="Move messages from one state to another",
        description=(
            "Moves up to 10,000 messages, for example dead letters back to `main` to redrive "
            "them. Messages that are not in `fromQueue` are skipped. Moved to `main`, a "
            "message comes next within its priority. Moved out of `dead`, its attempts count "
            "from zero again, except in `archived`."
        ),
        body=Move,
        example={"messages": ["2-1-1"], "fromQueue": "dead", "toQueue": "main"},
        answers={
            200: Response(
                MoveResult,
                "The request was processed. `movedCount` tells how many messages were moved.",
            )
        },
        role=Role.WRITE,
        reach=looked_up,
    ),
)
