"""Drops segments that are past retention."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from laneway.engine.procedures.maintenance import retain

if TYPE_CHECKING:
    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection

logger = logging.getLogger(__name__)


class Retain:
    name = "retain"

    def __init__(self, settings: MaintenanceSettings) -> None:
        self.interval = settings.retain

    async def run(self, connection: Connection) -> bool:
        dropped = await retain(connection)
        if dropped:
            logger.info("dropped segments %s", ", ".join(map(str, dropped)))
        return False
