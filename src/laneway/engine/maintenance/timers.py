"""Pushes the messages of timers that are due."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from laneway.engine.maintenance.outbox import log_warnings
from laneway.engine.procedures.timers import fire_timers

if TYPE_CHECKING:
    import asyncio

    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection
    from laneway.engine.wakeups import Wakeups

# A timer that cannot be pushed yet, because another session has locked it, is not asked for in a
# busy loop.
LEAST = timedelta(milliseconds=5)


class Timers:
    """Sleeps until the next timer is due; other processes may set an earlier one meanwhile."""

    name = "timers"

    def __init__(
        self, settings: MaintenanceSettings, wakeups: Wakeups, woken: asyncio.Event
    ) -> None:
        self.woken = woken
        self.interval = self._longest = settings.timers
        self._limit = settings.timers_batch
        self._wakeups = wakeups

    async def run(self, connection: Connection) -> bool:
        log_warnings(connection)
        queues, left = await fire_timers(connection, limit=self._limit)
        for queue_id in queues:
            self._wakeups.wake(queue_id, delayed=True)
        self.interval = self._longest if left is None else max(LEAST, min(left, self._longest))
        return False
