"""The routes about what happened: the log, one message's history, anomalies, consumers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from laneway.domain.activity import ActivityFilter, AnomalyFilter
from laneway.server.access import every_queue, filtered, looked_up
from laneway.server.operations import Operation, Role
from laneway.server.responses import answer_json
from laneway.server.rest.access import choose_queues, queue_shown
from laneway.server.rest.leases import read_id
from laneway.server.rest.logs import (
    SEVERITIES,
    AnomalyEntry,
    Log,
    read_actions,
    show_entry,
    show_found,
)
from laneway.server.rest.times import to_unix
from laneway.server.rest.wire import QueueName

if TYPE_CHECKING:
    from laneway.domain.activity import Entry
    from laneway.server.calls import Call
    from laneway.server.responses import Answer

# Unix seconds, until the year 9999.
Moment = Annotated[float, Meta(ge=0, le=253_402_300_799)]
Text = Annotated[str, Meta(max_length=255)]
Limit = Annotated[int, Meta(ge=1, le=1000)]
# An anomaly shows the payload it is about up to this size.
LARGEST_PAYLOAD = 16 * 1024


class ActivityQuery(msgspec.Struct, kw_only=True):
    """action: names with commas between them. Times are Unix seconds."""

    message_id: Text | None = None
    consumer_id: Text | None = None
    action: Annotated[str, Meta(max_length=1000)] | None = None
    queue_name: QueueName | None = None
    start_time: Moment | None = None
    end_time: Moment | None = None
    has_anomaly: bool | None = None
    anomaly_type: Text | None = None
    limit: Limit = 100
    offset: Annotated[int, Meta(ge=0, le=100_000)] = 0


class AnomalyQuery(msgspec.Struct, kw_only=True):
    severity: Literal["info", "warning", "critical"] | None = None
    type: Text | None = None
    queue_name: QueueName | None = None
    start_time: Moment | None = None
    end_time: Moment | None = None
    limit: Limit = 100
    sort_by: Literal["timestamp", "severity", "type", "queue", "actual"] = "timestamp"
    sort_order: Literal["asc", "desc", "ASC", "DESC"] = "desc"


class ConsumerQuery(msgspec.Struct):
    consumer_id: Text | None = None


class ById(msgspec.Struct):
    id: Text


class Pagination(msgspec.Struct, kw_only=True):
    """total: exact up to 10,000, else at least that many; has_more tells whether there are more."""

    total: int
    limit: int
    offset: int
    has_more: bool
    has_more_too: bool = msgspec.field(name="hasMore")


class Logs(msgspec.Struct):
    logs: list[Log]
    total: int
    pagination: Pagination


class History(msgspec.Struct):
    message_id: str
    history: list[Log]


class Summary(msgspec.Struct):
    """Counts of the newest 10,000 that match."""

    total: int
    by_type: dict[str, int]
    by_severity: dict[str, int]


class Anomalies(msgspec.Struct):
    anomalies: list[AnomalyEntry]
    summary: Summary


class Consumer(msgspec.Struct):
    dequeue_count: int
    last_dequeue: float


class Consumers(msgspec.Struct):
    stats: dict[str, Consumer]


class Cleared(msgspec.Struct):
    success: bool
    message: str


async def list_activity(call: Call[ActivityQuery, None]) -> Answer:
    query = call.parameters
    wanted = ActivityFilter(
        queue_ids=await _choose_ids(call, query.queue_name),
        kinds=read_actions(query.action),
        consumer=query.consumer_id,
        since=_read_moment(query.start_time),
        until=_read_moment(query.end_time),
        anomalous=query.has_anomaly,
        anomaly_type=query.anomaly_type,
    )
    if query.message_id is None:
        page = await call.broker.activity.list_entries(
            wanted, limit=query.limit + 1, offset=query.offset
        )
        entries, total = page.entries, page.total
    else:
        found = await _find_entries(call, query.message_id, wanted)
        entries, total = found[query.offset : query.offset + query.limit + 1], len(found)
    more = len(entries) > query.limit
    total = max(total, query.offset + len(entries)) if entries else total
    logs = [show_entry(entry, call.settings) for entry in entries[: query.limit]]
    pages = Pagination(
        total=total, limit=query.limit, offset=query.offset, has_more=more, has_more_too=more
    )
    return answer_json(200, Logs(logs, total, pages))


async def show_history(call: Call[ById, None]) -> Answer:
    message = read_id(call.parameters.id)
    entries = [] if message is None else await call.broker.activity.list_message_entries(message)
    history = [show_entry(entry, call.settings) for entry in entries if _may_show(call, entry)]
    return answer_json(200, History(call.parameters.id, history))


async def list_anomalies(call: Call[AnomalyQuery, None]) -> Answer:
    query = call.parameters
    wanted = AnomalyFilter(
        queue_ids=await _choose_ids(call, query.queue_name),
        severity=query.severity,
        type=query.type,
        since=_read_moment(query.start_time),
        until=_read_moment(query.end_time),
    )
    columns = {"timestamp": "at", "queue": "queue_name"}
    found = await call.broker.activity.list_anomalies(
        wanted,
        sort=columns.get(query.sort_by, query.sort_by),
        descending=query.sort_order.lower() == "desc",
        limit=query.limit,
        largest_body=LARGEST_PAYLOAD,
    )
    summary = Summary(0, {}, dict.fromkeys(reversed(SEVERITIES), 0))
    for kind, severity, count in await call.broker.activity.count_anomalies(wanted):
        summary.total += count
        summary.by_type[kind] = summary.by_type.get(kind, 0) + count
        summary.by_severity[severity] += count
    return answer_json(200, Anomalies([show_found(each) for each in found], summary))


async def list_consumers(call: Call[ConsumerQuery, None]) -> Answer:
    consumers = await call.broker.activity.list_consumers(
        await _choose_ids(call, None), consumer=call.parameters.consumer_id
    )
    stats = {each.consumer: Consumer(each.taken, to_unix(each.last_at)) for each in consumers}
    return answer_json(200, Consumers(stats))


async def clear_activity(call: Call[None, None]) -> Answer:
    await call.broker.activity.clear()
    return answer_json(200, Cleared(success=True, message="Activity logs cleared successfully"))


async def _choose_ids(call: Call[Any, None], named: str | None) -> list[int] | None:
    """Return the queues to show, None for all: a deleted queue's activity is shown with all."""
    names = await choose_queues(call, named)
    if names is None:
        return None
    return [queue.queue_id for queue in await call.broker.queues.list_all() if queue.name in names]


async def _find_entries(
    call: Call[ActivityQuery, None], text: str, wanted: ActivityFilter
) -> list[Entry]:
    """Return what matches of one message's history, newest first."""
    message = read_id(text)
    if message is None:
        return []
    names = await choose_queues(call, call.parameters.queue_name)
    entries = await call.broker.activity.list_message_entries(message)
    return [
        entry
        for entry in reversed(entries)
        if (names is None or entry.queue in names)
        and (wanted.kinds is None or entry.kind in wanted.kinds)
        and (wanted.consumer is None or entry.consumer == wanted.consumer)
        and (wanted.since is None or entry.at >= wanted.since)
        and (wanted.until is None or entry.at <= wanted.until)
        and (wanted.anomalous is None or bool(entry.remarks) == wanted.anomalous)
        and (
            wanted.anomaly_type is None
            or any(remark.type == wanted.anomaly_type for remark in entry.remarks)
        )
    ]


def _may_show(call: Call[Any, Any], entry: Entry) -> bool:
    """Tell whether the key may see what happened; in a deleted queue, only a key of all queues may."""
    identity = call.identity
    return identity.pattern is None or (entry.queue is not None and identity.may_use(entry.queue))


def _read_moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


OPERATIONS = (
    Operation(
        method="GET",
        path="/queue/activity",
        handler=list_activity,
        summary="List what happened, newest first",
        parameters=ActivityQuery,
        answers={200: Logs},
        role=Role.READ,
        reach=queue_shown,
        compress=True,
        tag="activity",
    ),
    Operation(
        method="GET",
        path="/queue/activity/message/{id}",
        handler=show_history,
        summary="Show what happened to one message, oldest first",
        parameters=ById,
        answers={200: History},
        role=Role.READ,
        reach=looked_up,
        compress=True,
        tag="activity",
    ),
    Operation(
        method="GET",
        path="/queue/activity/anomalies",
        handler=list_anomalies,
        summary="List what was remarkable",
        parameters=AnomalyQuery,
        answers={200: Anomalies},
        role=Role.READ,
        reach=queue_shown,
        compress=True,
        tag="activity",
    ),
    Operation(
        method="GET",
        path="/queue/activity/consumers",
        handler=list_consumers,
        summary="Show who takes messages",
        parameters=ConsumerQuery,
        answers={200: Consumers},
        role=Role.READ,
        reach=filtered,
        tag="activity",
    ),
    Operation(
        method="DELETE",
        path="/queue/activity/clear",
        handler=clear_activity,
        summary="Show no more of what happened so far",
        answers={200: Cleared},
        role=Role.ADMIN,
        reach=every_queue,
        tag="activity",
    ),
)
