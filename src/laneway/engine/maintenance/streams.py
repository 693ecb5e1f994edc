"""Ends what waited too long in streams, and forgets their leases and traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.streams import tend_streams

if TYPE_CHECKING:
    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection
    from laneway.engine.wakeups import Wakeups


class Streams:
    name = "streams"

    def __init__(self, settings: MaintenanceSettings, wakeups: Wakeups) -> None:
        self.interval = settings.streams
        self._wakeups = wakeups

    async def run(self, connection: Connection) -> bool:
        for queue_id in set(await tend_streams(connection)):
            self._wakeups.wake(queue_id)
        return False
