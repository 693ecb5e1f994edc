"""Repairs unlogged queues after a crash of PostgreSQL emptied them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.maintenance import recover_unlogged

if TYPE_CHECKING:
    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection


class Recover:
    name = "recover"

    def __init__(self, settings: MaintenanceSettings) -> None:
        self.interval = settings.recover
        self._after: int | None = None

    async def run(self, connection: Connection) -> bool:
        self._after = await recover_unlogged(connection, after=self._after)
        return self._after is not None
