"""The queue and partition of each lane, so that freed lanes wake the consumers that wait for them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from laneway.domain.errors import LanewayError
from laneway.engine.procedures.messages import find_lanes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from laneway.domain.messages import Token
    from laneway.engine.columns import Spans
    from laneway.engine.ordered_leases import LaneLease
    from laneway.engine.pool import Pool
    from laneway.engine.tasks import Tasks
    from laneway.engine.wakeups import Wakeups

logger = logging.getLogger(__name__)

# Above this many lanes, the cache is cleared.
LIMIT = 100_000


class LanePlace(NamedTuple):
    """A lane's queue and partition.

    ordered: the queue may have ordered groups, in which an ack frees the lane.
    """

    queue_id: int
    partition: str
    ordered: bool


class Lanes:
    """A cache of lanes, filled by claims; other lanes are looked up once."""

    def __init__(self, *, pool: Pool, tasks: Tasks, wakeups: Wakeups) -> None:
        self._pool = pool
        self._tasks = tasks
        self._wakeups = wakeups
        self._places: dict[int, LanePlace] = {}
        self._leases: dict[Token, LaneLease] = {}
        self._unknown: dict[int, bool] = {}
        self._looking = False

    def learn(self, lane: int, place: LanePlace) -> None:
        if len(self._places) >= LIMIT:
            self._places.clear()
        self._places[lane] = place

    def track(self, token: Token, lease: LaneLease) -> None:
        """Call `lease.resume` once all messages of an ordered group's claim are settled."""
        if len(self._leases) >= LIMIT:
            self._leases.clear()
        self._leases[token] = lease

    def settle(self, spans: Spans, *, lost: Collection[int]) -> None:
        """Wake consumers waiting on the lanes that these spans released, except the lost ones."""
        if not self._leases:
            self.free(spans.lanes)
            return
        others = []
        for span, (token, lane, first, last) in enumerate(zip(*spans, strict=True)):
            lease = self._leases.get(token)
            place = self._places.get(lane)
            if lease is None or place is None or span in lost:
                self._leases.pop(token, None)
                others.append(lane)
                continue
            lease.left -= last - first + 1
            if lease.left <= 0:
                del self._leases[token]
                lease.resume(lease)
                self._wakeups.notify_others(place.queue_id)
        self.free(others)

    def free(self, lanes: Iterable[int], *, requeued: bool = False) -> None:
        """Wake consumers that wait for these lanes; requeued: messages returned, maybe delayed."""
        for lane in set(lanes):
            place = self._places.get(lane)
            if place is not None:
                self._wake(place, requeued=requeued)
                continue
            self._unknown[lane] = requeued or self._unknown.get(lane, False)
        if self._unknown and not self._looking:
            self._looking = True
            self._tasks.start(self._look(), name="look up lanes")

    async def _look(self) -> None:
        try:
            while self._unknown:
                unknown, self._unknown = self._unknown, {}
                async with self._pool.lend() as connection:
                    rows = await find_lanes(connection, list(unknown))
                for lane, queue_id, _, partition, ordered in rows:
                    place = LanePlace(queue_id, partition, ordered)
                    self.learn(lane, place)
                    self._wake(place, requeued=unknown[lane])
        except LanewayError as error:
            # The safety poll wakes these consumers later.
            logger.debug("cannot look up lanes: %s", error)
        finally:
            self._looking = False

    def _wake(self, place: LanePlace, *, requeued: bool) -> None:
        if requeued or place.ordered:
            self._wakeups.wake(place.queue_id, partitions={place.partition}, delayed=requeued)
