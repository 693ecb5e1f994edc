"""The REST protocol under /api: queues and messages over plain HTTP and JSON."""

from __future__ import annotations

from laneway.server.operations import Surface
from laneway.server.rest import (
    activity,
    consuming,
    documents,
    events,
    health,
    listing,
    managing,
    overview,
    producing,
    queues,
    settling,
    transfer,
)
from laneway.server.rest.errors import ERRORS, explain

SURFACE = Surface(
    name="rest",
    prefix="/api",
    operations=(
        *producing.OPERATIONS,
        *consuming.OPERATIONS,
        *settling.OPERATIONS,
        *health.OPERATIONS,
        *documents.OPERATIONS,
        *queues.OPERATIONS,
        *listing.OPERATIONS,
        *managing.OPERATIONS,
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
