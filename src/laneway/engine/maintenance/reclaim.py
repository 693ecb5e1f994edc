"""Requeues the messages of workers that died, and deletes workers that stopped long ago."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from laneway.engine.procedures.workers import (
    find_dead_workers,
    purge_workers,
    reclaim_worker,
    stop_silent_clients,
)

if TYPE_CHECKING:
    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection
    from laneway.engine.wakeups import Wakeups

logger = logging.getLogger(__name__)


class Reclaim:
    name = "reclaim"

    def __init__(self, settings: MaintenanceSettings, wakeups: Wakeups) -> None:
        self.interval = settings.workers
        self._keep = settings.keep_workers
        self._wakeups = wakeups

    async def run(self, connection: Connection) -> bool:
        for worker_id in await find_dead_workers(connection, None):
            queues = await reclaim_worker(connection, worker_id)
            logger.warning(
                "worker %s sent no heartbeat in time, messages requeued: %d",
                worker_id,
                sum(queues.values()),
            )
            for queue_id in queues:
                self._wakeups.wake(queue_id, delayed=True)
        await stop_silent_clients(connection)
        await purge_workers(connection, self._keep)
        return False
