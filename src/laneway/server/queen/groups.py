"""The routes that show consumer groups: their positions and their lag."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from laneway.domain.errors import GroupNotFound
from laneway.server.access import filtered
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.wire import (
    Failure,
    GroupName,
    read_group,
    show_group,
)
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laneway.domain.queues import Counts
    from laneway.domain.streams import Place, Subscription
    from laneway.server.calls import Call

# By group and queue id; queue id 0: any queue.
Subscriptions: TypeAlias = "Mapping[tuple[str, int], Subscription]"

# Seconds; a group with a larger lag is shown as lagging.
LAGGING = 60


class ByGroup(msgspec.Struct, kw_only=True):
    group: Annotated[
        GroupName,
        Meta(description="Name of the consumer group. `__QUEUE_MODE__` is a queue's own group."),
    ]


class LagFilter(msgspec.Struct, kw_only=True):
    min_lag_seconds: Annotated[
        float,
        Meta(
            ge=0,
            description=(
                "Age in seconds of the oldest unfinished message from which a group is "
                "listed. Default: 3600."
            ),
        ),
    ] = msgspec.field(name="minLagSeconds", default=3600)


class QueueLag(msgspec.Struct, kw_only=True):
    """How far a group is behind in one queue."""

    queue_name: Annotated[str, Meta(description="Name of the queue.")] = msgspec.field(
        name="queueName"
    )
    pending: Annotated[int, Meta(description="Messages that are ready or delayed.")]
    processing: Annotated[int, Meta(description="Messages in flight.")]
    dead_letter: Annotated[int, Meta(description="Dead letters of the group.")] = msgspec.field(
        name="deadLetter"
    )
    lag_seconds: Annotated[
        float,
        Meta(
            description="Age in seconds of the oldest message that is not finished; 0 if there is none."
        ),
    ] = msgspec.field(name="lagSeconds")
    oldest: Annotated[
        datetime | None, Meta(description="When that message was pushed; null if there is none.")
    ]


class GroupShown(msgspec.Struct, kw_only=True):
    """A consumer group, in all its queues."""

    name: Annotated[str, Meta(description="Name of the group.")]
    topics: Annotated[list[str], Meta(description="Names of the queues that it reads.")]
    total_lag: Annotated[
        int, Meta(description="Messages that are not finished, in all queues.")
    ] = msgspec.field(name="totalLag")
    max_time_lag: Annotated[
        float, Meta(description="Age in seconds of the oldest of them; 0 if there is none.")
    ] = msgspec.field(name="maxTimeLag")
    state: Annotated[
        Literal["Stable", "Lagging"],
        Meta(description="`Lagging` if the oldest is more than 60 seconds old, else `Stable`."),
    ]
    subscription_mode: Annotated[
        str | None, Meta(description="Where the group started, if it said so.")
    ] = msgspec.field(name="subscriptionMode")
    subscription_timestamp: Annotated[
        datetime | None, Meta(description="Time at which the group started, if it named one.")
    ] = msgspec.field(name="subscriptionTimestamp")
    queues: Annotated[
        list[QueueLag], Meta(description="How far the group is behind in each queue.")
    ]


class LaggingGroup(QueueLag, kw_only=True):
    """A group that is far behind in a queue."""

    consumer_group: Annotated[str, Meta(description="Name of the group.")] = msgspec.field(
        name="consumerGroup"
    )


class PartitionLag(msgspec.Struct, kw_only=True):
    """How far a group is behind in one partition."""

    partition: Annotated[str, Meta(description="Name of the partition.")]
    partition_id: Annotated[str, Meta(description="Id of the partition.")] = msgspec.field(
        name="partitionId"
    )
    pending: Annotated[int, Meta(description="Messages that are ready or delayed.")]
    processing: Annotated[int, Meta(description="Messages in flight.")]
    dead_letter: Annotated[int, Meta(description="Dead letters of the group.")] = msgspec.field(
        name="deadLetter"
    )
    position: Annotated[int, Meta(description="Sequence number up to which the group has claimed.")]
    end: Annotated[int, Meta(description="Sequence number of the newest message.")]
    lag_seconds: Annotated[
        float,
        Meta(
            description="Age in seconds of the oldest message that is not finished; 0 if there is none."
        ),
    ] = msgspec.field(name="lagSeconds")
    lease_expires_at: Annotated[
        datetime | None,
        Meta(description="When the lease on the partition expires; null without one."),
    ] = msgspec.field(name="leaseExpiresAt")


class GroupInQueue(QueueLag, kw_only=True):
    """A group in one queue, with every partition."""

    ordered: Annotated[bool, Meta(description="Whether the group is ordered, rather than shared.")]
    partitions: Annotated[list[PartitionLag], Meta(description="The partitions of the queue.")]


class GroupDetail(msgspec.Struct, kw_only=True):
    """A group, with every partition of every queue."""

    name: Annotated[str, Meta(description="Name of the group.")]
    queues: Annotated[list[GroupInQueue], Meta(description="The queues that it reads.")]


async def list_groups(call: Call[None, None]) -> Answer:
    subscriptions = await _find_subscriptions(call)
    by_name: dict[str, list[Counts]] = {}
    for count in await _counting(call):
        by_name.setdefault(count.group, []).append(count)
    return answer_json(
        200, [_show_group(name, counts, subscriptions) for name, counts in sorted(by_name.items())]
    )


async def list_lagging(call: Call[LagFilter, None]) -> Answer:
    least = call.parameters.min_lag_seconds
    shown = []
    for count in await _counting(call):
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
            places = await call.broker.streams.list_positions(count.queue, group=name)
            queues.append(
                GroupInQueue(
                    ordered=all(place.ordered for place in places),
                    partitions=[show_place(place) for place in places],
                    **msgspec.structs.asdict(_show_lag(count)),
                )
            )
    if not queues:
        raise GroupNotFound(group=call.parameters.group)
    return answer_json(200, GroupDetail(name=call.parameters.group, queues=queues))


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


def _show_group(name: str, counts: Sequence[Counts], subscriptions: Subscriptions) -> GroupShown:
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
    """Return seconds since the time, 0 if there is none."""
    if moment is None:
        return 0
    return max(round((datetime.now(UTC) - moment).total_seconds(), 3), 0)


async def _visible_counts(call: Call[Any, Any]) -> list[Counts]:
    return [
        count
        for count in await call.broker.statistics.counts()
        if call.identity.may_use(count.queue)
    ]


async def _counting(call: Call[Any, Any]) -> list[Counts]:
    """Return the counts, without queues' own groups that have no consumers."""
    counting = await call.broker.subscriptions.list_counted_groups()
    return [count for count in await _visible_counts(call) if count.group_id in counting]


async def _find_subscriptions(call: Call[Any, Any]) -> Subscriptions:
    return {
        (each.group, each.queue_id): each for each in await call.broker.subscriptions.list_all()
    }


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        method="GET",
        path="/consumer-groups",
        handler=list_groups,
        summary="List the consumer groups and their lag",
        description=(
            "Returns every consumer group of the queues that the API key may use, and how far "
            "it is behind. A queue's own group is listed only if something reads by it."
        ),
        answers={200: Response(list[GroupShown], "The consumer groups, by name.")},
        role=Role.READ,
        reach=filtered,
        compress=True,
        tag="groups",
    ),
    Operation(
        method="GET",
        path="/consumer-groups/lagging",
        handler=list_lagging,
        summary="List the groups that are far behind",
        description=(
            "Returns each group and queue whose oldest unfinished message is at least "
            "`minLagSeconds` old."
        ),
        parameters=LagFilter,
        answers={
            200: Response(
                list[LaggingGroup],
                "The groups that are far behind; an empty list if there are none.",
            )
        },
        role=Role.READ,
        reach=filtered,
        tag="groups",
    ),
    Operation(
        method="GET",
        path="/consumer-groups/{group}",
        handler=show_one,
        summary="Show the position of a group in every partition",
        description=(
            "Returns where the group is in every partition of every queue that it reads, and "
            "how far it is behind."
        ),
        parameters=ByGroup,
        answers={
            200: Response(GroupDetail, "The group."),
            404: Response(Failure, "No queue that the API key may use has this group."),
        },
        role=Role.READ,
        reach=filtered,
        compress=True,
        tag="groups",
    ),
)
