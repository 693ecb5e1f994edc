"""Finds partitions that have so many messages in flight that other partitions go first."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING

from laneway.domain.errors import LanewayError
from laneway.domain.queues import DEFAULT_GROUP

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from laneway.domain.messages import Delivery
    from laneway.domain.queues import Queue

logger = logging.getLogger(__name__)

# A partition is noisy with at least this many messages in flight, and more than this share of all.
MESSAGES = 30
SHARE = 0.1
# How long a count from the database is used, in seconds, and at least how many times as long as it took.
AGE = 1.0
SPARING = 20.0
# Above this many groups, or lanes of a group, the cache is cleared.
MOST_KNOWN = 10_000
MOST_LANES = 100_000


class _Group:
    """What one group has in flight. crowded: the partitions with at least MESSAGES."""

    __slots__ = ("counted_at", "counting", "counts", "crowded", "lanes", "took", "total")

    def __init__(self) -> None:
        self.total = 0
        self.counts: dict[str, int] = {}
        self.crowded: set[str] = set()
        self.lanes: dict[int, str] = {}
        self.counting = False
        self.counted_at = float("-inf")
        self.took = 0.0

    def add(self, partition: str, change: int) -> None:
        count = self.counts[partition] = self.counts.get(partition, 0) + change
        if count >= MESSAGES:
            self.crowded.add(partition)
            return
        self.crowded.discard(partition)
        if count <= 0:
            del self.counts[partition]


class NoisyPartitions:
    """Messages in flight by partition: counted in the database, plus claims and acks since then.

    A group without partitions costs nothing: it is known only once a message of a named partition
    was delivered. count: asks the database, which sees every process and every expired lease.
    """

    def __init__(self, count: Callable[[str], Awaitable[Sequence[tuple[str, int]]]]) -> None:
        self._count = count
        self._groups: dict[int, _Group] = {}

    def find(self, group_id: int) -> list[str] | None:
        """Return the noisy partitions of a group, None if there are none."""
        group = self._groups.get(group_id)
        if group is None or not group.crowded:
            return None
        least = SHARE * group.total
        return [each for each in group.crowded if group.counts[each] > least] or None

    async def refresh(self, queue: Queue) -> None:
        """Count the messages in flight of the queue's default group if the last count is old.

        If another call is counting already, return at once.
        """
        group = self._groups.get(_find_group(queue))
        if group is None or group.counting:
            return
        if monotonic() - group.counted_at >= max(AGE, SPARING * group.took):
            await self._recount(queue.name, group)

    def note_claimed(self, queue: Queue, deliveries: Sequence[Delivery]) -> None:
        group_id = _find_group(queue)
        group = self._groups.get(group_id)
        if group is None:
            if not any(delivery.partition for delivery in deliveries):
                return
            if len(self._groups) >= MOST_KNOWN:
                self._groups.clear()
            group = self._groups[group_id] = _Group()
        if len(group.lanes) >= MOST_LANES:
            group.lanes.clear()
        group.total += len(deliveries)
        for delivery in deliveries:
            if delivery.partition:
                group.lanes[delivery.lane] = delivery.partition
                group.add(delivery.partition, 1)

    def note_settled(self, queue: Queue, lanes: Iterable[int]) -> None:
        """Note an acked or returned message for each of the lanes."""
        group = self._groups.get(_find_group(queue))
        if group is None:
            return
        for lane in lanes:
            group.total = max(group.total - 1, 0)
            partition = group.lanes.get(lane)
            if partition is not None:
                group.add(partition, -1)

    async def _recount(self, queue: str, group: _Group) -> None:
        began_at = monotonic()
        group.counting = True
        try:
            counts = dict(await self._count(queue))
        except LanewayError as error:
            logger.debug("cannot count the messages in flight by partition: %s", error)
            return
        finally:
            group.counting = False
            group.counted_at = monotonic()
            group.took = group.counted_at - began_at
        group.total = sum(counts.values())
        counts.pop("", None)
        group.counts = counts
        group.crowded = {each for each, count in counts.items() if count >= MESSAGES}


def _find_group(queue: Queue) -> int:
    return queue.groups[DEFAULT_GROUP].group_id
