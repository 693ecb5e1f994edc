"""Moves messages from the outbox to their lanes."""

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

# Concurrent pushes do not notify (see outbox_push_many), so the outbox is polled this often, for
# this long.
BUSY = timedelta(milliseconds=20)
AFTERWARDS = timedelta(milliseconds=500)


class Outbox:
    name = "outbox"

    def __init__(
        self, settings: MaintenanceSettings, wakeups: Wakeups, woken: asyncio.Event
    ) -> None:
        self.woken = woken
        self._idle = settings.outbox
        self._busy_until = 0.0
        self._limit = settings.outbox_batch
        self._wakeups = wakeups

    @property
    def interval(self) -> timedelta:
        return BUSY if monotonic() < self._busy_until else self._idle

    async def run(self, connection: Connection) -> bool:
        log_warnings(connection)
        queues = await drain_outbox(connection, limit=self._limit)
        if queues:
            self._busy_until = monotonic() + AFTERWARDS.total_seconds()
        for queue_id in queues:
            self._wakeups.wake(queue_id, delayed=True)
        return bool(queues)


def log_warnings(connection: Connection) -> None:
    """Log what the database warns of on this connection; more than one call changes nothing."""
    connection.add_log_listener(_log_notice)


def _log_notice(_: object, notice: asyncpg.PostgresLogMessage) -> None:
    """Log the database's warnings about messages that cannot be moved, once each."""
    if notice.severity_en == "WARNING":
        logger.warning("%s", notice.message)
