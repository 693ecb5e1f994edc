"""Retries database calls that failed with a transient conflict."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, TypeVar

from laneway.domain.errors import TransientConflict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

RETRIES = 8


async def retry_conflicts(call: Callable[[], Awaitable[T]]) -> T:
    """Return what the call returns; retry transient conflicts up to RETRIES times."""
    for attempt in range(RETRIES):
        try:
            return await call()
        except TransientConflict:
            await asyncio.sleep(random.uniform(0, 0.002 * 2**attempt))  # noqa: S311 - only jitter
    return await call()
