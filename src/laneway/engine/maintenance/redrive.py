"""Puts dead letters where their queues say, takes move tasks on, and forgets what is past."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from laneway.engine.procedures.maintenance import read_clock
from laneway.engine.procedures.redrive import redrive_dead, run_moves, sweep_redrive

if TYPE_CHECKING:
    from datetime import datetime

    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection
    from laneway.engine.wakeups import Wakeups

SWEEP = timedelta(minutes=1)


class Redrive:
    name = "redrive"

    def __init__(self, settings: MaintenanceSettings, wakeups: Wakeups) -> None:
        self.interval = settings.redrive
        self._limit = settings.redrive_batch
        self._wakeups = wakeups
        self._swept_at: datetime | None = None

    async def run(self, connection: Connection) -> bool:
        moved = await redrive_dead(connection, queue_id=None, limit=self._limit)
        steps = await run_moves(connection, limit=self._limit)
        for queue_id in {row[0] for row in (*moved, *steps)}:
            self._wakeups.wake(queue_id)
        now = await read_clock(connection)
        if self._swept_at is None or now - self._swept_at >= SWEEP:
            await sweep_redrive(connection)
            self._swept_at = now
        full = any(count >= self._limit for _, count in moved)
        return full or any(more for _, more in steps)
