"""The routes of the activity log: entries, one message's history, anomalies, consumers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from laneway.domain.activity import ActivityFilter, AnomalyFilter
from laneway.server.access import every_queue, filtered, looked_up
from laneway.server.decoder import NothingMore
from laneway.server.operations import Operation, Response, Role
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
    from laneway.domain.ids import MessageId
    from laneway.server.calls import Call
    from laneway.server.responses import Answer

# Unix seconds, until the year 9999.
Moment = Annotated[float, Meta(ge=0, le=253_402_300_799)]
Text = Annotated[str, Meta(max_length=255)]
Limit = Annotated[int, Meta(ge=1, le=1000)]
# Entries and anomalies show the payload of their message up to this size.
LARGEST_PAYLOAD = 16 * 1024


class ActivityQuery(msgspec.Struct, kw_only=True):
    """Which entries of the activity log to list."""

    message_id: Annotated[Text | None, Meta(description="Only entries about this message.")] = None
    consumer_id: Annotated[Text | None, Meta(description="Only entries of this consumer.")] = None
    action: Annotated[
        Annotated[str, Meta(max_length=1000)] | None,
        Meta(
            description="Only these actions: names separated by commas, such as `dequeue,acknowledge`."
        ),
    ] = None
    queue_name: Annotated[
        QueueName | None,
        Meta(
            description="Only entries about this queue. Default: all queues that the API key may use."
        ),
    ] = None
    start_time: Annotated[
        Moment | None, Meta(description="Only entries at this time or later, in Unix seconds.")
    ] = None
    end_time: Annotated[
        Moment | None, Meta(description="Only entries at this time or earlier, in Unix seconds.")
    ] = None
    has_anomaly: Annotated[
        bool | None, Meta(description="Only entries with an anomaly (true), or without (false).")
    ] = None
    anomaly_type: Annotated[
        Text | None,
        Meta(description="Only entries with an anomaly of this type, such as `long_processing`."),
    ] = None
    limit: Annotated[Limit, Meta(description="Entries per page, 1 to 1000. Default: 100.")] = 100
    offset: Annotated[
        int, Meta(ge=0, le=100_000, description="Entries to skip, at most 100,000. Default: 0.")
    ] = 0


class AnomalyQuery(msgspec.Struct, kw_only=True):
    severity: Annotated[
        Literal["info", "warning", "critical"] | None,
        Meta(description="Only anomalies of this severity."),
    ] = None
    type: Annotated[
        Text | None, Meta(description="Only anomalies of this type, such as `long_processing`.")
    ] = None
    queue_name: Annotated[
        QueueName | None,
        Meta(
            description="Only anomalies about this queue. Default: all queues that the API key may use."
        ),
    ] = None
    start_time: Annotated[
        Moment | None, Meta(description="Only anomalies at this time or later, in Unix seconds.")
    ] = None
    end_time: Annotated[
        Moment | None, Meta(description="Only anomalies at this time or earlier, in Unix seconds.")
    ] = None
    limit: Annotated[
        Limit, Meta(description="How many anomalies to return at most, 1 to 1000. Default: 100.")
    ] = 100
    sort_by: Annotated[
        Literal["timestamp", "severity", "type", "queue", "actual"],
        Meta(description="Field to sort by. Default: `timestamp`."),
    ] = "timestamp"
    sort_order: Annotated[
        Literal["asc", "desc", "ASC", "DESC"],
        Meta(description="Order of the list. Default: `desc`."),
    ] = "desc"


class ConsumerQuery(msgspec.Struct):
    consumer_id: Annotated[Text | None, Meta(description="Only this consumer. Default: all.")] = (
        None
    )


class ById(msgspec.Struct):
    id: Annotated[Text, Meta(description="Message id, such as `2-1-1`.")]


class Pagination(msgspec.Struct, kw_only=True):
    """Where a page is in its list."""

    total: Annotated[
        int, Meta(description="How many entries match: exact up to 10,000, a lower bound beyond.")
    ]
    limit: Annotated[int, Meta(description="Entries per page.")]
    offset: Annotated[int, Meta(description="Entries skipped.")]
    has_more: Annotated[bool, Meta(description="Whether there are more entries behind this page.")]
    has_more_too: Annotated[
        bool, Meta(description="The same as `has_more`. For compatibility with Relay.")
    ] = msgspec.field(name="hasMore")


class Logs(msgspec.Struct):
    """A page of the activity log."""

    logs: Annotated[list[Log], Meta(description="The entries, newest first.")]
    total: Annotated[
        int, Meta(description="How many entries match: exact up to 10,000, a lower bound beyond.")
    ]
    pagination: Annotated[Pagination, Meta(description="Where this page is in the log.")]


class History(msgspec.Struct):
    """What happened to one message."""

    message_id: Annotated[str, Meta(description="Id of the message.")]
    history: Annotated[list[Log], Meta(description="The entries about it, oldest first.")]


class Summary(msgspec.Struct):
    """Counts of the newest 10,000 anomalies that match."""

    total: Annotated[int, Meta(description="How many anomalies match, at most 10,000.")]
    by_type: Annotated[dict[str, int], Meta(description="How many of each type.")]
    by_severity: Annotated[dict[str, int], Meta(description="How many of each severity.")]


class Anomalies(msgspec.Struct):
    """The anomalies that match, and how many there are."""

    anomalies: Annotated[list[AnomalyEntry], Meta(description="The anomalies.")]
    summary: Annotated[
        Summary, Meta(description="Counts over all that match, not only those returned.")
    ]


class Consumer(msgspec.Struct):
    """What a consumer dequeued."""

    dequeue_count: Annotated[int, Meta(description="How many messages it dequeued.")]
    last_dequeue: Annotated[float, Meta(description="When it last dequeued, in Unix seconds.")]


class Consumers(msgspec.Struct):
    """What each consumer dequeued."""

    stats: Annotated[dict[str, Consumer], Meta(description="Consumers by their name.")]


class Cleared(msgspec.Struct):
    """The activity log was cleared."""

    success: Annotated[bool, Meta(description="Always true.")]
    message: Annotated[str, Meta(description="What happened, in words for people.")]


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
            wanted, limit=query.limit + 1, offset=query.offset, largest_body=LARGEST_PAYLOAD
        )
        entries, total = page.entries, page.total
    else:
        found = await _find_entries(call, query.message_id, wanted)
        entries, total = found[query.offset : query.offset + query.limit + 1], len(found)
    more = len(entries) > query.limit
    total = max(total, query.offset + len(entries)) if entries else total
    tokens = await call.service.find_lease_tokens()
    logs = [show_entry(entry, call.settings, tokens) for entry in entries[: query.limit]]
    pages = Pagination(
        total=total, limit=query.limit, offset=query.offset, has_more=more, has_more_too=more
    )
    return answer_json(200, Logs(logs, total, pages))


async def show_history(call: Call[ById, None]) -> Answer:
    message = read_id(call.parameters.id)
    entries = [] if message is None else await _list_entries(call, message)
    tokens = await call.service.find_lease_tokens()
    history = [
        show_entry(entry, call.settings, tokens) for entry in entries if _may_show(call, entry)
    ]
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
    stats = {each.consumer: Consumer(each.claimed, to_unix(each.last_at)) for each in consumers}
    return answer_json(200, Consumers(stats))


async def clear_activity(call: Call[NothingMore, NothingMore]) -> Answer:
    await call.broker.activity.clear()
    return answer_json(200, Cleared(success=True, message="Activity logs cleared successfully"))


async def _choose_ids(call: Call[Any, None], named: str | None) -> list[int] | None:
    """Return the queues to show; None for all, which includes deleted queues."""
    names = await choose_queues(call, named)
    if names is None:
        return None
    return [queue.queue_id for queue in await call.broker.queues.list_all() if queue.name in names]


async def _find_entries(
    call: Call[ActivityQuery, None], text: str, wanted: ActivityFilter
) -> list[Entry]:
    """Return the entries of one message's history that match, newest first."""
    message = read_id(text)
    if message is None:
        return []
    names = await choose_queues(call, call.parameters.queue_name)
    entries = await _list_entries(call, message)
    return [
        entry
        for entry in reversed(entries)
        if (names is None or entry.queue in names)
        and (wanted.kinds is None or entry.kind in wanted.kinds)
        and (wanted.consumer is None or entry.consumer == wanted.consumer)
        and (wanted.since is None or entry.at >= wanted.since)
        and (wanted.until is None or entry.at <= wanted.until)
        and (wanted.anomalous is None or bool(entry.anomalies) == wanted.anomalous)
        and (
            wanted.anomaly_type is None
            or any(anomaly.type == wanted.anomaly_type for anomaly in entry.anomalies)
        )
    ]


async def _list_entries(call: Call[Any, Any], message: MessageId) -> list[Entry]:
    return await call.broker.activity.list_message_entries(message, largest_body=LARGEST_PAYLOAD)


def _may_show(call: Call[Any, Any], entry: Entry) -> bool:
    """Return whether the key may see the entry; entries of deleted queues need an unlimited key."""
    identity = call.identity
    return identity.pattern is None or (entry.queue is not None and identity.may_use(entry.queue))


def _read_moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


OPERATIONS = (
    Operation(
        method="GET",
        path="/queue/activity",
        handler=list_activity,
        summary="List the activity log, newest first",
        description=(
            "Returns what happened to messages and queues, one entry per message, with the "
            "message's payload. Filters by "
            "queue, action, consumer and time search the newest 200,000 events, so they can "
            "miss older matches. The log covers the last 24 hours unless configured "
            "otherwise."
        ),
        parameters=ActivityQuery,
        answers={200: Response(Logs, "A page of the activity log.")},
        role=Role.READ,
        reach=queue_shown,
        compress=True,
        tag="activity",
    ),
    Operation(
        method="GET",
        path="/queue/activity/message/{id}",
        handler=show_history,
        summary="Show the history of a message, oldest first",
        description=(
            "Returns every event that the log still has about one message. The history of an "
            "unknown message is empty. An API key that is limited to some queues sees only "
            "events of those."
        ),
        parameters=ById,
        answers={200: Response(History, "The history, which may be empty.")},
        role=Role.READ,
        reach=looked_up,
        compress=True,
        tag="activity",
    ),
    Operation(
        method="GET",
        path="/queue/activity/anomalies",
        handler=list_anomalies,
        summary="List anomalies",
        description=(
            "Returns what the detectors found to be unusual, such as long processing or a "
            "lease that was lost. The summary counts all matches, not only those returned. At "
            "most 200 anomalies per detector and queue are stored each minute."
        ),
        parameters=AnomalyQuery,
        answers={200: Response(Anomalies, "The anomalies and their counts.")},
        role=Role.READ,
        reach=queue_shown,
        compress=True,
        tag="activity",
    ),
    Operation(
        method="GET",
        path="/queue/activity/consumers",
        handler=list_consumers,
        summary="Show how many messages each consumer dequeued",
        description=(
            "Returns counts by consumer, including what was dequeued just now. Only consumers "
            "that send a `consumerId` are counted. "
            "An API key that is limited to some queues sees only what was dequeued from "
            "those."
        ),
        parameters=ConsumerQuery,
        answers={200: Response(Consumers, "The consumers.")},
        role=Role.READ,
        reach=filtered,
        tag="activity",
    ),
    Operation(
        method="DELETE",
        path="/queue/activity/clear",
        handler=clear_activity,
        summary="Clear the activity log",
        description=(
            "Deletes anomalies and consumer statistics, and hides all earlier events. "
            "Messages and queues do not change. It takes an API key that is not limited to "
            "some queues."
        ),
        parameters=NothingMore,
        body=NothingMore,
        body_optional=True,
        answers={200: Response(Cleared, "The activity log is cleared.")},
        role=Role.ADMIN,
        reach=every_queue,
        tag="activity",
    ),
)
