"""Deletes keys that have expired."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.kv import sweep_kv

if TYPE_CHECKING:
    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection


class Kv:
    name = "kv"

    def __init__(self, settings: MaintenanceSettings) -> None:
        self.interval = settings.kv
        self._limit = settings.kv_batch

    async def run(self, connection: Connection) -> bool:
        return await sweep_kv(connection, limit=self._limit) >= self._limit
