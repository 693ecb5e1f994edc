"""Pauses before a worker repeats a call that failed for the moment."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from laneway.domain.errors import Retryable

PAUSE = timedelta(milliseconds=200)


async def wait_after(error: Retryable) -> None:
    """Wait for the error's `retry_after`, or for `PAUSE` if it has none."""
    await asyncio.sleep((error.retry_after or PAUSE).total_seconds())
