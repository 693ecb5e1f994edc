"""Dead-letters stream messages that waited too long, and deletes old leases and traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.streams import maintain_streams

if TYPE_CHECKING:
    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.procedures.call import Connection
    from laneway.engine.wakeups import Wakeups

# In rounds: checking every lane whose messages can expire costs more than the rest.
TRIM_EVERY = 5


class Streams:
    name = "streams"

    def __init__(self, settings: MaintenanceSettings, wakeups: Wakeups) -> None:
        self.interval = settings.streams
        self._wakeups = wakeups
        self._rounds = 0

    async def run(self, connection: Connection) -> bool:
        self._rounds += 1
        trim = self._rounds % TRIM_EVERY == 0
        for queue_id in set(await maintain_streams(connection, trim=trim)):
            self._wakeups.wake(queue_id)
        return False
