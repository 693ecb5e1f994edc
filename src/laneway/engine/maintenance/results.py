"""Deletes handlers' results that have expired."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.workers import sweep_results

if TYPE_CHECKING:
    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection


class Results:
    name = "results"

    def __init__(self, settings: MaintenanceSettings) -> None:
        self.interval = settings.results
        self._limit = settings.results_batch

    async def run(self, connection: Connection) -> bool:
        return await sweep_results(connection, limit=self._limit) >= self._limit
