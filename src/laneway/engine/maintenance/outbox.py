"""Moves what was pushed inside other transactions to its lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.maintenance import drain_outbox

if TYPE_CHECKING:
    import asyncio

    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection
    from laneway.engine.wakeups import Wakeups


class Outbox:
    name = "outbox"

    def __init__(
        self, settings: MaintenanceSettings, wakeups: Wakeups, stirred: asyncio.Event
    ) -> None:
        self.interval = settings.outbox
        self.stirred = stirred
        self._limit = settings.outbox_batch
        self._wakeups = wakeups

    async def run(self, connection: Connection) -> bool:
        queues = await drain_outbox(connection, limit=self._limit)
        for queue_id in queues:
            self._wakeups.wake(queue_id, delayed=True)
        return bool(queues)
