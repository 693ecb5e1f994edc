"""The REST protocol under /api: queues and messages over HTTP and JSON."""

from __future__ import annotations

from laneway.server.operations import Surface
from laneway.server.rest import (
    acks,
    activity,
    clears,
    dequeues,
    documents,
    enqueues,
    events,
    health,
    message_edits,
    message_lists,
    overview,
    queues,
    transfer,
)
from laneway.server.rest.errors import ERRORS, explain

SURFACE = Surface(
    name="rest",
    prefix="/api",
    operations=(
        *enqueues.OPERATIONS,
        *dequeues.OPERATIONS,
        *acks.OPERATIONS,
        *health.OPERATIONS,
        *documents.OPERATIONS,
        *queues.OPERATIONS,
        *message_lists.OPERATIONS,
        *message_edits.OPERATIONS,
        *clears.OPERATIONS,
        *overview.OPERATIONS,
        *transfer.OPERATIONS,
        *activity.OPERATIONS,
        *events.OPERATIONS,
    ),
    explain=explain,
    errors=ERRORS,
    tags={
        "messages": "Enqueue, dequeue and settle messages; list, edit, move and delete them.",
        "queues": "Create, change, purge and delete queues.",
        "activity": "The activity log, anomalies and live updates.",
        "monitoring": "Health checks, counts and metrics.",
        "documents": "This description.",
    },
)

__all__ = ["SURFACE"]
