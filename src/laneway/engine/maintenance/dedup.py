"""Deletes dedup keys whose window has passed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.maintenance import sweep_dedup_keys

if TYPE_CHECKING:
    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection


class Dedup:
    name = "dedup"

    def __init__(self, settings: MaintenanceSettings) -> None:
        self.interval = settings.dedup
        self._limit = settings.dedup_batch

    async def run(self, connection: Connection) -> bool:
        return await sweep_dedup_keys(connection, limit=self._limit) >= self._limit
