"""The REST protocol under /api: queues and messages over plain HTTP and JSON."""

from __future__ import annotations

from laneway.server.operations import Surface
from laneway.server.rest import (
    acks,
    activity,
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
        *overview.OPERATIONS,
        *transfer.OPERATIONS,
        *activity.OPERATIONS,
        *events.OPERATIONS,
    ),
    explain=explain,
    errors=ERRORS,
    tags={
        "messages": "Add, take and settle messages; list, edit, move and delete them.",
        "queues": "Make, change, purge and delete queues.",
        "activity": "What happened, what was remarkable, and what happens now.",
        "monitoring": "Whether the server is well, and how much there is.",
        "documents": "This description.",
    },
)

__all__ = ["SURFACE"]
