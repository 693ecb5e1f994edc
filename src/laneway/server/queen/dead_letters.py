"""The routes for dead letters: list, redrive, delete."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Raw

from laneway.domain.messages import Status
from laneway.server.access import named
from laneway.server.decoder import NothingMore
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.deliveries import read_stored_body
from laneway.server.queen.message_browser import (
    Filters,
    choose_queues,
    queue_if_named,
    show_retries,
)
from laneway.server.queen.options import read_stored
from laneway.server.queen.wire import (
    QUEUE_NOT_FOUND,
    Failure,
    GroupName,
    IsSealed,
    Limit,
    Payload,
    ProducerSub,
    QueueName,
    ShownTransactionId,
    TraceId,
    read_group,
    show_address,
    show_group,
)
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.messages import StoredMessage
    from laneway.domain.queues import Queue
    from laneway.server.calls import Call
    from laneway.server.queen.encryption import Vault


class Listing(Filters, kw_only=True):
    consumer_group: Annotated[
        GroupName | None, Meta(description="Only dead letters of this group. Default: all groups.")
    ] = msgspec.field(name="consumerGroup", default=None)
    limit: Annotated[Limit, Meta(description="Dead letters per page, 1 to 1000. Default: 100.")] = (
        100
    )


class OfGroup(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The dead letters of a queue."""

    queue: Annotated[QueueName, Meta(description="Name of the queue.")]
    consumer_group: Annotated[
        GroupName | None, Meta(description="Only dead letters of this group. Default: all groups.")
    ] = msgspec.field(name="consumerGroup", default=None)


class Some(OfGroup, kw_only=True):
    limit: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="How many dead letters to redrive at most, 1 to 1,000,000. Default: all."),
    ] = None


class DeadLetter(msgspec.Struct, kw_only=True):
    """A dead letter of a group."""

    id: Annotated[str, Meta(description="Id of the dead letter: the message's id and the group.")]
    message_id: Annotated[str, Meta(description="Id of the message.")] = msgspec.field(
        name="messageId"
    )
    partition_id: Annotated[str, Meta(description="Id of its partition.")] = msgspec.field(
        name="partitionId"
    )
    transaction_id: ShownTransactionId = msgspec.field(name="transactionId")
    consumer_group: Annotated[str, Meta(description="Group whose dead letter it is.")] = (
        msgspec.field(name="consumerGroup")
    )
    error_message: Annotated[str | None, Meta(description="Why the last attempt failed.")] = (
        msgspec.field(name="errorMessage")
    )
    retry_count: Annotated[int, Meta(description="Deliveries after the first.")] = msgspec.field(
        name="retryCount"
    )
    original_created_at: Annotated[datetime, Meta(description="When the message was pushed.")] = (
        msgspec.field(name="originalCreatedAt")
    )
    created_at: Annotated[datetime, Meta(description="The same as `originalCreatedAt`.")] = (
        msgspec.field(name="createdAt")
    )
    queue: Annotated[str, Meta(description="Name of its queue.")]
    queue_name: Annotated[str, Meta(description="The same as `queue`.")] = msgspec.field(
        name="queueName"
    )
    partition: Annotated[str, Meta(description="Name of its partition.")]
    partition_name: Annotated[str, Meta(description="The same as `partition`.")] = msgspec.field(
        name="partitionName"
    )
    namespace: Annotated[str | None, Meta(description="Namespace of the queue.")]
    task: Annotated[str | None, Meta(description="Task of the queue.")]
    trace_id: TraceId = msgspec.field(name="traceId")
    producer_sub: ProducerSub = msgspec.field(name="producerSub")
    data: Payload
    sealed: IsSealed


class Pagination(msgspec.Struct, kw_only=True):
    """Where a page is in its list."""

    limit: Annotated[int, Meta(description="Dead letters per page.")]
    offset: Annotated[int, Meta(description="Dead letters skipped.")]
    total: Annotated[
        int,
        Meta(description="How many dead letters match. With filters, at most 10,000 are counted."),
    ]
    has_more: Annotated[bool, Meta(description="Whether there are more behind this page.")] = (
        msgspec.field(name="hasMore")
    )


class DeadLetters(msgspec.Struct, kw_only=True):
    """A page of dead letters."""

    messages: Annotated[list[DeadLetter], Meta(description="The dead letters, newest first.")]
    total: Annotated[
        int,
        Meta(description="How many dead letters match. With filters, at most 10,000 are counted."),
    ]
    pagination: Annotated[Pagination, Meta(description="Where this page is in the list.")]


class Counted(msgspec.Struct, kw_only=True):
    """How many dead letters were changed."""

    success: Annotated[bool, Meta(description="Always true.")]
    queue: Annotated[str, Meta(description="Name of the queue.")]
    count: Annotated[int, Meta(description="How many dead letters were redriven or deleted.")]


class DeadLetterRoutes:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def list_dead(self, call: Call[Listing, None]) -> Answer:
        wanted = call.parameters
        queues = {
            queue.name: queue
            for queue in await choose_queues(call, wanted)
            if read_stored(queue).get("deadLetterQueue", True)
        }
        chosen = [
            group.group_id
            for queue in queues.values()
            for group in queue.groups.values()
            if wanted.consumer_group is None or group.name == read_group(wanted.consumer_group)
        ]
        filters = wanted.read()
        found = await call.broker.streams.list_messages(
            chosen, Status.DEAD, filters, limit=wanted.limit, offset=wanted.offset
        )
        total = await call.broker.streams.count_messages(chosen, Status.DEAD, filters)
        total = max(total, wanted.offset + len(found) if found else 0)
        return answer_json(
            200,
            DeadLetters(
                messages=[self._show(message, queues[message.queue]) for message in found],
                total=total,
                pagination=Pagination(
                    limit=wanted.limit,
                    offset=wanted.offset,
                    total=total,
                    has_more=wanted.offset + len(found) < total,
                ),
            ),
        )

    async def replay(self, call: Call[Some, None]) -> Answer:
        wanted = call.parameters
        count = 0
        for group in await _groups(call, wanted):
            left = None if wanted.limit is None else wanted.limit - count
            if left is None or left > 0:
                count += await call.broker.dead_letters.redrive(
                    wanted.queue, limit=left, group=group
                )
        return answer_json(200, Counted(success=True, queue=wanted.queue, count=count))

    async def purge(self, call: Call[OfGroup, NothingMore]) -> Answer:
        wanted = call.parameters
        count = 0
        for group in await _groups(call, wanted):
            count += await call.broker.messages.purge(wanted.queue, status=Status.DEAD, group=group)
        return answer_json(200, Counted(success=True, queue=wanted.queue, count=count))

    def _show(self, message: StoredMessage, queue: Queue) -> DeadLetter:
        headers, body = read_stored_body(message, self._vault)
        address = show_address(message.segment, message.lane, message.seq)
        stored = read_stored(queue)
        return DeadLetter(
            id=f"{address}/{show_group(message.group)}",
            message_id=address,
            partition_id=str(message.lane),
            transaction_id=message.dedup_key or address,
            consumer_group=show_group(message.group),
            error_message=message.error,
            retry_count=show_retries(message),
            original_created_at=message.created_at,
            created_at=message.created_at,
            queue=message.queue,
            queue_name=message.queue,
            partition=message.partition,
            partition_name=message.partition,
            namespace=stored.get("namespace"),
            task=stored.get("task"),
            trace_id=str(headers.trace_id) if headers.trace_id else None,
            producer_sub=headers.sub,
            data=Raw((body or "null").encode()),
            sealed=body is None,
        )

    @property
    def operations(self) -> tuple[Operation[Any, Any], ...]:
        return (
            Operation(
                method="GET",
                path="/dlq",
                handler=self.list_dead,
                summary="List dead letters, newest first",
                description=(
                    "Returns a page of the dead letters of one queue, or of all that the API "
                    "key may use. Queues that do not keep dead letters are left out."
                ),
                parameters=Listing,
                answers={
                    200: Response(DeadLetters, "A page of dead letters."),
                    404: QUEUE_NOT_FOUND,
                },
                role=Role.READ,
                reach=queue_if_named,
                compress=True,
                tag="dead letters",
            ),
            Operation(
                method="POST",
                path="/dlq/retry",
                handler=self.replay,
                summary="Redrive the dead letters of a queue, oldest first",
                description=(
                    "Puts dead letters back into the queue, with attempts counted from zero. "
                    "They are delivered before their partitions continue."
                ),
                parameters=Some,
                answers={
                    200: Response(Counted, "The dead letters are ready again."),
                    404: Response(Failure, "The queue does not exist, or has no such group."),
                },
                role=Role.WRITE,
                reach=_queue_in_query,
                tag="dead letters",
            ),
            Operation(
                method="DELETE",
                path="/dlq",
                handler=self.purge,
                summary="Delete the dead letters of a queue",
                description=(
                    "Deletes the dead letters of one group, or of all groups that read the "
                    "queue. They cannot be redriven afterwards."
                ),
                parameters=OfGroup,
                body=NothingMore,
                body_optional=True,
                answers={
                    200: Response(Counted, "The dead letters are deleted."),
                    404: Response(Failure, "The queue does not exist, or has no such group."),
                },
                role=Role.ADMIN,
                reach=_queue_in_query,
                tag="dead letters",
            ),
        )


async def _groups(call: Call[Any, Any], wanted: OfGroup) -> list[str]:
    if wanted.consumer_group is not None:
        return [read_group(wanted.consumer_group)]
    return [group.name for group in await call.broker.groups.list_all(wanted.queue)]


@named
async def _queue_in_query(call: Call[Any, Any], /) -> Sequence[str]:
    return (call.parameters.queue,)
