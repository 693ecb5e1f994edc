"""Opens the log's next segment when the current one is old or large enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.maintenance import rotate

if TYPE_CHECKING:
    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection


class Rotate:
    name = "rotate"

    def __init__(self, settings: MaintenanceSettings) -> None:
        self.interval = settings.rotate

    async def run(self, connection: Connection) -> bool:
        await rotate(connection)
        return False
