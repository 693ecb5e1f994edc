"""Records acks whose lock token is not that of the current lease."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import LanewayError
from laneway.server.rest.leases import Problem, read_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.server.calls import Call
    from laneway.server.lease_tokens import LeaseTokens
    from laneway.server.rest.leases import Named

logger = logging.getLogger(__name__)


async def record_refusals(
    call: Call[Any, Any],
    items: Sequence[Named],
    results: Sequence[Problem | None],
    tokens: LeaseTokens,
) -> None:
    """Record lost locks, with their tokens; an error here does not affect the answer."""
    if not call.settings.activity.enabled or Problem.LOCK_LOST not in results:
        return
    refusals = [
        (message, lease and lease.token)
        for item, result in zip(items, results, strict=True)
        if result is Problem.LOCK_LOST and (message := read_id(item.id)) is not None
        for lease in (tokens.read(item.lock_token or "", message.lane, message.seq),)
    ]
    try:
        await call.broker.activity.record_refusals(refusals)
    except LanewayError as error:
        logger.debug("cannot record %d refused acks in the activity log: %s", len(refusals), error)
