"""Ends leases as soon as they expire, for protocols that promise more than the regular rounds."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from laneway.domain.errors import LanewayError
from laneway.engine.procedures.maintenance import expire, read_clock

if TYPE_CHECKING:
    from datetime import datetime

    from laneway.engine.pool import Pool
    from laneway.engine.tasks import Tasks
    from laneway.engine.wakeups import Wakeups

logger = logging.getLogger(__name__)

# Longer leases are left to the regular rounds, which run every few seconds.
LONGEST = timedelta(minutes=2)
# Expiry times closer together than this, or than this share of their lease duration, share a check.
# Under load, that limits checks by time and not by messages.
GRAIN = 0.1
SHARE = 0.02
# The database sets the expiry time slightly after this process knows the duration.
MARGIN = 0.02
# How far back the first check looks for expired leases, and later checks before the previous one.
# Looking further back reads more remains of settled leases. Regular rounds find the rest.
MEMORY = timedelta(seconds=30)
OVERLAP = timedelta(seconds=1)
BATCH = 1000


class Deadlines:
    """When leases of this process may expire; checks the database only then."""

    def __init__(self, *, pool: Pool, tasks: Tasks, wakeups: Wakeups) -> None:
        self._pool = pool
        self._tasks = tasks
        self._wakeups = wakeups
        self._grains: set[int] = set()
        self._order: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._looked_at: datetime | None = None

    def note(self, lease: timedelta) -> None:
        """Check once `lease` from now has passed."""
        if lease > LONGEST:
            return
        loop = asyncio.get_running_loop()
        seconds = lease.total_seconds()
        width = max(1, int(seconds * SHARE / GRAIN))
        grain = (int((loop.time() + seconds + MARGIN) / GRAIN / width) + 1) * width
        if grain in self._grains:
            return
        self._grains.add(grain)
        heappush(self._order, grain)
        if self._order[0] == grain:
            self._set_timer(loop)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self.close()
        if self._order:
            self._timer = loop.call_at(self._order[0] * GRAIN, self._come_due)

    def _come_due(self) -> None:
        loop = asyncio.get_running_loop()
        while self._order and self._order[0] * GRAIN <= loop.time():
            self._grains.discard(heappop(self._order))
        self._tasks.start(self.end_leases(), name="deadlines")
        self._set_timer(loop)

    async def end_leases(self) -> None:
        """End the leases that expired recently."""
        try:
            async with self._pool.lend() as connection:
                now = await read_clock(connection)
                before = self._looked_at
                since = now - MEMORY if before is None else before - OVERLAP
                rows = await expire(connection, limit=BATCH, since=since)
                if len(rows) < BATCH:
                    self._looked_at = now
        except LanewayError as error:
            logger.debug("cannot end expired leases now, the next regular round will: %s", error)
            return
        for queue_id in {row[0] for row in rows if row[2]}:
            self._wakeups.wake(queue_id, delayed=True)
