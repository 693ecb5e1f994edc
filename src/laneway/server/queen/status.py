"""The routes that show counts and throughput."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from laneway.server.access import filtered, nothing
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.resources import QueueShown, collect_queues
from laneway.server.queen.summaries import Overview, make_overview
from laneway.server.queen.wire import (
    QUEUE_NOT_FOUND,
    ByQueue,
    Limit,
    MomentText,
    Offset,
    QueueName,
    queue_in_path,
    read_moment,
    refuse,
)
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.server.calls import Call

STEPS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
# Intervals per answer.
MOST_STEPS = 10_000


class Paging(msgspec.Struct, kw_only=True):
    limit: Annotated[Limit, Meta(description="Queues per page, 1 to 1000. Default: 100.")] = 100
    offset: Annotated[Offset, Meta(description="Queues to skip. Default: 0.")] = 0


class Analytics(msgspec.Struct, kw_only=True):
    """Which messages to count, and in which intervals."""

    interval: Annotated[
        Literal["minute", "hour", "day"],
        Meta(description="Length of an interval. Default: `hour`."),
    ] = "hour"
    since: Annotated[
        MomentText | None,
        Meta(
            description="Start (ISO 8601, UTC unless it names a zone). Default: 100 intervals before the "
            "end."
        ),
    ] = msgspec.field(name="from", default=None)
    until: Annotated[
        MomentText | None,
        Meta(
            description="End (ISO 8601, UTC unless it names a zone), at most 10,000 intervals after the "
            "start. Default: now."
        ),
    ] = msgspec.field(name="to", default=None)
    queue: Annotated[
        QueueName | None,
        Meta(description="Only this queue. Default: all queues that the API key may use."),
    ] = None
    namespace: Annotated[str | None, Meta(description="Only queues of this namespace.")] = None
    task: Annotated[str | None, Meta(description="Only queues of this task.")] = None


class Step(msgspec.Struct, kw_only=True):
    """How many messages were processed in one interval."""

    timestamp: Annotated[datetime, Meta(description="Start of the interval.")]
    pushed: Annotated[int, Meta(description="Messages pushed.")]
    popped: Annotated[int, Meta(description="Messages popped.")]
    completed: Annotated[int, Meta(description="Messages acked.")]
    failed: Annotated[int, Meta(description="Attempts that failed: nacks and expired leases.")]
    dead_letter: Annotated[int, Meta(description="Messages that became dead letters.")] = (
        msgspec.field(name="deadLetter")
    )


class Series(msgspec.Struct, kw_only=True):
    """How many messages were processed over time."""

    interval: Annotated[str, Meta(description="Length of an interval.")]
    since: Annotated[datetime, Meta(description="Start of the first interval.")] = msgspec.field(
        name="from"
    )
    until: Annotated[datetime, Meta(description="End of the last interval.")] = msgspec.field(
        name="to"
    )
    throughput: Annotated[list[Step], Meta(description="The intervals, oldest first.")]


class Status(Overview, kw_only=True):
    """Counts over all queues, and the throughput of the last hour."""

    throughput: Annotated[list[Step], Meta(description="The last hour, minute by minute.")]


class QueueStats(msgspec.Struct, kw_only=True):
    """A page of queues."""

    queues: Annotated[list[QueueShown], Meta(description="The queues, by name.")]
    total: Annotated[int, Meta(description="How many queues there are.")]


class QueueStatus(msgspec.Struct, kw_only=True):
    """A queue, and its throughput of the last hour."""

    queue: Annotated[QueueShown, Meta(description="The queue.")]
    throughput: Annotated[list[Step], Meta(description="The last hour, minute by minute.")]


class Refreshed(msgspec.Struct, kw_only=True):
    """Whether statistics were recomputed."""

    success: Annotated[bool, Meta(description="Always true.")]
    refreshed: Annotated[bool, Meta(description="Always false: there was nothing to recompute.")]


async def show_status(call: Call[None, None]) -> Answer:
    queues = await collect_queues(call)
    until = datetime.now(UTC)
    steps = await _measure(call, queues, until - timedelta(hours=1), until, STEPS["minute"])
    overview = msgspec.structs.asdict(make_overview(queues))
    return answer_json(200, Status(throughput=steps, **overview))


async def list_queue_stats(call: Call[Paging, None]) -> Answer:
    wanted = call.parameters
    queues = await collect_queues(call)
    page = queues[wanted.offset : wanted.offset + wanted.limit]
    return answer_json(200, QueueStats(queues=page, total=len(queues)))


async def show_queue_status(call: Call[ByQueue, None]) -> Answer:
    name = call.parameters.queue
    await call.broker.queues.get(name)
    queues = [queue for queue in await collect_queues(call) if queue.name == name]
    until = datetime.now(UTC)
    steps = await _measure(call, queues, until - timedelta(hours=1), until, STEPS["minute"])
    return answer_json(200, QueueStatus(queue=queues[0], throughput=steps))


async def show_analytics(call: Call[Analytics, None]) -> Answer:
    wanted = call.parameters
    step = STEPS[wanted.interval]
    until = read_moment(wanted.until, "to") if wanted.until else datetime.now(UTC)
    try:
        since = read_moment(wanted.since, "from") if wanted.since else until - 100 * step
    except OverflowError:
        raise refuse("to", "there are no 100 intervals before it: name from, too") from None
    if not timedelta(0) < until - since <= MOST_STEPS * step:
        raise refuse("from", f"from and to must be 1 to {MOST_STEPS} intervals apart")
    queues = [
        queue
        for queue in await collect_queues(call)
        if wanted.queue in {None, queue.name}
        and wanted.namespace in {None, queue.namespace}
        and wanted.task in {None, queue.task}
    ]
    steps = await _measure(call, queues, since, until, step)
    return answer_json(
        200, Series(interval=wanted.interval, since=since, until=until, throughput=steps)
    )


async def refresh_statistics(_call: Call[None, None]) -> Answer:
    return answer_json(200, Refreshed(success=True, refreshed=False))


async def _measure(
    call: Call[Any, Any],
    queues: Sequence[QueueShown],
    since: datetime,
    until: datetime,
    step: timedelta,
) -> list[Step]:
    ids = [int(queue.id) for queue in queues]
    found = await call.broker.streams.measure(ids, since=since, until=until, step=step)
    return [
        Step(
            timestamp=at,
            pushed=pushed,
            popped=claimed,
            completed=acked,
            failed=failed,
            dead_letter=dead,
        )
        for at, pushed, claimed, acked, failed, dead in found
    ]


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        method="GET",
        path="/status",
        handler=show_status,
        summary="Show counts and the throughput of the last hour",
        description=(
            "Returns counts over all queues that the API key may use, and how many messages "
            "were processed in each minute of the last hour. Throughput comes from events, so "
            "queues that record none have none."
        ),
        answers={200: Response(Status, "The counts and the throughput.")},
        role=Role.READ,
        reach=filtered,
        tag="status",
    ),
    Operation(
        method="GET",
        path="/status/queues",
        handler=list_queue_stats,
        summary="List the queues with their counts",
        description=(
            "Returns a page of the queues that the API key may use, with their options and counts."
        ),
        parameters=Paging,
        answers={200: Response(QueueStats, "A page of queues.")},
        role=Role.READ,
        reach=filtered,
        compress=True,
        tag="status",
    ),
    Operation(
        method="GET",
        path="/status/queues/{queue}",
        handler=show_queue_status,
        summary="Show a queue and its throughput of the last hour",
        description=(
            "Returns the counts of one queue, and how many messages were processed in each "
            "minute of the last hour."
        ),
        parameters=ByQueue,
        answers={200: Response(QueueStatus, "The queue and its throughput."), 404: QUEUE_NOT_FOUND},
        role=Role.READ,
        reach=queue_in_path,
        tag="status",
    ),
    Operation(
        method="GET",
        path="/status/analytics",
        handler=show_analytics,
        summary="Show throughput over time",
        description=(
            "Returns how many messages were pushed, popped, acked, failed and dead-lettered "
            "in each interval. It counts events, which are kept as long as the server is "
            "configured to keep them; earlier intervals are empty."
        ),
        parameters=Analytics,
        answers={200: Response(Series, "The throughput.")},
        role=Role.READ,
        reach=filtered,
        compress=True,
        tag="status",
    ),
    Operation(
        method="POST",
        path="/stats/refresh",
        handler=refresh_statistics,
        summary="Recompute statistics, which is never needed",
        description=(
            "Changes nothing: counts and lag are computed by each request that shows them. "
            "Stream clients call this before they read statistics."
        ),
        answers={200: Response(Refreshed, "Statistics are current.")},
        role=Role.READ,
        reach=nothing,
        tag="status",
    ),
)
