"""The routes about dead letters: list, hand out again, purge."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Raw

from laneway.domain.messages import Status
from laneway.server.access import named
from laneway.server.operations import Operation, Role
from laneway.server.queen.deliveries import read_stored_body
from laneway.server.queen.message_browser import (
    Filters,
    choose_queues,
    queue_if_named,
    show_retries,
)
from laneway.server.queen.options import read_stored
from laneway.server.queen.wire import (
    Failure,
    GroupName,
    Limit,
    QueueName,
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
    consumer_group: GroupName | None = msgspec.field(name="consumerGroup", default=None)
    limit: Limit = 100


class OfGroup(msgspec.Struct, kw_only=True):
    """Without a group, of all that read the queue."""

    queue: QueueName
    consumer_group: GroupName | None = msgspec.field(name="consumerGroup", default=None)


class Some(OfGroup, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class DeadLetter(msgspec.Struct, kw_only=True):
    """sealed: it is encrypted and this server has not the key; then data is null."""

    id: str
    message_id: str = msgspec.field(name="messageId")
    partition_id: str = msgspec.field(name="partitionId")
    transaction_id: str = msgspec.field(name="transactionId")
    consumer_group: str = msgspec.field(name="consumerGroup")
    error_message: str | None = msgspec.field(name="errorMessage")
    retry_count: int = msgspec.field(name="retryCount")
    original_created_at: datetime = msgspec.field(name="originalCreatedAt")
    created_at: datetime = msgspec.field(name="createdAt")
    queue: str
    queue_name: str = msgspec.field(name="queueName")
    partition: str
    partition_name: str = msgspec.field(name="partitionName")
    namespace: str | None
    task: str | None
    trace_id: str | None = msgspec.field(name="traceId")
    producer_sub: str | None = msgspec.field(name="producerSub")
    data: Raw
    sealed: bool


class Pagination(msgspec.Struct, kw_only=True):
    limit: int
    offset: int
    total: int
    has_more: bool = msgspec.field(name="hasMore")


class DeadLetters(msgspec.Struct, kw_only=True):
    """total: beyond ten thousand under a filter, so many at least."""

    messages: list[DeadLetter]
    total: int
    pagination: Pagination


class Counted(msgspec.Struct, kw_only=True):
    success: bool
    queue: str
    count: int


class Burying:
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

    async def purge(self, call: Call[OfGroup, None]) -> Answer:
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
            transaction_id=message.key or address,
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
                parameters=Listing,
                answers={200: DeadLetters, 404: Failure},
                role=Role.READ,
                reach=queue_if_named,
                compress=True,
                tag="dead letters",
            ),
            Operation(
                method="POST",
                path="/dlq/retry",
                handler=self.replay,
                summary="Hand dead letters of a queue out again, the oldest first",
                parameters=Some,
                answers={200: Counted, 404: Failure},
                role=Role.WRITE,
                reach=_queue_in_query,
                tag="dead letters",
            ),
            Operation(
                method="DELETE",
                path="/dlq",
                handler=self.purge,
                summary="Delete the dead letters of a queue",
                parameters=OfGroup,
                answers={200: Counted, 404: Failure},
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
