"""Ends leases that have expired."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from laneway.engine.procedures.maintenance import expire, read_clock

if TYPE_CHECKING:
    from datetime import datetime

    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection
    from laneway.engine.wakeups import Wakeups

# A lease may expire in a transaction that began before a round and commits after it.
MARGIN = timedelta(seconds=10)

# How often a round checks every lease, to find those that were skipped because they were locked.
WHOLE = timedelta(minutes=1)


class Expire:
    """Starts from where the last full round began, to skip leases that it has ended."""

    name = "expire"

    def __init__(self, settings: MaintenanceSettings, wakeups: Wakeups) -> None:
        self.interval = settings.expire
        self._limit = settings.expire_batch
        self._wakeups = wakeups
        self._since: datetime | None = None
        self._whole_at: datetime | None = None

    async def run(self, connection: Connection) -> bool:
        now = await read_clock(connection)
        if self._whole_at is None or now - self._whole_at >= WHOLE:
            self._since = None
            self._whole_at = now
        rows = await expire(connection, limit=self._limit, since=self._since)
        for queue_id in {row[0] for row in rows if row[2]}:
            self._wakeups.wake(queue_id, delayed=True)
        full = len(rows) >= self._limit
        passed_over = any(not row[2] for row in rows)
        if not full and not passed_over:
            self._since = now - MARGIN
        return full and not passed_over
