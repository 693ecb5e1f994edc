"""The routes that make, move and delete consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from laneway.domain.errors import GroupNotFound, NotFound
from laneway.domain.queues import DEFAULT_GROUP
from laneway.server.access import every_queue
from laneway.server.operations import Operation, Role
from laneway.server.queen.groups import ByGroup
from laneway.server.queen.registry import choose_start
from laneway.server.queen.wire import (
    SLASHED,
    Failure,
    MomentText,
    PartitionName,
    QueueName,
    queue_in_path,
    read_group,
    read_moment,
    refuse,
    show_group,
)
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from laneway.domain.settings import Place as Target
    from laneway.server.calls import Call


class Deletion(ByGroup, kw_only=True):
    delete_metadata: bool = msgspec.field(name="deleteMetadata", default=True)


class ByGroupAndQueue(ByGroup, kw_only=True):
    queue: QueueName


class DeletionOfQueue(Deletion, kw_only=True):
    queue: QueueName


class ByPartition(ByGroupAndQueue, kw_only=True):
    partition: PartitionName


class Subscribing(msgspec.Struct, kw_only=True):
    subscription_timestamp: MomentText = msgspec.field(name="subscriptionTimestamp")


class Making(msgspec.Struct, kw_only=True):
    """ordered: one holder per partition in strict order, or workers that share them freely."""

    ordered: bool | None = None
    subscription_mode: Literal["all", "new", "new-only"] | None = msgspec.field(
        name="subscriptionMode", default=None
    )
    subscription_from: MomentText | None = msgspec.field(name="subscriptionFrom", default=None)


class Seeking(msgspec.Struct, kw_only=True):
    to_end: bool = msgspec.field(name="toEnd", default=False)
    timestamp: MomentText | None = None


class Done(msgspec.Struct, kw_only=True):
    success: bool
    consumer_group: str = msgspec.field(name="consumerGroup")
    queues: list[str]


class Sought(msgspec.Struct, kw_only=True):
    success: bool
    consumer_group: str = msgspec.field(name="consumerGroup")
    queue_name: str = msgspec.field(name="queueName")
    partitions: int


class Made(msgspec.Struct, kw_only=True):
    consumer_group: str = msgspec.field(name="consumerGroup")
    queue_name: str = msgspec.field(name="queueName")
    ordered: bool


async def make_group(call: Call[ByGroupAndQueue, Making]) -> Answer:
    name = read_group(call.parameters.group)
    body = call.body
    since = None
    if body.subscription_from is not None and body.subscription_from != "now":
        since = read_moment(body.subscription_from, "subscriptionFrom")
    mode = "new" if body.subscription_from == "now" else body.subscription_mode
    group = await call.broker.subscriptions.subscribe(
        call.parameters.queue, name, start=choose_start(mode, since), ordered=body.ordered
    )
    return answer_json(
        201,
        Made(
            consumer_group=show_group(name),
            queue_name=call.parameters.queue,
            ordered=group.ordered,
        ),
    )


async def delete_group(call: Call[Deletion, None]) -> Answer:
    name = _read_own(call.parameters.group)
    queues = [count.queue for count in await call.broker.statistics.counts() if count.group == name]
    if not queues:
        raise GroupNotFound(group=call.parameters.group)
    for queue in queues:
        await call.broker.groups.delete(queue, name)
    if call.parameters.delete_metadata:
        await call.broker.subscriptions.forget(name)
    return answer_json(200, Done(success=True, consumer_group=show_group(name), queues=queues))


async def delete_group_of_queue(call: Call[DeletionOfQueue, None]) -> Answer:
    name, queue = _read_own(call.parameters.group), call.parameters.queue
    found = await call.broker.queues.find(queue)
    await call.broker.groups.delete(queue, name)
    if call.parameters.delete_metadata:
        await call.broker.subscriptions.forget(name, queue_id=found.queue_id)
    return answer_json(200, Done(success=True, consumer_group=show_group(name), queues=[queue]))


async def set_subscription(call: Call[ByGroup, Subscribing]) -> Answer:
    name = read_group(call.parameters.group)
    since = read_moment(call.body.subscription_timestamp, "subscriptionTimestamp")
    queues = await call.broker.subscriptions.reposition(name, since)
    return answer_json(200, Done(success=True, consumer_group=show_group(name), queues=queues))


async def seek(call: Call[Any, Seeking]) -> Answer:
    wanted = call.parameters
    name = read_group(wanted.group)
    body = call.body
    if body.to_end == (body.timestamp is not None):
        raise refuse("toEnd", "say either toEnd: true or a timestamp")
    target: Target = "latest"
    if body.timestamp is not None:
        target = read_moment(body.timestamp, "timestamp")
    partition = getattr(wanted, "partition", None)
    moved = await call.broker.groups.seek(wanted.queue, target, group=name, partition=partition)
    if partition is not None and not moved:
        raise NotFound(f'queue "{wanted.queue}" has no partition "{partition}"')
    return answer_json(
        200,
        Sought(
            success=True,
            consumer_group=show_group(name),
            queue_name=wanted.queue,
            partitions=moved,
        ),
    )


def _read_own(name: str) -> str:
    """Return a group's name, unless it is the queue's own, which goes with its queue only."""
    group = read_group(name)
    if group == DEFAULT_GROUP:
        raise refuse("group", f'"{name}" is the queue\'s own group: delete the queue instead')
    return group


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        method="DELETE",
        path="/consumer-groups/{group}",
        handler=delete_group,
        summary="Delete a group in all queues",
        parameters=Deletion,
        answers={200: Done, 404: Failure},
        role=Role.ADMIN,
        reach=every_queue,
        tag="groups",
    ),
    Operation(
        method="POST",
        path="/consumer-groups/{group}/subscription",
        handler=set_subscription,
        summary="Have a group begin at a moment, in every queue it reads or will read",
        parameters=ByGroup,
        body=Subscribing,
        answers={200: Done},
        role=Role.ADMIN,
        reach=every_queue,
        tag="groups",
    ),
    Operation(
        method="POST",
        path="/consumer-groups/{group}/queues/{queue}",
        handler=make_group,
        summary="Make a group before its first consumer comes, ordered or shared",
        parameters=ByGroupAndQueue,
        body=Making,
        body_optional=True,
        answers={201: Made, 404: Failure},
        role=Role.ADMIN,
        reach=queue_in_path,
        tag="groups",
    ),
    Operation(
        method="DELETE",
        path="/consumer-groups/{group}/queues/{queue}",
        handler=delete_group_of_queue,
        summary="Delete a group in one queue",
        parameters=DeletionOfQueue,
        answers={200: Done, 404: Failure},
        role=Role.ADMIN,
        reach=queue_in_path,
        tag="groups",
    ),
    Operation(
        method="POST",
        path="/consumer-groups/{group}/queues/{queue}/seek",
        handler=seek,
        summary="Put a group elsewhere in a queue",
        parameters=ByGroupAndQueue,
        body=Seeking,
        answers={200: Sought, 404: Failure},
        role=Role.ADMIN,
        reach=queue_in_path,
        tag="groups",
    ),
    Operation(
        method="POST",
        path="/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek",
        handler=seek,
        summary="Put a group elsewhere in one partition",
        parameters=ByPartition,
        body=Seeking,
        answers={200: Sought, 404: Failure},
        role=Role.ADMIN,
        reach=queue_in_path,
        forms={"partition": SLASHED},
        tag="groups",
    ),
)
