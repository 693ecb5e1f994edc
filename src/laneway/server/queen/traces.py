"""The routes for traces: notes of consumers about messages."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Raw

from laneway.domain.errors import NotFound
from laneway.server.access import every_queue, looked_up
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.wire import (
    SLASHED,
    Failure,
    GroupName,
    Limit,
    MessageName,
    MomentText,
    Offset,
    PartitionId,
    ShownTransactionId,
    TransactionId,
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
    """A trace: a note about a message."""

    transaction_id: TransactionId = msgspec.field(name="transactionId")
    partition_id: PartitionId = msgspec.field(name="partitionId")
    data: Annotated[Raw, Meta(description="Any JSON.")]
    consumer_group: Annotated[
        GroupName | None,
        Meta(description="Consumer group that records the trace. Default: the queue's own group."),
    ] = msgspec.field(name="consumerGroup", default=None)
    event_type: Annotated[
        TraceName, Meta(description="Type of the trace, 1 to 255 characters. Default: `info`.")
    ] = msgspec.field(name="eventType", default="info")
    trace_names: Annotated[
        Annotated[list[TraceName], Meta(max_length=100)] | None,
        Meta(description="Names under which to find the trace, at most 100."),
    ] = msgspec.field(name="traceNames", default=None)


class Paging(msgspec.Struct, kw_only=True):
    limit: Annotated[Limit, Meta(description="Entries per page, 1 to 1000. Default: 100.")] = 100
    offset: Annotated[Offset, Meta(description="Entries to skip. Default: 0.")] = 0


class ByName(Paging, kw_only=True):
    name: Annotated[
        TraceName,
        Meta(
            description="Name that the traces were recorded under. Percent-encode slashes as `%2F`."
        ),
    ]
    since: Annotated[
        MomentText | None,
        Meta(
            description="Only traces recorded at this time or later (ISO 8601, UTC unless it names a "
            "zone)."
        ),
    ] = msgspec.field(name="from", default=None)
    until: Annotated[
        MomentText | None,
        Meta(
            description="Only traces recorded at this time or earlier (ISO 8601, UTC unless it names a "
            "zone)."
        ),
    ] = msgspec.field(name="to", default=None)


class Noted(msgspec.Struct, kw_only=True):
    """A trace was recorded."""

    success: Annotated[bool, Meta(description="Always true.")]
    trace_id: Annotated[str, Meta(description="Id of the trace.")] = msgspec.field(name="traceId")
    created_at: Annotated[datetime, Meta(description="When it was recorded.")] = msgspec.field(
        name="createdAt"
    )


class TraceShown(msgspec.Struct, kw_only=True):
    """A trace of a message."""

    id: Annotated[str, Meta(description="Id of the trace.")]
    transaction_id: ShownTransactionId = msgspec.field(name="transactionId")
    partition_id: Annotated[str, Meta(description="Id of the message's partition.")] = (
        msgspec.field(name="partitionId")
    )
    queue_name: Annotated[str, Meta(description="Queue of the message.")] = msgspec.field(
        name="queueName"
    )
    partition_name: Annotated[str, Meta(description="Partition of the message.")] = msgspec.field(
        name="partitionName"
    )
    consumer_group: Annotated[str, Meta(description="Consumer group that recorded the trace.")] = (
        msgspec.field(name="consumerGroup")
    )
    event_type: Annotated[str, Meta(description="Type of the trace.")] = msgspec.field(
        name="eventType"
    )
    trace_names: Annotated[list[str], Meta(description="Names under which it can be found.")] = (
        msgspec.field(name="traceNames")
    )
    data: Annotated[Raw, Meta(description="What was recorded: any JSON.")]
    created_at: Annotated[datetime, Meta(description="When it was recorded.")] = msgspec.field(
        name="createdAt"
    )


class Traces(msgspec.Struct, kw_only=True):
    """Traces."""

    traces: Annotated[list[TraceShown], Meta(description="The traces.")]
    total: Annotated[int, Meta(description="How many traces match.")]


class NameShown(msgspec.Struct, kw_only=True):
    """A name that traces were recorded under."""

    trace_name: Annotated[str, Meta(description="The name.")] = msgspec.field(name="traceName")
    trace_count: Annotated[int, Meta(description="How many traces have it.")] = msgspec.field(
        name="traceCount"
    )
    message_count: Annotated[int, Meta(description="How many messages they are about.")] = (
        msgspec.field(name="messageCount")
    )
    last_seen: Annotated[datetime, Meta(description="When the newest of them was recorded.")] = (
        msgspec.field(name="lastSeen")
    )


class Names(msgspec.Struct, kw_only=True):
    """Names that traces were recorded under."""

    trace_names: Annotated[list[NameShown], Meta(description="The names.")] = msgspec.field(
        name="traceNames"
    )
    total: Annotated[int, Meta(description="How many names there are.")]


async def add_trace(call: Call[None, NewTrace]) -> Answer:
    body = call.body
    lane = read_lane(body.partition_id)
    if lane is None:
        raise refuse("partitionId", "use the partitionId that the message came with")
    if await find_lane(call, body.partition_id) is None:
        raise NotFound(
            f"partition {lane} not found: use the partitionId that the message came with"
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


async def list_of_message(call: Call[MessageName, None]) -> Answer:
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
        summary="Record a trace of a message",
        description=(
            "Records a note about a message, for example a step of its processing. Traces are "
            "kept as long as events. The message need not be in flight."
        ),
        body=NewTrace,
        example={
            "transactionId": "order-12",
            "partitionId": "7",
            "data": {"step": "charged"},
            "traceNames": ["customer-7"],
        },
        answers={
            201: Response(Noted, "The trace is recorded."),
            404: Response(
                Failure,
                "No partition has this `partitionId`. Use the one that the message came with.",
            ),
        },
        role=Role.WRITE,
        reach=looked_up,
        tag="traces",
    ),
    Operation(
        method="GET",
        path="/traces/names",
        handler=list_names,
        summary="List the names that traces were recorded under",
        description=(
            "Returns a page of names with the number of their traces. It takes an API key "
            "that is not limited to some queues."
        ),
        parameters=Paging,
        answers={200: Response(Names, "A page of names.")},
        role=Role.READ,
        reach=every_queue,
        tag="traces",
    ),
    Operation(
        method="GET",
        path="/traces/by-name/{name}",
        handler=list_by_name,
        summary="List the traces under a name, newest first",
        description=(
            "Returns a page of the traces that were recorded under a name, whatever message "
            "they are about. It takes an API key that is not limited to some queues."
        ),
        parameters=ByName,
        answers={200: Response(Traces, "A page of traces; an empty list if there are none.")},
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
        description="Returns the traces that consumers recorded about one message.",
        parameters=MessageName,
        answers={200: Response(Traces, "The traces; an empty list if there are none.")},
        role=Role.READ,
        reach=looked_up,
        compress=True,
        forms={"transactionId": SLASHED},
        tag="traces",
    ),
)
