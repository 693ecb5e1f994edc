"""Calls of the database that go on until it is reachable."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

from laneway.domain.errors import Retryable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

logger = logging.getLogger(__name__)

# Pauses between attempts, in seconds.
RETRY_PAUSE = 0.5


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """Return what the call returns once the database is reachable; call it again until then."""
    while True:
        try:
            return await call()
        except Retryable as error:
            logger.debug("the database is unreachable: %s", error)
        await asyncio.sleep(RETRY_PAUSE)
