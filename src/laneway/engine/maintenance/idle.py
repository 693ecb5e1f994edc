"""Marks readers idle that have had no messages for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.maintenance import sweep_idle

if TYPE_CHECKING:
    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection


class Idle:
    name = "idle"

    def __init__(self, settings: MaintenanceSettings) -> None:
        self.interval = settings.idle
        self._limit = settings.idle_batch

    async def run(self, connection: Connection) -> bool:
        return await sweep_idle(connection, limit=self._limit) >= self._limit
