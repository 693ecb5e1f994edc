"""The routes that show queues and partitions, and remove queues."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from laneway.domain.errors import QueueNotFound
from laneway.domain.queues import DEFAULT_GROUP
from laneway.server.access import filtered, named_or_filtered
from laneway.server.operations import Operation, Role
from laneway.server.queen.groups import PartitionLag, show_place
from laneway.server.queen.options import read_stored, show_options
from laneway.server.queen.wire import (
    SLASHED,
    ByQueue,
    Failure,
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
    limit: Limit = 100
    offset: Offset = 0
    search: str | None = None
    namespace: str | None = None
    task: str | None = None


class ByQueueAndGroup(ByQueue, kw_only=True):
    group: GroupName | None = None


class OfQueue(msgspec.Struct, kw_only=True):
    queue: QueueName | None = None
    limit: Limit = 100


class Totals(msgspec.Struct, kw_only=True):
    """Of the queue's own group."""

    total: int
    pending: int
    processing: int
    completed: int
    dead_letter: int = msgspec.field(name="deadLetter")


class QueueShown(msgspec.Struct, kw_only=True):
    id: str
    name: str
    namespace: str | None
    task: str | None
    created_at: datetime = msgspec.field(name="createdAt")
    partitions: int
    consumer_groups: list[str] = msgspec.field(name="consumerGroups")
    messages: Totals
    options: dict[str, Any]


class QueueList(msgspec.Struct, kw_only=True):
    queues: list[QueueShown]
    total: int
    limit: int
    offset: int


class PartitionOfGroup(PartitionLag, kw_only=True):
    consumer_group: str = msgspec.field(name="consumerGroup")
    queue_name: str = msgspec.field(name="queueName")


class QueueDetail(QueueShown, kw_only=True):
    partition_list: list[PartitionOfGroup] = msgspec.field(name="partitionList")


class PartitionList(msgspec.Struct, kw_only=True):
    partitions: list[PartitionOfGroup]


class Pending(msgspec.Struct, kw_only=True):
    partition: str
    pending: int


class Depth(msgspec.Struct, kw_only=True):
    """pending, in hand or not: of the group or, where none is named, of the one furthest behind."""

    queue: str
    group: str | None
    pending: int
    partitions_pending: int = msgspec.field(name="partitionsPending")
    conflation: bool
    effective_pending: int = msgspec.field(name="effectivePending")
    partitions: list[Pending]


class Deleted(msgspec.Struct, kw_only=True):
    deleted: bool
    existed: bool
    queue: str


class Cleared(msgspec.Struct, kw_only=True):
    cleared: bool
    queue: str
    count: int


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
    partitions = [Pending(partition=key, pending=value) for key, value in worst.items() if value]
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


async def delete_queue(call: Call[ByQueue, None]) -> Answer:
    name = call.parameters.queue
    try:
        await call.broker.queues.delete(name, force=True)
    except QueueNotFound:
        return answer_json(200, Deleted(deleted=False, existed=False, queue=name))
    return answer_json(200, Deleted(deleted=True, existed=True, queue=name))


async def clear_queue(call: Call[ByQueue, None]) -> Answer:
    """Take every message from every group; what is pushed meanwhile stays."""
    name = call.parameters.queue
    count = 0
    for group in await call.broker.groups.list_all(name):
        count = max(count, await call.broker.messages.purge(name, group=group.name))
    return answer_json(200, Cleared(cleared=True, queue=name, count=count))


async def collect_queues(call: Call[Any, Any]) -> list[QueueShown]:
    """Return the queues that the caller may see, with their numbers."""
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
        parameters=Listing,
        answers={200: QueueList},
        role=Role.READ,
        reach=filtered,
        compress=True,
        tag="resources",
    ),
    Operation(
        method="GET",
        path="/resources/queues/{queue}/depth",
        handler=show_depth,
        summary="Show what waits in each partition",
        parameters=ByQueueAndGroup,
        answers={200: Depth, 404: Failure},
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
        parameters=ByQueue,
        answers={200: QueueDetail, 404: Failure},
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
        summary="Delete a queue with all it has",
        parameters=ByQueue,
        answers={200: Deleted},
        role=Role.ADMIN,
        reach=queue_in_path,
        forms={"queue": SLASHED},
        tag="resources",
    ),
    Operation(
        method="DELETE",
        path="/queues/{queue}/clear",
        handler=clear_queue,
        summary="Take all messages from a queue",
        parameters=ByQueue,
        answers={200: Cleared, 404: Failure},
        role=Role.ADMIN,
        reach=queue_in_path,
        forms={"queue": SLASHED},
        tag="resources",
    ),
    Operation(
        method="GET",
        path="/resources/partitions",
        handler=list_partitions,
        summary="List partitions as the queue's own group sees them",
        parameters=OfQueue,
        answers={200: PartitionList, 404: Failure},
        role=Role.READ,
        reach=_queue_if_named,
        compress=True,
        tag="resources",
    ),
)
