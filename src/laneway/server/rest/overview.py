"""The routes that show how much there is: counts, sizes, and a look into every state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from laneway.domain.listings import MessageFilter
from laneway.domain.messages import Status
from laneway.domain.queues import DEFAULT_GROUP
from laneway.server.operations import Operation, Role
from laneway.server.responses import Answer, answer_json
from laneway.server.rest.access import choose_queues, queue_shown
from laneway.server.rest.objects import show_message
from laneway.server.rest.wire import MessageObject, QueueName, Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.queues import Counts
    from laneway.server.calls import Call

# The newest of each state that the status shows; lists have the rest.
MOST_SHOWN = 100


class QueueMetrics(msgspec.Struct, kw_only=True):
    """Messages by state. Sizes in bytes, by about a thousand of the newest messages."""

    queued: int
    processing: int
    acknowledged: int
    dead: int
    archived: int
    main_queue_size: int
    processing_size: int
    processing_queue_size: int
    dead_letter_size: int
    dead_letter_queue_size: int
    acknowledged_size: int
    acknowledged_queue_size: int
    avg_payload_size: float
    max_payload_size: int


class MetricsQuery(msgspec.Struct, kw_only=True):
    queue_name: QueueName | None = msgspec.field(name="queueName", default=None)


class StatusQuery(msgspec.Struct, kw_only=True):
    include_messages: bool = True
    queue_name: QueueName | None = msgspec.field(name="queueName", default=None)


class PartStatus(msgspec.Struct):
    """A part's length, and its newest messages, a hundred at the most."""

    name: str
    length: int
    messages: list[MessageObject]


class SettledStatus(PartStatus):
    total: int


class Totals(msgspec.Struct):
    total_processed: int = msgspec.field(name="totalProcessed")
    total_failed: int = msgspec.field(name="totalFailed")


class QueueStatus(msgspec.Struct, kw_only=True, rename="camel"):
    main_queue: PartStatus
    processing_queue: PartStatus
    dead_letter_queue: PartStatus
    acknowledged_queue: SettledStatus
    archived_queue: PartStatus
    metadata: Totals
    available_types: list[str]


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
        for status in Status:
            page = await call.broker.listings.read_page(
                queues, status, MessageFilter(), limit=MOST_SHOWN
            )
            messages[status] = [show_message(message) for message in page.messages]

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
        summary="Count messages by state, and say how large they are",
        parameters=MetricsQuery,
        answers={200: QueueMetrics, 404: Reply},
        role=Role.READ,
        reach=queue_shown,
        tag="monitoring",
    ),
    Operation(
        method="GET",
        path="/queue/status",
        handler=show_status,
        summary="Show every state with its newest messages",
        parameters=StatusQuery,
        answers={200: QueueStatus, 404: Reply},
        role=Role.READ,
        reach=queue_shown,
        compress=True,
        tag="monitoring",
    ),
)
