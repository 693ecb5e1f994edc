"""The routes that create, seek and delete consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from laneway.domain.errors import GroupNotFound, NotFound
from laneway.domain.queues import DEFAULT_GROUP
from laneway.server.access import every_queue
from laneway.server.decoder import NothingMore
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.groups import ByGroup
from laneway.server.queen.wire import (
    QUEUE_NOT_FOUND,
    SLASHED,
    START_MODES,
    Failure,
    MomentText,
    PartitionName,
    QueueName,
    queue_in_path,
    read_group,
    read_moment,
    read_start,
    refuse,
    show_group,
)
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from laneway.domain.settings import Place as Target
    from laneway.server.calls import Call


class Deletion(ByGroup, kw_only=True, forbid_unknown_fields=True):
    delete_metadata: Annotated[
        bool,
        Meta(
            description="Whether to forget where the group started. With false, a group of this name "
            "starts there again. Default: true."
        ),
    ] = msgspec.field(name="deleteMetadata", default=True)


class ByGroupAndQueue(ByGroup, kw_only=True, forbid_unknown_fields=True):
    queue: Annotated[
        QueueName, Meta(description="Name of the queue. Percent-encode slashes as `%2F`.")
    ]


class DeletionOfQueue(Deletion, kw_only=True):
    queue: Annotated[
        QueueName, Meta(description="Name of the queue. Percent-encode slashes as `%2F`.")
    ]


class ByPartition(ByGroupAndQueue, kw_only=True):
    partition: Annotated[
        PartitionName, Meta(description="Name of the partition. Percent-encode slashes as `%2F`.")
    ]


class BySoughtGroup(ByGroup, kw_only=True, forbid_unknown_fields=True):
    """The group to seek in all queues."""


class SubscriptionTime(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The time to seek to."""

    subscription_timestamp: Annotated[
        MomentText,
        Meta(
            description="Time to seek to (ISO 8601, UTC unless it names a zone). A time in the future "
            "counts as now."
        ),
    ] = msgspec.field(name="subscriptionTimestamp")


class NewGroup(msgspec.Struct, kw_only=True):
    """Whether a group is ordered or shared, and where it starts."""

    ordered: Annotated[
        bool | None,
        Meta(
            description="true: one consumer per partition, in strict order. false: any number of "
            "consumers. Default: as the queue is."
        ),
    ] = None
    subscription_mode: Annotated[
        MomentText | None, Meta(description=f"Where the group starts. {START_MODES}")
    ] = msgspec.field(name="subscriptionMode", default=None)
    subscription_from: Annotated[
        MomentText | None,
        Meta(
            description="Time at which the group starts (ISO 8601), or `now`. Takes precedence over "
            "`subscriptionMode`."
        ),
    ] = msgspec.field(name="subscriptionFrom", default=None)


class SeekTarget(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to seek to."""

    to_end: Annotated[
        bool,
        Meta(
            description="Whether to seek behind the newest message. Give either this or `timestamp`."
        ),
    ] = msgspec.field(name="toEnd", default=False)
    timestamp: Annotated[
        MomentText | None,
        Meta(description="Time to seek to (ISO 8601, UTC unless it names a zone)."),
    ] = None


class Done(msgspec.Struct, kw_only=True):
    """A group was changed."""

    success: Annotated[bool, Meta(description="Always true.")]
    consumer_group: Annotated[str, Meta(description="Name of the group.")] = msgspec.field(
        name="consumerGroup"
    )
    queues: Annotated[list[str], Meta(description="Queues in which it was changed.")]


class Sought(msgspec.Struct, kw_only=True):
    """A group has a new position."""

    success: Annotated[bool, Meta(description="Always true.")]
    consumer_group: Annotated[str, Meta(description="Name of the group.")] = msgspec.field(
        name="consumerGroup"
    )
    queue_name: Annotated[str, Meta(description="Name of the queue.")] = msgspec.field(
        name="queueName"
    )
    partitions: Annotated[int, Meta(description="How many partitions have a new position.")]


class Made(msgspec.Struct, kw_only=True):
    """A group exists."""

    consumer_group: Annotated[str, Meta(description="Name of the group.")] = msgspec.field(
        name="consumerGroup"
    )
    queue_name: Annotated[str, Meta(description="Name of the queue.")] = msgspec.field(
        name="queueName"
    )
    ordered: Annotated[bool, Meta(description="Whether the group is ordered, rather than shared.")]


async def create_group(call: Call[ByGroupAndQueue, NewGroup]) -> Answer:
    name = read_group(call.parameters.group)
    body = call.body
    start = read_start(body.subscription_mode, body.subscription_from)
    group = await call.broker.subscriptions.subscribe(
        call.parameters.queue, name, start=start, ordered=body.ordered
    )
    return answer_json(
        201,
        Made(
            consumer_group=show_group(name),
            queue_name=call.parameters.queue,
            ordered=group.ordered,
        ),
    )


async def delete_group(call: Call[Deletion, NothingMore]) -> Answer:
    name = _read_deletable(call.parameters.group)
    queues = [count.queue for count in await call.broker.statistics.counts() if count.group == name]
    if not queues:
        raise GroupNotFound(group=call.parameters.group)
    for queue in queues:
        await call.broker.groups.delete(queue, name)
    if call.parameters.delete_metadata:
        await call.broker.subscriptions.forget(name)
    return answer_json(200, Done(success=True, consumer_group=show_group(name), queues=queues))


async def delete_group_of_queue(call: Call[DeletionOfQueue, NothingMore]) -> Answer:
    name, queue = _read_deletable(call.parameters.group), call.parameters.queue
    found = await call.broker.queues.find(queue)
    await call.broker.groups.delete(queue, name)
    if call.parameters.delete_metadata:
        await call.broker.subscriptions.forget(name, queue_id=found.queue_id)
    return answer_json(200, Done(success=True, consumer_group=show_group(name), queues=[queue]))


async def set_subscription(call: Call[BySoughtGroup, SubscriptionTime]) -> Answer:
    name = read_group(call.parameters.group)
    since = read_moment(call.body.subscription_timestamp, "subscriptionTimestamp")
    queues = await call.broker.subscriptions.reposition(name, since)
    return answer_json(200, Done(success=True, consumer_group=show_group(name), queues=queues))


async def seek(call: Call[Any, SeekTarget]) -> Answer:
    wanted = call.parameters
    name = read_group(wanted.group)
    body = call.body
    if body.to_end == (body.timestamp is not None):
        raise refuse("toEnd", "give either toEnd: true or a timestamp")
    target: Target = "latest"
    if body.timestamp is not None:
        target = read_moment(body.timestamp, "timestamp")
    partition = getattr(wanted, "partition", None)
    moved = await call.broker.groups.seek(wanted.queue, target, group=name, partition=partition)
    if partition is not None and not moved:
        raise NotFound(
            f'partition "{partition}" of queue "{wanted.queue}" not found: list the queue\'s partitions'
        )
    return answer_json(
        200,
        Sought(
            success=True,
            consumer_group=show_group(name),
            queue_name=wanted.queue,
            partitions=moved,
        ),
    )


def _read_deletable(name: str) -> str:
    """Return a group's name; refuse the queue's own group, which cannot be deleted."""
    group = read_group(name)
    if group == DEFAULT_GROUP:
        raise refuse(
            "group",
            f'"{name}" is the queue\'s own group and cannot be deleted: delete the queue instead',
        )
    return group


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        method="DELETE",
        path="/consumer-groups/{group}",
        handler=delete_group,
        summary="Delete a consumer group in all queues",
        description=(
            "Deletes the group with its positions, leases and dead letters. Messages stay for "
            "other groups. The queue's own group cannot be deleted (400): delete the queue "
            "instead. It takes an API key that is not limited to some queues."
        ),
        parameters=Deletion,
        body=NothingMore,
        body_optional=True,
        answers={
            200: Response(Done, "The group is deleted."),
            404: Response(Failure, "No queue has this group."),
        },
        role=Role.ADMIN,
        reach=every_queue,
        tag="groups",
    ),
    Operation(
        method="POST",
        path="/consumer-groups/{group}/subscription",
        handler=set_subscription,
        summary="Seek a group to a time, in all queues",
        description=(
            "Moves the group to a time in every queue that it reads. It also starts there in "
            "queues that it reads later. Leases of the group end. It takes an API key that is "
            "not limited to some queues."
        ),
        parameters=BySoughtGroup,
        body=SubscriptionTime,
        example={"subscriptionTimestamp": "2026-01-31T12:00:00Z"},
        answers={200: Response(Done, "The group has its new position.")},
        role=Role.ADMIN,
        reach=every_queue,
        tag="groups",
    ),
    Operation(
        method="POST",
        path="/consumer-groups/{group}/queues/{queue}",
        handler=create_group,
        summary="Create a consumer group",
        description=(
            "Creates a group before its first pop, ordered or shared; that cannot be changed "
            "later. A pop creates a missing group too, with the queue's default. If the group "
            "exists, nothing changes."
        ),
        parameters=ByGroupAndQueue,
        body=NewGroup,
        example={"ordered": False},
        body_optional=True,
        answers={
            201: Response(Made, "The group exists. `ordered` tells its kind."),
            404: QUEUE_NOT_FOUND,
        },
        role=Role.ADMIN,
        reach=queue_in_path,
        tag="groups",
    ),
    Operation(
        method="DELETE",
        path="/consumer-groups/{group}/queues/{queue}",
        handler=delete_group_of_queue,
        summary="Delete a consumer group in one queue",
        description=(
            "Deletes the group in this queue with its positions, leases and dead letters. "
            "Messages stay for other groups. The queue's own group cannot be deleted (400): "
            "delete the queue instead."
        ),
        parameters=DeletionOfQueue,
        body=NothingMore,
        body_optional=True,
        answers={
            200: Response(Done, "The group is deleted."),
            404: Response(Failure, "The queue does not exist, or has no such group."),
        },
        role=Role.ADMIN,
        reach=queue_in_path,
        tag="groups",
    ),
    Operation(
        method="POST",
        path="/consumer-groups/{group}/queues/{queue}/seek",
        handler=seek,
        summary="Seek a group in a queue",
        description=(
            "Moves the group to a time, or behind the newest message, in all partitions of "
            "one queue. Leases of the group in the queue end. Messages before the new "
            "position are not delivered; messages after it are, even if they were acked "
            "before."
        ),
        parameters=ByGroupAndQueue,
        body=SeekTarget,
        example={"timestamp": "2026-01-31T12:00:00Z"},
        answers={
            200: Response(Sought, "The group has its new position."),
            404: Response(Failure, "The queue does not exist, or has no such group."),
        },
        role=Role.ADMIN,
        reach=queue_in_path,
        tag="groups",
    ),
    Operation(
        method="POST",
        path="/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek",
        handler=seek,
        summary="Seek a group in one partition",
        description=(
            "Moves the group to a time, or behind the newest message, in one partition. The "
            "group's lease on the partition ends. Messages before the new position are not "
            "delivered; messages after it are, even if they were acked before."
        ),
        parameters=ByPartition,
        body=SeekTarget,
        example={"toEnd": True},
        answers={
            200: Response(Sought, "The group has its new position."),
            404: Response(Failure, "The queue does not exist, or has no such group or partition."),
        },
        role=Role.ADMIN,
        reach=queue_in_path,
        forms={"partition": SLASHED},
        tag="groups",
    ),
)
