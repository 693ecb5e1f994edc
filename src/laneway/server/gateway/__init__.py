"""The gateway's API under /api/v1/relay, and the webhooks of its targets under /api/v1/webhooks."""

from __future__ import annotations

from laneway.server.gateway import lists, notices, requests, statuses
from laneway.server.gateway.errors import ERRORS, explain
from laneway.server.operations import Surface

SURFACES = (
    Surface(
        name="gateway",
        prefix="/api/v1/relay",
        operations=(
            *requests.OPERATIONS,
            *statuses.OPERATIONS,
            *lists.OPERATIONS,
        ),
        explain=explain,
        errors=ERRORS,
        tags={"gateway": "Have requests sent to other APIs, and follow what became of them."},
    ),
    Surface(
        name="gateway webhooks",
        prefix="/api/v1/webhooks",
        operations=notices.OPERATIONS,
        explain=explain,
        errors=ERRORS,
    ),
)

__all__ = ["SURFACES"]
