"""Deletes the rows that readers of deleted groups left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.maintenance import sweep_forgotten

if TYPE_CHECKING:
    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection


class Forget:
    name = "forget"

    def __init__(self, settings: MaintenanceSettings) -> None:
        self.interval = settings.forget
        self._limit = settings.forget_batch

    async def run(self, connection: Connection) -> bool:
        return await sweep_forgotten(connection, limit=self._limit) >= self._limit
