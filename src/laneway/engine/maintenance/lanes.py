"""Removes empty lanes, so that partitions can be created and deleted without limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.maintenance import sweep_lanes

if TYPE_CHECKING:
    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection


class Lanes:
    """Checks all lanes, some in each round, and starts over at the end."""

    name = "lanes"

    def __init__(self, settings: MaintenanceSettings) -> None:
        self.interval = settings.lanes
        self._limit = settings.lanes_batch
        self._after: int | None = None

    async def run(self, connection: Connection) -> bool:
        removed, self._after = await sweep_lanes(connection, after=self._after, limit=self._limit)
        # If many were empty, more are likely to be.
        return removed > 0 and self._after is not None
