"""The routes that show consumer groups: where they are, and how far behind."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from laneway.domain.errors import GroupNotFound
from laneway.server.access import filtered
from laneway.server.operations import Operation, Role
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

# By group and queue; queue 0: in any.
Subscriptions: TypeAlias = "Mapping[tuple[str, int], Subscription]"

# From here on a group counts as lagging.
LAGGING = 60


class ByGroup(msgspec.Struct, kw_only=True):
    group: GroupName


class Lagging(msgspec.Struct, kw_only=True):
    min_lag_seconds: Annotated[float, Meta(ge=0)] = msgspec.field(
        name="minLagSeconds", default=3600
    )


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


async def list_groups(call: Call[None, None]) -> Answer:
    subscriptions = await _find_subscriptions(call)
    by_name: dict[str, list[Counts]] = {}
    for count in await _counting(call):
        by_name.setdefault(count.group, []).append(count)
    return answer_json(
        200, [_show_group(name, counts, subscriptions) for name, counts in sorted(by_name.items())]
    )


async def list_lagging(call: Call[Lagging, None]) -> Answer:
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
    """Return seconds, 0 where nothing waits."""
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
    """Return the counts without queues' own groups that nobody reads by."""
    counting = await call.broker.subscriptions.list_counting_groups()
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
        summary="List the consumer groups and how far behind they are",
        answers={200: list[GroupShown]},
        role=Role.READ,
        reach=filtered,
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
        reach=filtered,
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
        reach=filtered,
        compress=True,
        tag="groups",
    ),
)
