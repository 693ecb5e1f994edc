"""The routes about what happened: the log, one message's history, anomalies, consumers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from laneway.domain.activity import ActivityFilter, AnomalyFilter, Kind, Severity
from laneway.server.answers import answer_json
from laneway.server.errors import InvalidInput, Issue
from laneway.server.operations import Operation, Role, every_queue, no_queue
from laneway.server.rest.holding import read_id
from laneway.server.rest.objects import to_unix
from laneway.server.rest.reach import choose_queues, queue_of_message, queue_shown
from laneway.server.rest.states import STATES
from laneway.server.rest.wire import QueueName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.activity import Entry, Found, Remark
    from laneway.server.answers import Answer
    from laneway.server.calls import Call
    from laneway.server.settings import ServerSettings

# Unix seconds, until the year 9999.
Moment = Annotated[float, Meta(ge=0, le=253_402_300_799)]
Text = Annotated[str, Meta(max_length=255)]
Limit = Annotated[int, Meta(ge=1, le=1000)]
# An anomaly shows the payload it is about up to this size.
LARGEST_PAYLOAD = 16 * 1024

# The protocol's names of what can happen; the last four are ours.
ACTIONS: dict[str, str] = {
    Kind.PUSHED: "enqueue",
    Kind.CLAIMED: "dequeue",
    Kind.ACKED: "acknowledge",
    Kind.NACKED: "nack",
    Kind.DEAD: "move_to_dlq",
    Kind.EXPIRED: "timeout_requeue",
    Kind.TIMED_OUT: "timeout_to_dlq",
    Kind.MOVED: "move",
    Kind.DELETED: "delete",
    Kind.DELETED_MANY: "bulk_delete",
    Kind.DROPPED: "delete",
    Kind.CLEARED: "clear_queue",
    Kind.PURGED: "purge_queue",
    Kind.QUEUE_CREATED: "create_queue",
    Kind.QUEUE_UPDATED: "update_queue",
    Kind.QUEUE_RENAMED: "rename_queue",
    Kind.QUEUE_DELETED: "delete_queue",
    Kind.RELEASED: "release",
    Kind.EDITED: "edit",
    Kind.SOUGHT: "seek",
    Kind.ACK_REFUSED: "ack_refused",
}
# A clear of all queues is on record as a purge of each.
_FILTERS = {"clear_all_queues": [str(Kind.PURGED)]} | {
    action: [str(kind) for kind, name in ACTIONS.items() if name == action]
    for action in ACTIONS.values()
}

_PARTS = {str(state): part for part, state in STATES.items()}
_PATHS: dict[str, tuple[str | None, str | None]] = {
    Kind.PUSHED: (None, "main"),
    Kind.CLAIMED: ("main", "processing"),
    Kind.ACKED: ("processing", "acknowledged"),
    Kind.NACKED: ("processing", "main"),
    Kind.RELEASED: ("processing", "main"),
    Kind.EXPIRED: ("processing", "main"),
    Kind.DEAD: ("processing", "dead"),
    Kind.TIMED_OUT: ("processing", "dead"),
    Kind.MOVED: ("processing", "main"),
}
_BY_SERVER = {Kind.EXPIRED, Kind.TIMED_OUT, Kind.DROPPED}
_BY_HAND = {
    Kind.MOVED,
    Kind.DELETED,
    Kind.DELETED_MANY,
    Kind.EDITED,
    Kind.CLEARED,
    Kind.PURGED,
    Kind.SOUGHT,
    Kind.QUEUE_CREATED,
    Kind.QUEUE_UPDATED,
    Kind.QUEUE_RENAMED,
    Kind.QUEUE_DELETED,
}
_SETTLED = {Kind.ACKED, Kind.NACKED, Kind.RELEASED, Kind.EXPIRED, Kind.DEAD, Kind.TIMED_OUT}
_SEVERITIES = [str(severity) for severity in Severity]
_MILLISECOND = timedelta(milliseconds=1)


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


class AnomalyObject(msgspec.Struct, kw_only=True):
    type: str
    severity: str
    description: str
    threshold: float | UnsetType = UNSET
    actual: float | UnsetType = UNSET


class Log(msgspec.Struct, kw_only=True):
    """What happened to one message, or to a queue; timestamp is Unix seconds.

    batch_id and batch_size: of those that one call dealt with together. source_queue and
    dest_queue: the parts of the queue it went between.
    """

    log_id: str
    message_id: str | None
    action: str
    timestamp: float
    queue: str | None
    group: str | None
    source_queue: str | None
    dest_queue: str | None
    priority: int | None
    message_type: str | None
    consumer_id: str | None
    lock_token: str | None
    attempt_count: int | None
    max_attempts: int | None
    attempts_remaining: int | None
    message_age_ms: float | None
    time_in_queue_ms: float | None
    processing_time_ms: float | None
    payload_size_bytes: int | None
    error_reason: str | None
    triggered_by: str | None
    batch_id: str | None
    batch_size: int | None
    anomaly: AnomalyObject | None


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


class AnomalyEntry(msgspec.Struct, kw_only=True):
    """Something remarkable; the payload is there while the log has it and it is small."""

    log_id: str
    message_id: str | None
    action: str
    timestamp: float
    queue: str | None
    consumer_id: str | None
    payload: Raw | None
    anomaly: AnomalyObject


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


class _Move(msgspec.Struct):
    from_: str | None = msgspec.field(name="from", default=None)
    to: str | None = None


async def list_activity(call: Call[ActivityQuery, None]) -> Answer:
    query = call.parameters
    wanted = ActivityFilter(
        queue_ids=await _choose_ids(call, query.queue_name),
        kinds=_read_actions(query.action),
        consumer=query.consumer_id,
        since=_read_moment(query.start_time),
        until=_read_moment(query.end_time),
        anomalous=query.has_anomaly,
        anomaly_type=query.anomaly_type,
    )
    if query.message_id is None:
        page = await call.broker.list_activity(wanted, limit=query.limit + 1, offset=query.offset)
        entries, total = page.entries, page.total
    else:
        found = await _find_entries(call, query.message_id, wanted)
        entries, total = found[query.offset : query.offset + query.limit + 1], len(found)
    more = len(entries) > query.limit
    total = max(total, query.offset + len(entries)) if entries else total
    logs = [_show(entry, call.settings) for entry in entries[: query.limit]]
    pages = Pagination(
        total=total, limit=query.limit, offset=query.offset, has_more=more, has_more_too=more
    )
    return answer_json(200, Logs(logs, total, pages))


async def show_history(call: Call[ById, None]) -> Answer:
    message = read_id(call.parameters.id)
    entries = [] if message is None else await call.broker.list_message_activity(message)
    history = [_show(entry, call.settings) for entry in entries]
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
    found = await call.broker.list_anomalies(
        wanted,
        sort=columns.get(query.sort_by, query.sort_by),
        descending=query.sort_order.lower() == "desc",
        limit=query.limit,
        largest_body=LARGEST_PAYLOAD,
    )
    summary = Summary(0, {}, dict.fromkeys(reversed(_SEVERITIES), 0))
    for kind, severity, count in await call.broker.count_anomalies(wanted):
        summary.total += count
        summary.by_type[kind] = summary.by_type.get(kind, 0) + count
        summary.by_severity[severity] += count
    return answer_json(200, Anomalies([_show_found(each) for each in found], summary))


async def list_consumers(call: Call[ConsumerQuery, None]) -> Answer:
    consumers = await call.broker.list_consumers(
        await _choose_ids(call, None), consumer=call.parameters.consumer_id
    )
    stats = {each.consumer: Consumer(each.taken, to_unix(each.last_at)) for each in consumers}
    return answer_json(200, Consumers(stats))


async def clear_activity(call: Call[None, None]) -> Answer:
    await call.broker.clear_activity()
    return answer_json(200, Cleared(success=True, message="Activity logs cleared successfully"))


async def _choose_ids(call: Call[Any, None], named: str | None) -> list[int] | None:
    """Return the queues to show, None for all: a deleted queue's activity is shown with all."""
    names = await choose_queues(call, named)
    if names is None:
        return None
    return [queue.queue_id for queue in await call.broker.list_queues() if queue.name in names]


async def _find_entries(
    call: Call[ActivityQuery, None], text: str, wanted: ActivityFilter
) -> list[Entry]:
    """Return what matches of one message's history, newest first."""
    message = read_id(text)
    if message is None:
        return []
    names = await choose_queues(call, call.parameters.queue_name)
    entries = await call.broker.list_message_activity(message)
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


def _read_actions(text: str | None) -> list[str] | None:
    if text is None:
        return None
    kinds: list[str] = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        if name not in _FILTERS:
            raise InvalidInput(
                [Issue("invalid_enum_value", ("action",), f"Invalid enum value {name!r}")]
            )
        kinds += _FILTERS[name]
    return kinds or None


def _read_moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _show(entry: Entry, settings: ServerSettings) -> Log:
    facts = entry.facts
    limit = facts.max_attempts if facts is not None else None
    age = None if facts is None else max((entry.at - facts.created_at) / _MILLISECOND, 0)
    held = None
    if entry.since is not None and entry.kind in _SETTLED:
        held = max((entry.at - entry.since) / _MILLISECOND, 0)
    source, target = _find_path(entry)
    batch = entry.batch if entry.batch is not None and entry.batch > 1 else None
    return Log(
        log_id=_name_log(entry.event_id, entry.message and entry.message.seq),
        message_id=None if entry.message is None else str(entry.message),
        action=ACTIONS.get(entry.kind, entry.kind),
        timestamp=to_unix(entry.at),
        queue=entry.queue,
        group=entry.group,
        source_queue=source,
        dest_queue=target,
        priority=entry.priority,
        message_type=entry.partition,
        consumer_id=entry.consumer,
        lock_token=None if entry.token is None else str(entry.token),
        attempt_count=entry.attempt,
        max_attempts=limit,
        attempts_remaining=None
        if limit is None or entry.attempt is None
        else max(limit - entry.attempt, 0),
        message_age_ms=_round(age),
        time_in_queue_ms=_round(age) if entry.kind == Kind.CLAIMED else None,
        processing_time_ms=_round(held),
        payload_size_bytes=None if facts is None else facts.size,
        error_reason=entry.reason,
        triggered_by=_find_actor(entry, settings),
        batch_id=None if batch is None else str(entry.xid),
        batch_size=batch,
        anomaly=_choose_remark(entry.remarks),
    )


def _show_found(found: Found) -> AnomalyEntry:
    body = None if found.facts is None else found.facts.body
    name = f"anomaly-{found.anomaly_id}"
    if found.event_id is not None:
        name = _name_log(found.event_id, found.message and found.message.seq)
    return AnomalyEntry(
        log_id=name,
        message_id=None if found.message is None else str(found.message),
        action=ACTIONS.get(found.kind, found.kind),
        timestamp=to_unix(found.at),
        queue=found.queue,
        consumer_id=found.consumer,
        payload=None if body is None else Raw(body),
        anomaly=_show_remark(found.remark),
    )


def _find_path(entry: Entry) -> tuple[str | None, str | None]:
    if entry.kind == Kind.MOVED and entry.detail is not None:
        move = msgspec.json.decode(entry.detail, type=_Move)
        return _PARTS.get(move.from_ or ""), _PARTS.get(move.to or "")
    return _PATHS.get(entry.kind, (None, None))


def _find_actor(entry: Entry, settings: ServerSettings) -> str | None:
    if entry.kind in _BY_SERVER:
        return settings.actor
    if entry.kind in _BY_HAND:
        return settings.manual_actor
    return entry.consumer


def _choose_remark(remarks: Sequence[Remark]) -> AnomalyObject | None:
    """Return the gravest."""
    if not remarks:
        return None
    return _show_remark(max(remarks, key=lambda remark: _SEVERITIES.index(remark.severity)))


def _show_remark(remark: Remark) -> AnomalyObject:
    return AnomalyObject(
        type=remark.type,
        severity=remark.severity,
        description=remark.description,
        threshold=UNSET if remark.threshold is None else remark.threshold,
        actual=UNSET if remark.actual is None else remark.actual,
    )


def _name_log(event_id: int, seq: int | None) -> str:
    return str(event_id) if seq is None else f"{event_id}-{seq}"


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


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
        reach=queue_of_message,
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
        reach=no_queue,
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
