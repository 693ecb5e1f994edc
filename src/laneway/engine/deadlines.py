"""Ends locks as soon as their time is up, where a protocol promises more than the regular rounds."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from laneway.domain.errors import LanewayError
from laneway.engine.procedures.maintenance import expire, read_clock

if TYPE_CHECKING:
    from laneway.engine.pool import Pool
    from laneway.engine.tasks import Tasks
    from laneway.engine.wakeups import Wakeups

logger = logging.getLogger(__name__)

# Longer locks are left to the regular rounds, which come every few seconds.
LONGEST = timedelta(minutes=2)
# Deadlines that are nearer to each other than this are looked after together.
GRAIN = 0.1
# The database set the deadline a moment after the lock's time was known here.
MARGIN = 0.02
# How far back to look for locks that ended: what is older was dealt with.
MEMORY = timedelta(seconds=30)
BATCH = 1000


class Deadlines:
    """Knows when locks that this process handed out may end; costs a call only then."""

    def __init__(self, *, pool: Pool, tasks: Tasks, wakeups: Wakeups) -> None:
        self._pool = pool
        self._tasks = tasks
        self._wakeups = wakeups
        self._grains: set[int] = set()
        self._order: list[int] = []
        self._timer: asyncio.TimerHandle | None = None

    def note(self, lease: timedelta) -> None:
        """Look once `lease` from now has passed."""
        if lease > LONGEST:
            return
        loop = asyncio.get_running_loop()
        grain = int((loop.time() + lease.total_seconds() + MARGIN) / GRAIN) + 1
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
        self._tasks.start(self.end_locks(), name="deadlines")
        self._set_timer(loop)

    async def end_locks(self) -> None:
        """End those whose time was up lately."""
        try:
            async with self._pool.lend() as connection:
                since = await read_clock(connection) - MEMORY
                rows = await expire(connection, limit=BATCH, since=since)
        except LanewayError as error:
            logger.debug("locks end with the next regular round: %s", error)
            return
        for queue_id in {row[0] for row in rows if row[2]}:
            self._wakeups.wake(queue_id, delayed=True)
