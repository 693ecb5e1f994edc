"""The routes about traces: what consumers note about messages on their way."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Raw

from laneway.domain.errors import NotFound
from laneway.server.access import every_queue, looked_up
from laneway.server.operations import Operation, Role
from laneway.server.queen.wire import (
    SLASHED,
    Failure,
    GroupName,
    KeyText,
    LaneText,
    Limit,
    MomentText,
    Offset,
    find_lane,
    read_group,
    read_lane,
    read_moment,
    refuse,
    show_group,
)
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.streams import Trace
    from laneway.server.calls import Call

TraceName = Annotated[str, Meta(min_length=1, max_length=255)]


class NewTrace(msgspec.Struct, kw_only=True):
    """A note about a message; data is any JSON."""

    transaction_id: KeyText = msgspec.field(name="transactionId")
    partition_id: LaneText = msgspec.field(name="partitionId")
    data: Raw
    consumer_group: GroupName | None = msgspec.field(name="consumerGroup", default=None)
    event_type: TraceName = msgspec.field(name="eventType", default="info")
    trace_names: Annotated[list[TraceName], Meta(max_length=100)] | None = msgspec.field(
        name="traceNames", default=None
    )


class ByKey(msgspec.Struct, kw_only=True):
    partition_id: LaneText = msgspec.field(name="partitionId")
    transaction_id: KeyText = msgspec.field(name="transactionId")


class Paging(msgspec.Struct, kw_only=True):
    limit: Limit = 100
    offset: Offset = 0


class ByName(Paging, kw_only=True):
    name: TraceName
    since: MomentText | None = msgspec.field(name="from", default=None)
    until: MomentText | None = msgspec.field(name="to", default=None)


class Noted(msgspec.Struct, kw_only=True):
    success: bool
    trace_id: str = msgspec.field(name="traceId")
    created_at: datetime = msgspec.field(name="createdAt")


class TraceShown(msgspec.Struct, kw_only=True):
    id: str
    transaction_id: str = msgspec.field(name="transactionId")
    partition_id: str = msgspec.field(name="partitionId")
    queue_name: str = msgspec.field(name="queueName")
    partition_name: str = msgspec.field(name="partitionName")
    consumer_group: str = msgspec.field(name="consumerGroup")
    event_type: str = msgspec.field(name="eventType")
    trace_names: list[str] = msgspec.field(name="traceNames")
    data: Raw
    created_at: datetime = msgspec.field(name="createdAt")


class Traces(msgspec.Struct, kw_only=True):
    traces: list[TraceShown]
    total: int


class NameShown(msgspec.Struct, kw_only=True):
    trace_name: str = msgspec.field(name="traceName")
    trace_count: int = msgspec.field(name="traceCount")
    message_count: int = msgspec.field(name="messageCount")
    last_seen: datetime = msgspec.field(name="lastSeen")


class Names(msgspec.Struct, kw_only=True):
    trace_names: list[NameShown] = msgspec.field(name="traceNames")
    total: int


async def add_trace(call: Call[None, NewTrace]) -> Answer:
    body = call.body
    lane = read_lane(body.partition_id)
    if lane is None:
        raise refuse("partitionId", "use the partitionId that the message came with")
    if await find_lane(call, body.partition_id) is None:
        raise NotFound(
            f"partition {lane} does not exist: Use the partitionId that the message came with."
        )
    trace_id, at = await call.broker.traces.record(
        lane,
        body.transaction_id,
        group=read_group(body.consumer_group),
        event_type=body.event_type,
        names=body.trace_names or (),
        data=bytes(body.data).decode(),
    )
    return answer_json(201, Noted(success=True, trace_id=str(trace_id), created_at=at))


async def list_of_message(call: Call[ByKey, None]) -> Answer:
    lane = await find_lane(call, call.parameters.partition_id)
    found = (
        []
        if lane is None
        else await call.broker.traces.list_by_message(lane, call.parameters.transaction_id)
    )
    return answer_json(200, _show_all(found))


async def list_by_name(call: Call[ByName, None]) -> Answer:
    wanted = call.parameters
    found = await call.broker.traces.list_by_name(
        wanted.name,
        since=None if wanted.since is None else read_moment(wanted.since, "from"),
        until=None if wanted.until is None else read_moment(wanted.until, "to"),
        limit=wanted.limit,
        offset=wanted.offset,
    )
    return answer_json(200, _show_all(found))


async def list_names(call: Call[Paging, None]) -> Answer:
    found = await call.broker.traces.list_names(
        limit=call.parameters.limit, offset=call.parameters.offset
    )
    return answer_json(
        200,
        Names(
            trace_names=[
                NameShown(
                    trace_name=item.name,
                    trace_count=item.traces,
                    message_count=item.messages,
                    last_seen=item.last_at,
                )
                for item in found
            ],
            total=found[0].total if found else 0,
        ),
    )


def _show_all(found: Sequence[Trace]) -> Traces:
    return Traces(
        traces=[
            TraceShown(
                id=str(trace.trace_id),
                transaction_id=trace.key,
                partition_id=str(trace.lane),
                queue_name=trace.queue,
                partition_name=trace.partition,
                consumer_group=show_group(trace.group),
                event_type=trace.event_type,
                trace_names=list(trace.names),
                data=Raw(trace.data.encode()),
                created_at=trace.at,
            )
            for trace in found
        ],
        total=found[0].total if found else 0,
    )


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        method="POST",
        path="/traces",
        handler=add_trace,
        summary="Note something about a message",
        body=NewTrace,
        answers={201: Noted, 404: Failure},
        role=Role.WRITE,
        reach=looked_up,
        tag="traces",
    ),
    Operation(
        method="GET",
        path="/traces/names",
        handler=list_names,
        summary="List the names under which there are traces",
        parameters=Paging,
        answers={200: Names},
        role=Role.READ,
        reach=every_queue,
        tag="traces",
    ),
    Operation(
        method="GET",
        path="/traces/by-name/{name}",
        handler=list_by_name,
        summary="List the traces under a name, newest first",
        parameters=ByName,
        answers={200: Traces},
        role=Role.READ,
        reach=every_queue,
        compress=True,
        forms={"name": SLASHED},
        tag="traces",
    ),
    Operation(
        method="GET",
        path="/traces/{partitionId}/{transactionId}",
        handler=list_of_message,
        summary="List the traces of a message, oldest first",
        parameters=ByKey,
        answers={200: Traces},
        role=Role.READ,
        reach=looked_up,
        compress=True,
        forms={"transactionId": SLASHED},
        tag="traces",
    ),
)
