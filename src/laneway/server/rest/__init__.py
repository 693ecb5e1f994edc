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
)

__all__ = ["SURFACE"]
