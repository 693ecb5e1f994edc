"""Moves what was pushed inside other transactions to its lanes."""

from __future__ import annotations

import logging
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING

from laneway.engine.procedures.maintenance import drain_outbox

if TYPE_CHECKING:
    import asyncio

    import asyncpg

    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection
    from laneway.engine.wakeups import Wakeups

logger = logging.getLogger(__name__)

# Who pushes while others do notifies nobody (see outbox_push_many): so it is looked for, this often and for so long.
BUSY = timedelta(milliseconds=20)
AFTERWARDS = timedelta(milliseconds=500)


class Outbox:
    name = "outbox"

    def __init__(
        self, settings: MaintenanceSettings, wakeups: Wakeups, stirred: asyncio.Event
    ) -> None:
        self.stirred = stirred
        self._idle = settings.outbox
        self._busy_until = 0.0
        self._limit = settings.outbox_batch
        self._wakeups = wakeups

    @property
    def interval(self) -> timedelta:
        return BUSY if monotonic() < self._busy_until else self._idle

    async def run(self, connection: Connection) -> bool:
        connection.add_log_listener(_tell)  # once on each connection, however often it is added
        queues = await drain_outbox(connection, limit=self._limit)
        if queues:
            self._busy_until = monotonic() + AFTERWARDS.total_seconds()
        for queue_id in queues:
            self._wakeups.wake(queue_id, delayed=True)
        return bool(queues)


def _tell(_: object, notice: asyncpg.PostgresLogMessage) -> None:
    """Log what the database warns of: a message that cannot be moved, once for each."""
    if notice.severity_en == "WARNING":
        logger.warning("%s", notice.message)
