"""Limits a queue's messages in flight: a count from the database, plus claims since then."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from laneway.domain.queues import Queue

# How long a count is used if nothing is in flight, in seconds. It shrinks with the remaining room.
_LONGEST = 5.0
# With less room than this, every claim counts the messages that all processes have in flight.
_NARROW = 10_000
# A count is used for at least this many times as long as it took, so that counting does not
# dominate.
_SPARING = 2.0
_MOST_KNOWN = 10_000


class _Known:
    """What is known about one queue. took: how long the count took, in seconds."""

    __slots__ = ("count", "counted_at", "lock", "took")

    def __init__(self) -> None:
        self.count = 0
        self.counted_at = float("-inf")
        self.took = 0.0
        self.lock = asyncio.Lock()

    def is_fresh(self, limit: int) -> bool:
        room = limit - self.count
        age = _SPARING * self.took
        if room > _NARROW:
            age = max(age, _LONGEST * room / limit)
        return monotonic() - self.counted_at < age


class InFlight:
    """The in-flight counts of queues. count: asks the database, which sees every process."""

    def __init__(self, count: Callable[[str], Awaitable[int]]) -> None:
        self._count = count
        self._known: dict[int, _Known] = {}

    async def find_room(self, queue: Queue, limit: int) -> int:
        """Return how many more messages may be claimed.

        Several consumers that claim at the same moment may exceed the limit.
        """
        known = self._known.get(queue.queue_id)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                # Queues are created and deleted; a dropped count is read again.
                self._known.clear()
            known = self._known[queue.queue_id] = _Known()
        if not known.is_fresh(limit):
            await self._recount(queue, known)
        return max(limit - known.count, 0)

    def note(self, queue: Queue, change: int) -> None:
        """Add messages that this process claimed or settled to the count."""
        known = self._known.get(queue.queue_id)
        if known is not None:
            known.count = max(known.count + change, 0)

    async def _recount(self, queue: Queue, known: _Known) -> None:
        asked_at = monotonic()
        async with known.lock:
            if known.counted_at >= asked_at:
                return  # another caller has counted meanwhile
            began_at = monotonic()
            known.count = await self._count(queue.name)
            known.counted_at = monotonic()
            known.took = known.counted_at - began_at
