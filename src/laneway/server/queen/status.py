"""The routes that tell how the server is doing: numbers of queues, and what happened when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from laneway.server.access import filtered
from laneway.server.operations import Operation, Role
from laneway.server.queen.resources import QueueShown, collect_queues
from laneway.server.queen.summaries import Overview, make_overview
from laneway.server.queen.wire import (
    ByQueue,
    Failure,
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
# More steps than a plot has room for.
MOST_STEPS = 10_000


class Paging(msgspec.Struct, kw_only=True):
    limit: Limit = 100
    offset: Offset = 0


class Analytics(msgspec.Struct, kw_only=True):
    """Without `from`, the last hundred steps; events are kept for as long as the server is set to."""

    interval: Literal["minute", "hour", "day"] = "hour"
    since: MomentText | None = msgspec.field(name="from", default=None)
    until: MomentText | None = msgspec.field(name="to", default=None)
    queue: QueueName | None = None
    namespace: str | None = None
    task: str | None = None


class Step(msgspec.Struct, kw_only=True):
    """Messages in one step of time, which begins at `timestamp`."""

    timestamp: datetime
    pushed: int
    popped: int
    completed: int
    failed: int
    dead_letter: int = msgspec.field(name="deadLetter")


class Series(msgspec.Struct, kw_only=True):
    interval: str
    since: datetime = msgspec.field(name="from")
    until: datetime = msgspec.field(name="to")
    throughput: list[Step]


class Status(Overview, kw_only=True):
    throughput: list[Step]


class QueueStats(msgspec.Struct, kw_only=True):
    queues: list[QueueShown]
    total: int


class QueueStatus(msgspec.Struct, kw_only=True):
    queue: QueueShown
    throughput: list[Step]


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
    since = read_moment(wanted.since, "from") if wanted.since else until - 100 * step
    if not timedelta(0) < until - since <= MOST_STEPS * step:
        raise refuse("from", f"between from and to are 1 to {MOST_STEPS} intervals")
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
        summary="What there is, and what happened in the last hour",
        answers={200: Status},
        role=Role.READ,
        reach=filtered,
        tag="status",
    ),
    Operation(
        method="GET",
        path="/status/queues",
        handler=list_queue_stats,
        summary="The queues in numbers",
        parameters=Paging,
        answers={200: QueueStats},
        role=Role.READ,
        reach=filtered,
        compress=True,
        tag="status",
    ),
    Operation(
        method="GET",
        path="/status/queues/{queue}",
        handler=show_queue_status,
        summary="A queue in numbers, and what happened in the last hour",
        parameters=ByQueue,
        answers={200: QueueStatus, 404: Failure},
        role=Role.READ,
        reach=queue_in_path,
        tag="status",
    ),
    Operation(
        method="GET",
        path="/status/analytics",
        handler=show_analytics,
        summary="What happened when, in steps of time",
        parameters=Analytics,
        answers={200: Series},
        role=Role.READ,
        reach=filtered,
        compress=True,
        tag="status",
    ),
)
