"""The routes that list messages by state, and change single messages manually."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw

from laneway.domain.errors import NotFound
from laneway.domain.listings import MessageFilter
from laneway.domain.messages import Status, StoredMessage
from laneway.server.access import looked_up, named_or_filtered
from laneway.server.decoder import NothingMore
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.deliveries import read_stored_body
from laneway.server.queen.options import read_stored
from laneway.server.queen.registry import list_stream_queues
from laneway.server.queen.wire import (
    MESSAGE_NOT_FOUND,
    QUEUE_NOT_FOUND,
    SLASHED,
    Failure,
    GroupName,
    IsSealed,
    Limit,
    MessageName,
    MomentText,
    Offset,
    PartitionName,
    Payload,
    ProducerSub,
    QueueName,
    ShownTransactionId,
    TraceId,
    find_lane,
    read_address,
    read_group,
    read_moment,
    show_address,
    show_group,
)
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.queues import Queue
    from laneway.server.calls import Call
    from laneway.server.queen.encryption import Vault

StatusName = Literal["pending", "processing", "completed", "failed", "dead_letter", "dlq"]

STATES: dict[str, Status] = {
    "pending": Status.QUEUED,
    "processing": Status.PROCESSING,
    "completed": Status.ACKNOWLEDGED,
    "failed": Status.DEAD,
    "dead_letter": Status.DEAD,
    "dlq": Status.DEAD,
}
NAMES = {
    Status.QUEUED: "pending",
    Status.PROCESSING: "processing",
    Status.ACKNOWLEDGED: "completed",
    Status.DEAD: "dead_letter",
    Status.ARCHIVED: "archived",
}


class Filters(msgspec.Struct, kw_only=True):
    """Which messages to list."""

    queue: Annotated[
        QueueName | None,
        Meta(
            description="Only messages of this queue. Default: all queues that the API key may use."
        ),
    ] = None
    partition: Annotated[
        PartitionName | None, Meta(description="Only messages of this partition.")
    ] = None
    ns: Annotated[
        str | None,
        Meta(description="Only messages of queues of this namespace. Ignored with `queue`."),
    ] = None
    task: Annotated[
        str | None, Meta(description="Only messages of queues of this task. Ignored with `queue`.")
    ] = None
    since: Annotated[
        MomentText | None,
        Meta(
            description="Only messages pushed at this time or later (ISO 8601, UTC unless it names a "
            "zone)."
        ),
    ] = msgspec.field(name="from", default=None)
    until: Annotated[
        MomentText | None,
        Meta(
            description="Only messages pushed at this time or earlier (ISO 8601, UTC unless it names a "
            "zone)."
        ),
    ] = msgspec.field(name="to", default=None)
    offset: Annotated[Offset, Meta(description="Messages to skip. Default: 0.")] = 0

    def read(self) -> MessageFilter:
        return MessageFilter(
            partitions=None if self.partition is None else [self.partition],
            since=None if self.since is None else read_moment(self.since, "from"),
            until=None if self.until is None else read_moment(self.until, "to"),
        )


class Listing(Filters, kw_only=True):
    status: Annotated[
        StatusName | None,
        Meta(
            description="Only messages in this state. `failed`, `dead_letter` and `dlq` mean the same. "
            "Default: any state."
        ),
    ] = None
    consumer_group: Annotated[
        GroupName | None,
        Meta(description="Consumer group whose states are shown. Default: the queue's own group."),
    ] = msgspec.field(name="consumerGroup", default=None)
    limit: Annotated[Limit, Meta(description="Messages per page, 1 to 1000. Default: 200.")] = 200


class ByKey(MessageName, kw_only=True):
    """A message, and the group whose state is meant."""

    consumer_group: Annotated[
        GroupName | None,
        Meta(
            description="Consumer group whose state is shown or changed. Default: the queue's own group "
            "to show, all groups to change."
        ),
    ] = msgspec.field(name="consumerGroup", default=None)


class ByChangedKey(ByKey, kw_only=True, forbid_unknown_fields=True):
    """A message to change."""


class MessageShown(msgspec.Struct, kw_only=True):
    """A message as one group sees it."""

    id: Annotated[str, Meta(description="Id of the message.")]
    transaction_id: ShownTransactionId = msgspec.field(name="transactionId")
    partition_id: Annotated[str, Meta(description="Id of its partition.")] = msgspec.field(
        name="partitionId"
    )
    queue: Annotated[str, Meta(description="Name of its queue.")]
    partition: Annotated[str, Meta(description="Name of its partition.")]
    namespace: Annotated[str | None, Meta(description="Namespace of the queue.")]
    task: Annotated[str | None, Meta(description="Task of the queue.")]
    status: Annotated[
        str,
        Meta(
            description="State of the message: `pending`, `processing`, `completed`, `dead_letter` or "
            "`archived`."
        ),
    ]
    trace_id: TraceId = msgspec.field(name="traceId")
    producer_sub: ProducerSub = msgspec.field(name="producerSub")
    data: Payload
    sealed: IsSealed
    error_message: Annotated[
        str | None, Meta(description="Why the latest attempt failed; null: none failed.")
    ] = msgspec.field(name="errorMessage")
    retry_count: Annotated[int, Meta(description="Deliveries after the first.")] = msgspec.field(
        name="retryCount"
    )
    consumer_group: Annotated[str, Meta(description="Group whose state this is.")] = msgspec.field(
        name="consumerGroup"
    )
    lease_expires_at: Annotated[
        datetime | None,
        Meta(description="When the lease expires; null unless the message is in flight."),
    ] = msgspec.field(name="leaseExpiresAt")
    created_at: Annotated[datetime, Meta(description="When the message was pushed.")] = (
        msgspec.field(name="createdAt")
    )
    completed_at: Annotated[
        datetime | None, Meta(description="When it was acked; null otherwise.")
    ] = msgspec.field(name="completedAt")


class GroupState(msgspec.Struct, kw_only=True):
    """What became of a message in one group."""

    name: Annotated[str, Meta(description="Name of the group.")]
    consumed: Annotated[
        bool,
        Meta(description="Whether the group is done with it: acked, dead-lettered or archived."),
    ]
    status: Annotated[str, Meta(description="State of the message, as in `status` of a message.")]
    lease_expires_at: Annotated[
        datetime | None,
        Meta(description="When the lease expires; null unless the message is in flight."),
    ] = msgspec.field(name="leaseExpiresAt")


class MessageDetail(MessageShown, kw_only=True):
    """A message as one group sees it, and its state in every group."""

    consumer_groups: Annotated[
        list[GroupState],
        Meta(
            description="Every group of the queue; the queue's own group only if it is the only one, or "
            "has consumers."
        ),
    ] = msgspec.field(name="consumerGroups")


class MessageList(msgspec.Struct, kw_only=True):
    """A page of messages."""

    messages: Annotated[list[MessageShown], Meta(description="The messages, newest first.")]
    limit: Annotated[int, Meta(description="Messages per page.")]
    offset: Annotated[int, Meta(description="Messages skipped.")]


class Handled(msgspec.Struct, kw_only=True):
    """A message was changed."""

    success: Annotated[bool, Meta(description="Always true.")]
    transaction_id: Annotated[str, Meta(description="Transaction id, as the request named it.")] = (
        msgspec.field(name="transactionId")
    )
    consumer_groups: Annotated[
        list[str], Meta(description="Groups in which the message was changed.")
    ] = msgspec.field(name="consumerGroups")


class MessageRoutes:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def list_messages(self, call: Call[Listing, None]) -> Answer:
        wanted = call.parameters
        queues = await choose_queues(call, wanted)
        name = read_group(wanted.consumer_group)
        groups = [queue.groups[name].group_id for queue in queues if name in queue.groups]
        states = [STATES[wanted.status]] if wanted.status else list(NAMES)
        found: list[StoredMessage] = []
        for status in states:
            found += await call.broker.streams.list_messages(
                groups, status, wanted.read(), limit=wanted.limit + wanted.offset
            )
        found.sort(key=lambda message: (message.created_at, message.id), reverse=True)
        # A message whose state changed meanwhile may have been found twice.
        page = list({message.id: message for message in found}.values())
        page = page[wanted.offset : wanted.offset + wanted.limit]
        known = {queue.name: queue for queue in queues}
        return answer_json(
            200,
            MessageList(
                messages=[self.show(message, known.get(message.queue)) for message in page],
                limit=wanted.limit,
                offset=wanted.offset,
            ),
        )

    async def show_message(self, call: Call[ByKey, None]) -> Answer:
        message = await _find(call, read_group(call.parameters.consumer_group))
        if message is None:
            raise _missing(call)
        queue = await call.broker.queues.find(message.queue)
        shown = msgspec.structs.asdict(self.show(message, queue))
        counting = await call.broker.subscriptions.list_counted_groups()
        groups = [group.name for group in queue.groups.values() if group.group_id in counting]
        states = [state for name in groups if (state := await _find(call, name)) is not None]
        return answer_json(
            200, MessageDetail(**shown, consumer_groups=[_show_state(state) for state in states])
        )

    async def delete_message(self, call: Call[ByChangedKey, NothingMore]) -> Answer:
        """Delete a message for one group, or for all."""
        return await _move(call, (*NAMES,), "deleted")

    async def retry_message(self, call: Call[ByChangedKey, None]) -> Answer:
        """Redrive a dead letter, with attempts counted from zero."""
        return await _move(call, (Status.DEAD,), Status.QUEUED)

    async def dead_letter_message(self, call: Call[ByChangedKey, None]) -> Answer:
        return await _move(call, (Status.QUEUED, Status.PROCESSING), Status.DEAD)

    def show(self, message: StoredMessage, queue: Queue | None) -> MessageShown:
        headers, body = read_stored_body(message, self._vault)
        stored = read_stored(queue) if queue is not None else {}
        address = show_address(message.segment, message.lane, message.seq)
        status = Status(message.status)
        return MessageShown(
            id=address,
            transaction_id=message.dedup_key or address,
            partition_id=str(message.lane),
            queue=message.queue,
            partition=message.partition,
            namespace=stored.get("namespace"),
            task=stored.get("task"),
            status=NAMES[status],
            trace_id=str(headers.trace_id) if headers.trace_id else None,
            producer_sub=headers.sub,
            data=Raw((body or "null").encode()),
            sealed=body is None,
            error_message=message.error,
            retry_count=show_retries(message),
            consumer_group=show_group(message.group),
            lease_expires_at=message.locked_until,
            created_at=message.created_at,
            completed_at=message.acknowledged_at,
        )

    @property
    def operations(self) -> tuple[Operation[Any, Any], ...]:
        path = "/messages/{partitionId}/{transactionId}"
        return (
            Operation(
                method="GET",
                path="/messages",
                handler=self.list_messages,
                summary="List messages, newest first",
                description=(
                    "Returns a page of messages in the state that a group sees. Listing a "
                    "message does not lease it."
                ),
                parameters=Listing,
                answers={200: Response(MessageList, "A page of messages."), 404: QUEUE_NOT_FOUND},
                role=Role.READ,
                reach=queue_if_named,
                compress=True,
                tag="browse",
            ),
            Operation(
                method="GET",
                path=path,
                handler=self.show_message,
                summary="Show a message",
                description=(
                    "Returns one message in the state that a group sees. Showing a message "
                    "does not lease it."
                ),
                parameters=ByKey,
                answers={200: Response(MessageDetail, "The message."), 404: MESSAGE_NOT_FOUND},
                role=Role.READ,
                reach=looked_up,
                forms={"transactionId": SLASHED},
                tag="browse",
            ),
            Operation(
                method="DELETE",
                path=path,
                handler=self.delete_message,
                summary="Delete a message",
                description=(
                    "Deletes a message for one group, or for all. It is not delivered to them "
                    "again. Other messages of the partition continue in order."
                ),
                parameters=ByChangedKey,
                body=NothingMore,
                body_optional=True,
                answers={200: Response(Handled, "The message is deleted."), 404: MESSAGE_NOT_FOUND},
                role=Role.ADMIN,
                reach=looked_up,
                forms={"transactionId": SLASHED},
                tag="browse",
            ),
            Operation(
                method="POST",
                path=f"{path}/retry",
                handler=self.retry_message,
                summary="Redrive a dead letter",
                description=(
                    "Puts a dead letter back into its queue, with attempts counted from zero. "
                    "It is delivered before its partition continues."
                ),
                parameters=ByChangedKey,
                answers={
                    200: Response(Handled, "The message is ready again."),
                    404: Response(Failure, "No dead letter of the group has this transaction id."),
                },
                role=Role.WRITE,
                reach=looked_up,
                forms={"transactionId": SLASHED},
                tag="browse",
            ),
            Operation(
                method="POST",
                path=f"{path}/dlq",
                handler=self.dead_letter_message,
                summary="Dead-letter a message",
                description=(
                    "Makes a message that is ready or in flight a dead letter, for one group "
                    "or for all. Its partition continues behind it."
                ),
                parameters=ByChangedKey,
                answers={
                    200: Response(Handled, "The message is a dead letter."),
                    404: Response(
                        Failure,
                        "No ready or in-flight message of the group has this transaction id.",
                    ),
                },
                role=Role.WRITE,
                reach=looked_up,
                forms={"transactionId": SLASHED},
                tag="browse",
            ),
        )


def show_retries(message: StoredMessage) -> int:
    """Return the number of retries: the attempts without the first."""
    return max(message.attempt - 1, 0)


async def choose_queues(call: Call[Any, Any], wanted: Filters) -> list[Queue]:
    if wanted.queue is not None:
        return [await call.broker.queues.get(wanted.queue)]
    queues = await list_stream_queues(call.broker, namespace=wanted.ns, task=wanted.task)
    return [queue for queue in queues if call.identity.may_use(queue.name)]


@named_or_filtered
async def queue_if_named(call: Call[Any, Any], /) -> Sequence[str]:
    return () if call.parameters.queue is None else (call.parameters.queue,)


async def _find(call: Call[Any, Any], group: str) -> StoredMessage | None:
    wanted = call.parameters
    lane = await find_lane(call, wanted.partition_id)
    if lane is None:
        return None
    key = wanted.transaction_id
    return await call.broker.streams.find_message(
        lane, key, address=read_address(key, lane), group=group
    )


def _show_state(message: StoredMessage) -> GroupState:
    status = Status(message.status)
    return GroupState(
        name=show_group(message.group),
        consumed=status not in (Status.QUEUED, Status.PROCESSING),
        status=NAMES[status],
        lease_expires_at=message.locked_until,
    )


async def _move(call: Call[Any, Any], sources: Sequence[Status], target: Any) -> Answer:
    """Move the message in the group that is named, else in every group where it can move."""
    wanted = call.parameters
    lane = await find_lane(call, wanted.partition_id)
    places = await call.broker.messages.name_lanes([lane] if lane is not None else [])
    moved: list[str] = []
    for queue, _ in places.values():
        if wanted.consumer_group is not None:
            names = [read_group(wanted.consumer_group)]
        else:
            names = [group.name for group in await call.broker.groups.list_all(queue)]
        for name in names:
            message = await _find(call, name)
            if message is None or Status(message.status) not in sources:
                continue
            source = Status(message.status)
            if await call.broker.messages.move(
                queue, [message.id], source=source, target=target, group=name, reason="by hand"
            ):
                moved.append(show_group(name))
    if not moved:
        raise _missing(call)
    return answer_json(
        200, Handled(success=True, transaction_id=wanted.transaction_id, consumer_groups=moved)
    )


def _missing(call: Call[Any, Any]) -> NotFound:
    wanted = call.parameters
    return NotFound(
        f'partition {wanted.partition_id} has no message "{wanted.transaction_id}" in a state that this operation takes'
    )
