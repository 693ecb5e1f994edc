"""The routes that show counts and sizes, and the newest messages of each state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from laneway.domain.listings import MessageFilter
from laneway.domain.messages import Status
from laneway.domain.queues import DEFAULT_GROUP
from laneway.server.operations import Operation, Response, Role
from laneway.server.responses import Answer, answer_json
from laneway.server.rest.access import choose_queues, queue_shown
from laneway.server.rest.objects import show_message
from laneway.server.rest.wire import QUEUE_NOT_FOUND, MessageObject, QueueName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.queues import Counts
    from laneway.server.calls import Call

# How many of the newest messages of each state the status shows.
MOST_SHOWN = 100


class QueueMetrics(msgspec.Struct, kw_only=True):
    """Messages by state, and payload sizes."""

    queued: Annotated[int, Meta(description="Queued messages: ready or delayed.")]
    processing: Annotated[int, Meta(description="Messages in flight.")]
    acknowledged: Annotated[int, Meta(description="Acked messages that are still kept.")]
    dead: Annotated[int, Meta(description="Dead letters.")]
    archived: Annotated[int, Meta(description="Archived messages.")]
    main_queue_size: Annotated[
        int, Meta(description="The same as `queued`. For compatibility with Relay.")
    ]
    processing_size: Annotated[
        int, Meta(description="The same as `processing`. For compatibility with Relay.")
    ]
    processing_queue_size: Annotated[
        int, Meta(description="The same as `processing`. For compatibility with Relay.")
    ]
    dead_letter_size: Annotated[
        int, Meta(description="The same as `dead`. For compatibility with Relay.")
    ]
    dead_letter_queue_size: Annotated[
        int, Meta(description="The same as `dead`. For compatibility with Relay.")
    ]
    acknowledged_size: Annotated[
        int, Meta(description="The same as `acknowledged`. For compatibility with Relay.")
    ]
    acknowledged_queue_size: Annotated[
        int, Meta(description="The same as `acknowledged`. For compatibility with Relay.")
    ]
    avg_payload_size: Annotated[
        float,
        Meta(
            description="Average payload size in bytes, from a sample of about a thousand of the newest "
            "messages."
        ),
    ]
    max_payload_size: Annotated[
        int, Meta(description="Largest payload size in bytes, from the same sample.")
    ]


class MetricsQuery(msgspec.Struct, kw_only=True):
    queue_name: Annotated[
        QueueName | None,
        Meta(description="Only this queue. Default: all queues that the API key may use."),
    ] = msgspec.field(name="queueName", default=None)


class StatusQuery(msgspec.Struct, kw_only=True):
    include_messages: Annotated[
        bool, Meta(description="Whether to return messages, or counts only. Default: true.")
    ] = True
    queue_name: Annotated[
        QueueName | None,
        Meta(description="Only this queue. Default: all queues that the API key may use."),
    ] = msgspec.field(name="queueName", default=None)


class PartStatus(msgspec.Struct):
    """The messages of one state."""

    name: Annotated[str, Meta(description="The state, as `queueType` names it.")]
    length: Annotated[int, Meta(description="How many messages are in this state.")]
    messages: Annotated[list[MessageObject], Meta(description="The newest of them, at most 100.")]


class SettledStatus(PartStatus):
    """The acked messages."""

    total: Annotated[int, Meta(description="The same as `length`. For compatibility with Relay.")]


class Totals(msgspec.Struct):
    """How many messages were settled."""

    total_processed: Annotated[int, Meta(description="Acked messages that are still kept.")] = (
        msgspec.field(name="totalProcessed")
    )
    total_failed: Annotated[int, Meta(description="Dead letters.")] = msgspec.field(
        name="totalFailed"
    )


class QueueStatus(msgspec.Struct, kw_only=True, rename="camel"):
    """Counts of every state, with the newest messages."""

    main_queue: Annotated[PartStatus, Meta(description="Queued messages: ready or delayed.")]
    processing_queue: Annotated[PartStatus, Meta(description="Messages in flight.")]
    dead_letter_queue: Annotated[PartStatus, Meta(description="Dead letters.")]
    acknowledged_queue: Annotated[SettledStatus, Meta(description="Acked messages.")]
    archived_queue: Annotated[PartStatus, Meta(description="Archived messages.")]
    metadata: Annotated[Totals, Meta(description="How many messages were settled.")]
    available_types: Annotated[list[str], Meta(description="Types of the messages that there are.")]


async def show_metrics(call: Call[MetricsQuery, None]) -> Answer:
    queues = await choose_queues(call, call.parameters.queue_name)
    counts = await _count(call, queues)
    sizes = await call.broker.statistics.sample_sizes(queues)
    queued, processing, dead, acknowledged = (
        counts[Status.QUEUED],
        counts[Status.PROCESSING],
        counts[Status.DEAD],
        counts[Status.ACKNOWLEDGED],
    )
    return answer_json(
        200,
        QueueMetrics(
            queued=queued,
            processing=processing,
            acknowledged=acknowledged,
            dead=dead,
            archived=counts[Status.ARCHIVED],
            main_queue_size=queued,
            processing_size=processing,
            processing_queue_size=processing,
            dead_letter_size=dead,
            dead_letter_queue_size=dead,
            acknowledged_size=acknowledged,
            acknowledged_queue_size=acknowledged,
            avg_payload_size=sizes.average,
            max_payload_size=sizes.largest,
        ),
    )


async def show_status(call: Call[StatusQuery, None]) -> Answer:
    queues = await choose_queues(call, call.parameters.queue_name)
    counts = await _count(call, queues)
    messages: dict[Status, list[MessageObject]] = {status: [] for status in Status}
    if call.parameters.include_messages:
        tokens = await call.service.find_lease_tokens()
        for status in Status:
            page = await call.broker.listings.read_page(
                queues, status, MessageFilter(), limit=MOST_SHOWN
            )
            messages[status] = [show_message(message, tokens) for message in page.messages]

    def show(name: str, status: Status) -> PartStatus:
        return PartStatus(name, counts[status], messages[status])

    settled, dead = counts[Status.ACKNOWLEDGED], counts[Status.DEAD]
    return answer_json(
        200,
        QueueStatus(
            main_queue=show("main", Status.QUEUED),
            processing_queue=show("processing", Status.PROCESSING),
            dead_letter_queue=show("dead", Status.DEAD),
            acknowledged_queue=SettledStatus(
                "acknowledged", settled, messages[Status.ACKNOWLEDGED], settled
            ),
            archived_queue=show("archived", Status.ARCHIVED),
            metadata=Totals(settled, dead),
            available_types=await call.broker.queues.list_partitions(queues),
        ),
    )


async def _count(call: Call[Any, Any], queues: Sequence[str] | None) -> dict[Status, int]:
    if queues is not None and len(queues) == 1:
        counts = await call.broker.statistics.counts(queues[0])
    else:
        counts = [
            count
            for count in await call.broker.statistics.counts()
            if count.group == DEFAULT_GROUP and (queues is None or count.queue in queues)
        ]
    return {status: sum(_read(count, status) for count in counts) for status in Status}


def _read(counts: Counts, status: Status) -> int:
    number: int = getattr(counts, status.value)
    return number


OPERATIONS = (
    Operation(
        method="GET",
        path="/queue/metrics",
        handler=show_metrics,
        summary="Count messages by state",
        description=(
            "Returns the number of messages in each state and the size of their payloads, for "
            "one queue or for all that the API key may use. Counts are computed by "
            "subtraction, so they cost the same however many messages there are."
        ),
        parameters=MetricsQuery,
        answers={200: Response(QueueMetrics, "The counts."), 404: QUEUE_NOT_FOUND},
        role=Role.READ,
        reach=queue_shown,
        tag="monitoring",
    ),
    Operation(
        method="GET",
        path="/queue/status",
        handler=show_status,
        summary="Show every state with its newest messages",
        description=(
            "Returns the number of messages in each state with up to 100 of the newest, for "
            "one queue or for all that the API key may use. Set `include_messages=false` for "
            "counts only."
        ),
        parameters=StatusQuery,
        answers={200: Response(QueueStatus, "Every state."), 404: QUEUE_NOT_FOUND},
        role=Role.READ,
        reach=queue_shown,
        compress=True,
        tag="monitoring",
    ),
)
