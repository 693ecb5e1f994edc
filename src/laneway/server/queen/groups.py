"""The routes about consumer groups: where they are, how far behind, and how they are moved."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from laneway.domain.errors import GroupNotFound
from laneway.domain.queues import DEFAULT_GROUP
from laneway.server.answers import Answer, answer_json
from laneway.server.operations import Operation, Role, every_queue, no_queue
from laneway.server.queen.registry import choose_start
from laneway.server.queen.wire import (
    SLASHED,
    Failure,
    GroupName,
    MomentText,
    PartitionName,
    QueueName,
    read_group,
    read_moment,
    refuse,
    show_group,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.queues import Counts
    from laneway.domain.settings import Place as Target
    from laneway.domain.streams import Place, Subscription
    from laneway.server.calls import Call

# From here on a group counts as lagging.
LAGGING = 60


class ByGroup(msgspec.Struct, kw_only=True):
    group: GroupName


class Deletion(ByGroup, kw_only=True):
    delete_metadata: bool = msgspec.field(name="deleteMetadata", default=True)


class ByGroupAndQueue(ByGroup, kw_only=True):
    queue: QueueName


class DeletionOfQueue(Deletion, kw_only=True):
    queue: QueueName


class ByPartition(ByGroupAndQueue, kw_only=True):
    partition: PartitionName


class Lagging(msgspec.Struct, kw_only=True):
    min_lag_seconds: Annotated[float, Meta(ge=0)] = msgspec.field(
        name="minLagSeconds", default=3600
    )


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


class QueueLag(msgspec.Struct, kw_only=True):
    queue_name: str = msgspec.field(name="queueName")
    pending: int
    processing: int
    dead_letter: int = msgspec.field(name="deadLetter")
    lag_seconds: float = msgspec.field(name="lagSeconds")
    oldest: datetime | None


class GroupShown(msgspec.Struct, kw_only=True):
    name: str
    topics: list[str]
    total_lag: int = msgspec.field(name="totalLag")
    max_time_lag: float = msgspec.field(name="maxTimeLag")
    state: Literal["Stable", "Lagging"]
    subscription_mode: str | None = msgspec.field(name="subscriptionMode")
    subscription_timestamp: datetime | None = msgspec.field(name="subscriptionTimestamp")
    queues: list[QueueLag]


class LaggingGroup(QueueLag, kw_only=True):
    consumer_group: str = msgspec.field(name="consumerGroup")


class PartitionLag(msgspec.Struct, kw_only=True):
    partition: str
    partition_id: str = msgspec.field(name="partitionId")
    pending: int
    processing: int
    dead_letter: int = msgspec.field(name="deadLetter")
    position: int
    end: int
    lag_seconds: float = msgspec.field(name="lagSeconds")
    lease_expires_at: datetime | None = msgspec.field(name="leaseExpiresAt")


class GroupInQueue(QueueLag, kw_only=True):
    ordered: bool
    partitions: list[PartitionLag]


class GroupDetail(msgspec.Struct, kw_only=True):
    name: str
    queues: list[GroupInQueue]


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


async def list_groups(call: Call[None, None]) -> Answer:
    subscriptions = {(item.group, item.queue_id): item for item in await _subscriptions(call)}
    by_name: dict[str, list[Counts]] = {}
    for count in await _visible_counts(call):
        by_name.setdefault(count.group, []).append(count)
    return answer_json(
        200, [_show_group(name, counts, subscriptions) for name, counts in sorted(by_name.items())]
    )


async def list_lagging(call: Call[Lagging, None]) -> Answer:
    least = call.parameters.min_lag_seconds
    shown = []
    for count in await _visible_counts(call):
        lag = _show_lag(count)
        if count.oldest is not None and lag.lag_seconds >= least:
            fields = msgspec.structs.asdict(lag)
            shown.append(LaggingGroup(consumer_group=show_group(count.group), **fields))
    return answer_json(200, shown)


async def show_one(call: Call[ByGroup, None]) -> Answer:
    name = read_group(call.parameters.group)
    queues = []
    for count in await _visible_counts(call):
        if count.group == name:
            places = await call.broker.list_places(count.queue, group=name)
            queues.append(
                GroupInQueue(
                    ordered=all(place.ordered for place in places),
                    partitions=[show_place(place) for place in places],
                    **msgspec.structs.asdict(_show_lag(count)),
                )
            )
    if not queues:
        raise GroupNotFound(f'there is no group "{call.parameters.group}"')
    return answer_json(200, GroupDetail(name=call.parameters.group, queues=queues))


async def make_group(call: Call[ByGroupAndQueue, Making]) -> Answer:
    name = read_group(call.parameters.group)
    body = call.body
    since = None
    if body.subscription_from is not None and body.subscription_from != "now":
        since = read_moment(body.subscription_from, "subscriptionFrom")
    mode = "new" if body.subscription_from == "now" else body.subscription_mode
    group = await call.broker.subscribe(
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
    queues = [count.queue for count in await call.broker.counts() if count.group == name]
    if not queues:
        raise GroupNotFound(f'there is no group "{name}"')
    for queue in queues:
        await call.broker.delete_group(queue, name)
    if call.parameters.delete_metadata:
        await call.broker.forget_subscription(name)
    return answer_json(200, Done(success=True, consumer_group=name, queues=queues))


async def delete_group_of_queue(call: Call[DeletionOfQueue, None]) -> Answer:
    name, queue = _read_own(call.parameters.group), call.parameters.queue
    found = await call.broker.find_queue(queue)
    await call.broker.delete_group(queue, name)
    if call.parameters.delete_metadata:
        await call.broker.forget_subscription(name, queue_id=found.queue_id)
    return answer_json(200, Done(success=True, consumer_group=name, queues=[queue]))


async def set_subscription(call: Call[ByGroup, Subscribing]) -> Answer:
    name = read_group(call.parameters.group)
    since = read_moment(call.body.subscription_timestamp, "subscriptionTimestamp")
    queues = await call.broker.set_subscription(name, since)
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
    moved = await call.broker.seek(wanted.queue, target, group=name, partition=partition)
    return answer_json(
        200,
        Sought(
            success=True,
            consumer_group=show_group(name),
            queue_name=wanted.queue,
            partitions=moved,
        ),
    )


def show_place(place: Place) -> PartitionLag:
    return PartitionLag(
        partition=place.partition,
        partition_id=str(place.lane),
        pending=place.pending,
        processing=place.processing,
        dead_letter=place.dead,
        position=place.place,
        end=place.newest,
        lag_seconds=_age(place.oldest),
        lease_expires_at=place.held_until,
    )


def _show_group(
    name: str, counts: Sequence[Counts], subscriptions: dict[tuple[str, int], Subscription]
) -> GroupShown:
    queues = [_show_lag(count) for count in counts]
    longest = max((queue.lag_seconds for queue in queues), default=0)
    known = [
        found
        for queue_id in (*(count.queue_id for count in counts), 0)
        if (found := subscriptions.get((name, queue_id))) is not None
    ]
    return GroupShown(
        name=show_group(name),
        topics=[queue.queue_name for queue in queues],
        total_lag=sum(queue.pending + queue.processing for queue in queues),
        max_time_lag=longest,
        state="Lagging" if longest > LAGGING else "Stable",
        subscription_mode=known[0].mode if known else None,
        subscription_timestamp=known[0].since if known else None,
        queues=queues,
    )


def _show_lag(count: Counts) -> QueueLag:
    return QueueLag(
        queue_name=count.queue,
        pending=count.queued,
        processing=count.processing,
        dead_letter=count.dead,
        lag_seconds=_age(count.oldest),
        oldest=count.oldest,
    )


def _age(moment: datetime | None) -> float:
    """Return seconds, 0 where nothing waits."""
    if moment is None:
        return 0
    return max(round((datetime.now(UTC) - moment).total_seconds(), 3), 0)


def _read_own(name: str) -> str:
    """Return a group's name, unless it is the queue's own, which goes with its queue only."""
    group = read_group(name)
    if group == DEFAULT_GROUP:
        raise refuse("group", f'"{name}" is the queue\'s own group: delete the queue instead')
    return group


async def _visible_counts(call: Call[Any, Any]) -> list[Counts]:
    return [count for count in await call.broker.counts() if call.identity.may_use(count.queue)]


async def _subscriptions(call: Call[Any, Any]) -> list[Subscription]:
    return await call.broker.list_subscriptions()


async def _queue_in_path(call: Call[Any, Any], /) -> Sequence[str]:
    return (call.parameters.queue,)


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        method="GET",
        path="/consumer-groups",
        handler=list_groups,
        summary="List the consumer groups and how far behind they are",
        answers={200: list[GroupShown]},
        role=Role.READ,
        reach=no_queue,
        compress=True,
        tag="groups",
    ),
    Operation(
        method="GET",
        path="/consumer-groups/lagging",
        handler=list_lagging,
        summary="List groups whose oldest message has waited for long",
        parameters=Lagging,
        answers={200: list[LaggingGroup]},
        role=Role.READ,
        reach=no_queue,
        tag="groups",
    ),
    Operation(
        method="GET",
        path="/consumer-groups/{group}",
        handler=show_one,
        summary="Show where a group is in every partition",
        parameters=ByGroup,
        answers={200: GroupDetail, 404: Failure},
        role=Role.READ,
        reach=no_queue,
        compress=True,
        tag="groups",
    ),
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
        reach=_queue_in_path,
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
        reach=_queue_in_path,
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
        reach=_queue_in_path,
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
        reach=_queue_in_path,
        forms={"partition": SLASHED},
        tag="groups",
    ),
)
