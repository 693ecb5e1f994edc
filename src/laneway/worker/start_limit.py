"""The rate limit of a handler: how many messages may be claimed, and so start, now."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from laneway.library.rate_limit import TokenBucket

if TYPE_CHECKING:
    from laneway.library.rate_limit import RateLimit

# Rounded up to this, so that a token is there after the wait.
_RESOLUTION = timedelta(milliseconds=1)


class StartLimit:
    """Limits one handler's claims. It does not prefetch, so what it claims starts at once.

    A message that waits for the limit is not claimed: it has no lease to lose, and another worker
    may handle it.
    """

    def __init__(self, limit: RateLimit) -> None:
        self._bucket = TokenBucket(limit)

    async def wait(self, want: int) -> int:
        """Return how many messages to claim, up to `want`, once the limit allows one."""
        while not (available := self._bucket.status.available):
            pause = self._bucket.time_until(1) + _RESOLUTION
            await asyncio.sleep(pause.total_seconds())
        return min(want, available)

    def spend(self, n: int) -> None:
        """Count messages that were claimed; no more than `wait` allowed."""
        self._bucket.take(n)
