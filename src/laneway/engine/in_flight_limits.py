"""Holds queues to a limit of messages in hand, by the database's count and what was handed out since."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from laneway.domain.queues import Queue

# How long a count is believed where nothing is in hand, in seconds; less, the less room there is.
_LONGEST = 5.0
# With no more room than this, every claim has the messages counted, whoever handed them out.
_NARROW = 10_000
# A count is believed for so many times as long as it took: counting cannot take all the time.
_SPARING = 2.0
_MOST_KNOWN = 10_000


class _Known:
    """What is known of one queue. took: how long the count lasted, in seconds."""

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
    """count: asks the database, which knows what every process handed out."""

    def __init__(self, count: Callable[[str], Awaitable[int]]) -> None:
        self._count = count
        self._known: dict[int, _Known] = {}

    async def find_room(self, queue: Queue, limit: int) -> int:
        """Return how many more messages may be handed out.

        The limit may be exceeded by what several consumers are handed at the same moment.
        """
        known = self._known.get(queue.queue_id)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                # Queues come and go; what is forgotten is counted anew.
                self._known.clear()
            known = self._known[queue.queue_id] = _Known()
        if not known.is_fresh(limit):
            await self._recount(queue, known)
        return max(limit - known.count, 0)

    def note(self, queue: Queue, change: int) -> None:
        """Take into account what this process handed out, or saw settled."""
        known = self._known.get(queue.queue_id)
        if known is not None:
            known.count = max(known.count + change, 0)

    async def _recount(self, queue: Queue, known: _Known) -> None:
        asked_at = monotonic()
        async with known.lock:
            if known.counted_at >= asked_at:
                return  # for somebody else, meanwhile
            began_at = monotonic()
            known.count = await self._count(queue.name)
            known.counted_at = monotonic()
            known.took = known.counted_at - began_at
