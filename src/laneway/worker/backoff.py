"""How long a worker waits before it asks again who could not answer."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from laneway.domain.errors import Retryable

PAUSE = timedelta(milliseconds=200)


async def wait_after(error: Retryable) -> None:
    """Wait as long as the error says, else a moment."""
    await asyncio.sleep((error.retry_after or PAUSE).total_seconds())
