"""How many messages of a queue may be in flight."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from laneway.domain.queues import Queue
    from laneway.engine import Broker

# How long a count is believed; what other processes hand out meanwhile is not seen.
_AGE = 5.0


class _Known:
    __slots__ = ("asked_at", "count")

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked_at = monotonic()


class InFlight:
    """Counts along, and asks the database now and then and whenever the limit seems reached."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[int, _Known] = {}

    async def find_room(self, broker: Broker, queue: Queue) -> int:
        """Return how many more may be handed out."""
        known = self._known.get(queue.queue_id)
        if known is not None and known.count < self._limit and monotonic() - known.asked_at < _AGE:
            return self._limit - known.count
        known = _Known(await broker.count_in_flight(queue.name))
        self._known[queue.queue_id] = known
        return max(self._limit - known.count, 0)

    def note(self, queue: Queue, handed: int) -> None:
        known = self._known.get(queue.queue_id)
        if known is not None:
            known.count += handed
