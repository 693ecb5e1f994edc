"""The routes that show messages by their states, and handle single ones by hand."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Raw

from laneway.domain.errors import NotFound
from laneway.domain.listings import MessageFilter
from laneway.domain.messages import Status, StoredMessage
from laneway.server.access import looked_up, named_or_filtered
from laneway.server.operations import Operation, Role
from laneway.server.queen.deliveries import read_stored_body
from laneway.server.queen.options import read_stored
from laneway.server.queen.registry import list_stream_queues
from laneway.server.queen.wire import (
    SLASHED,
    Failure,
    GroupName,
    KeyText,
    LaneText,
    Limit,
    MomentText,
    Offset,
    PartitionName,
    QueueName,
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
    """Without a queue, of all that the caller may see."""

    queue: QueueName | None = None
    partition: PartitionName | None = None
    ns: str | None = None
    task: str | None = None
    since: MomentText | None = msgspec.field(name="from", default=None)
    until: MomentText | None = msgspec.field(name="to", default=None)
    offset: Offset = 0

    def read(self) -> MessageFilter:
        return MessageFilter(
            partitions=None if self.partition is None else [self.partition],
            since=None if self.since is None else read_moment(self.since, "from"),
            until=None if self.until is None else read_moment(self.until, "to"),
        )


class Listing(Filters, kw_only=True):
    status: StatusName | None = None
    consumer_group: GroupName | None = msgspec.field(name="consumerGroup", default=None)
    limit: Limit = 200


class ByKey(msgspec.Struct, kw_only=True):
    """A message; consumerGroup: as which group it is seen, all of them where it is to change."""

    partition_id: LaneText = msgspec.field(name="partitionId")
    transaction_id: KeyText = msgspec.field(name="transactionId")
    consumer_group: GroupName | None = msgspec.field(name="consumerGroup", default=None)


class MessageShown(msgspec.Struct, kw_only=True):
    """sealed: it is encrypted and this server has not the key; then data is null."""

    id: str
    transaction_id: str = msgspec.field(name="transactionId")
    partition_id: str = msgspec.field(name="partitionId")
    queue: str
    partition: str
    namespace: str | None
    task: str | None
    status: str
    trace_id: str | None = msgspec.field(name="traceId")
    producer_sub: str | None = msgspec.field(name="producerSub")
    data: Raw
    sealed: bool
    error_message: str | None = msgspec.field(name="errorMessage")
    retry_count: int = msgspec.field(name="retryCount")
    consumer_group: str = msgspec.field(name="consumerGroup")
    lease_expires_at: datetime | None = msgspec.field(name="leaseExpiresAt")
    created_at: datetime = msgspec.field(name="createdAt")
    completed_at: datetime | None = msgspec.field(name="completedAt")


class MessageList(msgspec.Struct, kw_only=True):
    messages: list[MessageShown]
    limit: int
    offset: int


class Handled(msgspec.Struct, kw_only=True):
    success: bool
    transaction_id: str = msgspec.field(name="transactionId")
    consumer_groups: list[str] = msgspec.field(name="consumerGroups")


class Browsing:
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
        # One that moved on while the states were read may have been found twice.
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
        return answer_json(200, self.show(message, await call.broker.queues.find(message.queue)))

    async def delete_message(self, call: Call[ByKey, None]) -> Answer:
        """Take a message from a group, or from all."""
        return await _move(call, (*NAMES,), "deleted")

    async def retry_message(self, call: Call[ByKey, None]) -> Answer:
        """Hand a dead letter out again, its attempts from zero."""
        return await _move(call, (Status.DEAD,), Status.QUEUED)

    async def bury_message(self, call: Call[ByKey, None]) -> Answer:
        return await _move(call, (Status.QUEUED, Status.PROCESSING), Status.DEAD)

    def show(self, message: StoredMessage, queue: Queue | None) -> MessageShown:
        headers, body = read_stored_body(message, self._vault)
        stored = read_stored(queue) if queue is not None else {}
        address = show_address(message.segment, message.lane, message.seq)
        status = Status(message.status)
        return MessageShown(
            id=address,
            transaction_id=message.key or address,
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
            lease_expires_at=message.until,
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
                parameters=Listing,
                answers={200: MessageList, 404: Failure},
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
                parameters=ByKey,
                answers={200: MessageShown, 404: Failure},
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
                parameters=ByKey,
                answers={200: Handled, 404: Failure},
                role=Role.ADMIN,
                reach=looked_up,
                forms={"transactionId": SLASHED},
                tag="browse",
            ),
            Operation(
                method="POST",
                path=f"{path}/retry",
                handler=self.retry_message,
                summary="Hand a dead letter out again",
                parameters=ByKey,
                answers={200: Handled, 404: Failure},
                role=Role.WRITE,
                reach=looked_up,
                forms={"transactionId": SLASHED},
                tag="browse",
            ),
            Operation(
                method="POST",
                path=f"{path}/dlq",
                handler=self.bury_message,
                summary="Make a message a dead letter",
                parameters=ByKey,
                answers={200: Handled, 404: Failure},
                role=Role.WRITE,
                reach=looked_up,
                forms={"transactionId": SLASHED},
                tag="browse",
            ),
        )


def show_retries(message: StoredMessage) -> int:
    """Return how often it was tried again: a dead letter's attempts include the first."""
    return max(message.attempt - 1, 0)


async def choose_queues(call: Call[Any, Any], wanted: Filters) -> list[Queue]:
    if wanted.queue is not None:
        return [await call.broker.queues.get(wanted.queue)]
    queues = await list_stream_queues(call.broker, namespace=wanted.ns, task=wanted.task)
    return [queue for queue in queues if call.identity.may_use(queue.name)]


@named_or_filtered
async def queue_if_named(call: Call[Any, Any], /) -> Sequence[str]:
    return () if call.parameters.queue is None else (call.parameters.queue,)


async def _find(call: Call[ByKey, None], group: str) -> StoredMessage | None:
    wanted = call.parameters
    lane = await find_lane(call, wanted.partition_id)
    if lane is None:
        return None
    key = wanted.transaction_id
    return await call.broker.streams.find_message(
        lane, key, address=read_address(key, lane), group=group
    )


async def _move(call: Call[ByKey, None], sources: Sequence[Status], target: Any) -> Answer:
    """Move the message in the group named, else in every group in which it can be."""
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


def _missing(call: Call[ByKey, None]) -> NotFound:
    wanted = call.parameters
    return NotFound(
        f'partition {wanted.partition_id} has no message "{wanted.transaction_id}" in such a state'
    )
