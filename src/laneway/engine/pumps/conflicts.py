"""Calls that lost a race are made again, by us rather than by the caller."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, TypeVar

from laneway.domain.errors import TransientConflict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

RETRIES = 8


async def persist(call: Callable[[], Awaitable[T]]) -> T:
    """Return what the call returns, however often it loses a race, within reason."""
    for attempt in range(RETRIES):
        try:
            return await call()
        except TransientConflict:
            await asyncio.sleep(random.uniform(0, 0.002 * 2**attempt))  # noqa: S311 - only to part
    return await call()
