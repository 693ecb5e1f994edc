"""The routes that show queues and partitions, and delete queues."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from laneway.domain.errors import QueueNotFound
from laneway.domain.queues import DEFAULT_GROUP
from laneway.server.access import filtered, named_or_filtered
from laneway.server.decoder import NothingMore
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.groups import PartitionLag, show_place
from laneway.server.queen.options import read_stored, show_options
from laneway.server.queen.wire import (
    QUEUE_NOT_FOUND,
    SLASHED,
    ByQueue,
    GroupName,
    Limit,
    Offset,
    QueueName,
    queue_in_path,
    read_group,
    show_group,
)
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laneway.domain.queues import Counts, Queue
    from laneway.server.calls import Call


class Listing(msgspec.Struct, kw_only=True):
    limit: Annotated[Limit, Meta(description="Queues per page, 1 to 1000. Default: 100.")] = 100
    offset: Annotated[Offset, Meta(description="Queues to skip. Default: 0.")] = 0
    search: Annotated[
        str | None, Meta(description="Only queues with this text in their name, in any case.")
    ] = None
    namespace: Annotated[str | None, Meta(description="Only queues of this namespace.")] = None
    task: Annotated[str | None, Meta(description="Only queues of this task.")] = None


class ByDeletedQueue(ByQueue, kw_only=True, forbid_unknown_fields=True):
    """The queue to delete or clear."""


class ByQueueAndGroup(ByQueue, kw_only=True):
    group: Annotated[
        GroupName | None,
        Meta(
            description="Consumer group to count for. Default: in each partition, the group that is "
            "furthest behind."
        ),
    ] = None


class OfQueue(msgspec.Struct, kw_only=True):
    queue: Annotated[
        QueueName | None,
        Meta(
            description="Only partitions of this queue. Default: all queues that the API key may use."
        ),
    ] = None
    limit: Annotated[
        Limit, Meta(description="How many partitions to return at most, 1 to 1000. Default: 100.")
    ] = 100


class Totals(msgspec.Struct, kw_only=True):
    """Messages by state, in the queue's own group."""

    total: Annotated[int, Meta(description="All messages that are kept.")]
    pending: Annotated[int, Meta(description="Messages that are ready or delayed.")]
    processing: Annotated[int, Meta(description="Messages in flight.")]
    completed: Annotated[int, Meta(description="Messages that were acked and are still kept.")]
    dead_letter: Annotated[int, Meta(description="Dead letters.")] = msgspec.field(
        name="deadLetter"
    )


class QueueShown(msgspec.Struct, kw_only=True):
    """A queue with its options and counts."""

    id: Annotated[str, Meta(description="Id of the queue.")]
    name: Annotated[str, Meta(description="Name of the queue.")]
    namespace: Annotated[str | None, Meta(description="Namespace of the queue.")]
    task: Annotated[str | None, Meta(description="Task of the queue.")]
    created_at: Annotated[datetime, Meta(description="When the queue was created.")] = (
        msgspec.field(name="createdAt")
    )
    partitions: Annotated[int, Meta(description="How many partitions the queue has.")]
    consumer_groups: Annotated[list[str], Meta(description="Names of its consumer groups.")] = (
        msgspec.field(name="consumerGroups")
    )
    messages: Annotated[Totals, Meta(description="Messages by state, in the queue's own group.")]
    options: Annotated[dict[str, Any], Meta(description="All options with their values.")]


class QueueList(msgspec.Struct, kw_only=True):
    """A page of queues."""

    queues: Annotated[list[QueueShown], Meta(description="The queues, by name.")]
    total: Annotated[int, Meta(description="How many queues match.")]
    limit: Annotated[int, Meta(description="Queues per page.")]
    offset: Annotated[int, Meta(description="Queues skipped.")]


class PartitionOfGroup(PartitionLag, kw_only=True):
    """A partition, and how far a group is behind in it."""

    consumer_group: Annotated[str, Meta(description="Name of the group.")] = msgspec.field(
        name="consumerGroup"
    )
    queue_name: Annotated[str, Meta(description="Name of the queue.")] = msgspec.field(
        name="queueName"
    )


class QueueDetail(QueueShown, kw_only=True):
    """A queue with its partitions."""

    partition_list: Annotated[
        list[PartitionOfGroup],
        Meta(description="Position of every group in every partition, at most 1000 of them."),
    ] = msgspec.field(name="partitionList")


class PartitionList(msgspec.Struct, kw_only=True):
    """Partitions."""

    partitions: Annotated[list[PartitionOfGroup], Meta(description="The partitions.")]


class PartitionPending(msgspec.Struct, kw_only=True):
    """How many messages of a partition are not finished."""

    partition: Annotated[str, Meta(description="Name of the partition.")]
    pending: Annotated[int, Meta(description="Messages that are not finished, in flight or not.")]


class Depth(msgspec.Struct, kw_only=True):
    """How many messages of a queue are not finished."""

    queue: Annotated[str, Meta(description="Name of the queue.")]
    group: Annotated[
        str | None,
        Meta(
            description="Consumer group that was counted for; null: the group that is furthest behind."
        ),
    ]
    pending: Annotated[int, Meta(description="Messages that are not finished, in flight or not.")]
    partitions_pending: Annotated[
        int, Meta(description="How many partitions have such messages.")
    ] = msgspec.field(name="partitionsPending")
    conflation: Annotated[bool, Meta(description="Always false: conflation is not supported.")]
    effective_pending: Annotated[int, Meta(description="The same as `pending`.")] = msgspec.field(
        name="effectivePending"
    )
    partitions: Annotated[
        list[PartitionPending], Meta(description="The partitions with such messages.")
    ]


class Deleted(msgspec.Struct, kw_only=True):
    """Whether a queue was deleted."""

    deleted: Annotated[bool, Meta(description="Whether the queue was deleted.")]
    existed: Annotated[bool, Meta(description="Whether there was such a queue.")]
    queue: Annotated[str, Meta(description="Name of the queue.")]


class Cleared(msgspec.Struct, kw_only=True):
    """A queue was cleared."""

    cleared: Annotated[bool, Meta(description="Always true.")]
    queue: Annotated[str, Meta(description="Name of the queue.")]
    count: Annotated[
        int, Meta(description="How many messages were removed, of the group that had the most.")
    ]


async def list_queues(call: Call[Listing, None]) -> Answer:
    wanted = call.parameters
    shown = [
        queue
        for queue in await collect_queues(call)
        if (wanted.search is None or wanted.search.lower() in queue.name.lower())
        and wanted.namespace in {None, queue.namespace}
        and wanted.task in {None, queue.task}
    ]
    page = shown[wanted.offset : wanted.offset + wanted.limit]
    return answer_json(
        200, QueueList(queues=page, total=len(shown), limit=wanted.limit, offset=wanted.offset)
    )


async def show_queue(call: Call[ByQueue, None]) -> Answer:
    name = call.parameters.queue
    queue = await call.broker.queues.get(name)
    counts = await _count(call, [queue])
    lanes = await call.broker.streams.count_partitions()
    places = await call.broker.streams.list_positions(name)
    shown = _show(queue, counts, lanes)
    return answer_json(
        200,
        QueueDetail(
            partition_list=[
                _show_partition(name, place.group, show_place(place)) for place in places
            ],
            **msgspec.structs.asdict(shown),
        ),
    )


async def show_depth(call: Call[ByQueueAndGroup, None]) -> Answer:
    name = call.parameters.queue
    group = call.parameters.group
    chosen = None if group is None else read_group(group)
    await call.broker.queues.find(name)
    worst: dict[str, int] = {}
    for place in await call.broker.streams.list_positions(name, group=chosen, limit=100_000):
        depth = place.pending + place.processing
        worst[place.partition] = max(worst.get(place.partition, 0), depth)
    partitions = [
        PartitionPending(partition=key, pending=value) for key, value in worst.items() if value
    ]
    pending = sum(item.pending for item in partitions)
    return answer_json(
        200,
        Depth(
            queue=name,
            group=group,
            pending=pending,
            partitions_pending=len(partitions),
            conflation=False,
            effective_pending=pending,
            partitions=partitions,
        ),
    )


async def list_partitions(call: Call[OfQueue, None]) -> Answer:
    named = call.parameters.queue
    names = [named] if named else [queue.name for queue in await _visible(call)]
    shown: list[PartitionOfGroup] = []
    for name in names:
        left = call.parameters.limit - len(shown)
        if left <= 0:
            break
        places = await call.broker.streams.list_positions(name, group=DEFAULT_GROUP, limit=left)
        shown += [_show_partition(name, place.group, show_place(place)) for place in places]
    return answer_json(200, PartitionList(partitions=shown))


async def delete_queue(call: Call[ByDeletedQueue, NothingMore]) -> Answer:
    name = call.parameters.queue
    try:
        await call.broker.queues.delete(name, force=True)
    except QueueNotFound:
        return answer_json(200, Deleted(deleted=False, existed=False, queue=name))
    return answer_json(200, Deleted(deleted=True, existed=True, queue=name))


async def clear_queue(call: Call[ByDeletedQueue, NothingMore]) -> Answer:
    """Remove all messages from every group; messages pushed meanwhile stay."""
    name = call.parameters.queue
    count = 0
    for group in await call.broker.groups.list_all(name):
        count = max(count, await call.broker.messages.purge(name, group=group.name))
    return answer_json(200, Cleared(cleared=True, queue=name, count=count))


async def collect_queues(call: Call[Any, Any]) -> list[QueueShown]:
    """Return the queues that the caller may see, with their counts."""
    queues = await _visible(call)
    counts = await _count(call, queues)
    lanes = await call.broker.streams.count_partitions()
    return [_show(queue, counts, lanes) for queue in queues]


async def _visible(call: Call[Any, Any]) -> list[Queue]:
    return [
        queue for queue in await call.broker.queues.list_all() if call.identity.may_use(queue.name)
    ]


async def _count(call: Call[Any, Any], queues: Iterable[Queue]) -> dict[int, Counts]:
    groups = [
        queue.groups[DEFAULT_GROUP].group_id for queue in queues if DEFAULT_GROUP in queue.groups
    ]
    return {count.queue_id: count for count in await call.broker.streams.counts(groups)}


def _show(queue: Queue, counts: dict[int, Counts], lanes: dict[int, int]) -> QueueShown:
    stored = read_stored(queue)
    return QueueShown(
        id=str(queue.queue_id),
        name=queue.name,
        namespace=stored.get("namespace"),
        task=stored.get("task"),
        created_at=queue.created_at,
        partitions=lanes.get(queue.queue_id, 0),
        consumer_groups=[show_group(name) for name in queue.groups],
        messages=_show_totals(counts.get(queue.queue_id)),
        options=show_options(queue),
    )


def _show_totals(count: Counts | None) -> Totals:
    if count is None:
        return Totals(total=0, pending=0, processing=0, completed=0, dead_letter=0)
    return Totals(
        total=count.queued + count.processing + count.acknowledged + count.dead,
        pending=count.queued,
        processing=count.processing,
        completed=count.acknowledged,
        dead_letter=count.dead,
    )


def _show_partition(queue: str, group: str, lag: PartitionLag) -> PartitionOfGroup:
    return PartitionOfGroup(
        queue_name=queue, consumer_group=show_group(group), **msgspec.structs.asdict(lag)
    )


@named_or_filtered
async def _queue_if_named(call: Call[Any, Any], /) -> Sequence[str]:
    return () if call.parameters.queue is None else (call.parameters.queue,)


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        method="GET",
        path="/resources/queues",
        handler=list_queues,
        summary="List the queues",
        description=(
            "Returns a page of the queues that the API key may use, with their options and "
            "counts. Counts are computed by subtraction, so they cost the same however many "
            "messages there are."
        ),
        parameters=Listing,
        answers={200: Response(QueueList, "A page of queues.")},
        role=Role.READ,
        reach=filtered,
        compress=True,
        tag="resources",
    ),
    Operation(
        method="GET",
        path="/resources/queues/{queue}/depth",
        handler=show_depth,
        summary="Show how many messages of each partition are not finished",
        description=(
            "Returns the number of messages that a group has not finished, in flight or not, "
            "by partition. Without a group, the group that is furthest behind counts in each "
            "partition."
        ),
        parameters=ByQueueAndGroup,
        answers={200: Response(Depth, "The unfinished messages."), 404: QUEUE_NOT_FOUND},
        role=Role.READ,
        reach=queue_in_path,
        compress=True,
        forms={"queue": SLASHED},
        tag="resources",
    ),
    Operation(
        method="GET",
        path="/resources/queues/{queue}",
        handler=show_queue,
        summary="Show a queue with its partitions",
        description=(
            "Returns a queue with its options, its counts, and the position of every group in "
            "its partitions."
        ),
        parameters=ByQueue,
        answers={200: Response(QueueDetail, "The queue."), 404: QUEUE_NOT_FOUND},
        role=Role.READ,
        reach=queue_in_path,
        compress=True,
        forms={"queue": SLASHED},
        tag="resources",
    ),
    Operation(
        method="DELETE",
        path="/resources/queues/{queue}",
        handler=delete_queue,
        summary="Delete a queue",
        description=(
            "Deletes a queue with its messages, partitions, options and groups, empty or not. "
            "Deleting a queue that does not exist succeeds, with `existed` false."
        ),
        parameters=ByDeletedQueue,
        body=NothingMore,
        body_optional=True,
        answers={200: Response(Deleted, "The queue does not exist any more.")},
        role=Role.ADMIN,
        reach=queue_in_path,
        forms={"queue": SLASHED},
        tag="resources",
    ),
    Operation(
        method="DELETE",
        path="/queues/{queue}/clear",
        handler=clear_queue,
        summary="Remove all messages from a queue",
        description=(
            "Removes every message from every group and keeps the queue, its options and its "
            "groups. Messages pushed meanwhile stay."
        ),
        parameters=ByDeletedQueue,
        body=NothingMore,
        body_optional=True,
        answers={200: Response(Cleared, "The messages are removed."), 404: QUEUE_NOT_FOUND},
        role=Role.ADMIN,
        reach=queue_in_path,
        forms={"queue": SLASHED},
        tag="resources",
    ),
    Operation(
        method="GET",
        path="/resources/partitions",
        handler=list_partitions,
        summary="List partitions",
        description=(
            "Returns partitions of one queue, or of all that the API key may use, with the "
            "position of the queue's own group in each."
        ),
        parameters=OfQueue,
        answers={200: Response(PartitionList, "The partitions."), 404: QUEUE_NOT_FOUND},
        role=Role.READ,
        reach=_queue_if_named,
        compress=True,
        tag="resources",
    ),
)
