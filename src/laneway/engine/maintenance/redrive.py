"""Moves dead letters to the target queues, runs move tasks, and deletes finished ones."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING

from laneway.engine.procedures.dead_letters import redrive_by_policy
from laneway.engine.procedures.maintenance import sweep_sqs
from laneway.engine.procedures.moves import run_moves

if TYPE_CHECKING:
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
        self._sweep_at = 0.0

    async def run(self, connection: Connection) -> bool:
        moved = await redrive_by_policy(connection, queue_id=None, limit=self._limit)
        steps = await run_moves(connection, limit=self._limit)
        for queue_id in {row[0] for row in (*moved, *steps)}:
            self._wakeups.wake(queue_id)
        if monotonic() >= self._sweep_at:
            await sweep_sqs(connection)
            self._sweep_at = monotonic() + SWEEP.total_seconds()
        full = any(count >= self._limit for _, count in moved)
        return full or any(more for _, more in steps)
