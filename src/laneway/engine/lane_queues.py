"""Knows which queue a lane belongs to, so that what comes free in it wakes whoever waits there."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from laneway.domain.errors import LanewayError
from laneway.engine.procedures.messages import find_lanes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from laneway.domain.messages import Token
    from laneway.engine.columns import Spans
    from laneway.engine.ordered_leases import Hold
    from laneway.engine.pool import Pool
    from laneway.engine.tasks import Tasks
    from laneway.engine.wakeups import Wakeups

logger = logging.getLogger(__name__)

# Beyond this many lanes the whole knowledge is dropped and learnt again.
LIMIT = 100_000


class LanePlace(NamedTuple):
    """ordered: the queue may have ordered groups, in which an ack lets the lane go on."""

    queue_id: int
    partition: str
    ordered: bool


class Lanes:
    """Learns from claims; what this process never claimed from is looked up once."""

    def __init__(self, *, pool: Pool, tasks: Tasks, wakeups: Wakeups) -> None:
        self._pool = pool
        self._tasks = tasks
        self._wakeups = wakeups
        self._places: dict[int, LanePlace] = {}
        self._holds: dict[Token, Hold] = {}
        self._unknown: dict[int, bool] = {}
        self._looking = False

    def learn(self, lane: int, place: LanePlace) -> None:
        if len(self._places) >= LIMIT:
            self._places.clear()
        self._places[lane] = place

    def hold(self, token: Token, hold: Hold) -> None:
        """Remember who is to be told when all of an ordered group's claim is settled."""
        if len(self._holds) >= LIMIT:
            self._holds.clear()
        self._holds[token] = hold

    def settle(self, spans: Spans, *, lost: Collection[int]) -> None:
        """Have those go on who wait for what these spans, but the lost ones, held."""
        if not self._holds:
            self.free(spans.lanes)
            return
        others = []
        for span, (token, lane, first, last) in enumerate(zip(*spans, strict=True)):
            hold = self._holds.get(token)
            place = self._places.get(lane)
            if hold is None or place is None or span in lost:
                self._holds.pop(token, None)
                others.append(lane)
                continue
            hold.left -= last - first + 1
            if hold.left <= 0:
                del self._holds[token]
                hold.resume(hold)
                self._wakeups.tell(place.queue_id)
        self.free(others)

    def free(self, lanes: Iterable[int], *, requeued: bool = False) -> None:
        """Wake who waits for these lanes; requeued: messages went back, perhaps with a delay."""
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
            # The safety poll finds what is not woken now.
            logger.debug("lanes not looked up: %s", error)
        finally:
            self._looking = False

    def _wake(self, place: LanePlace, *, requeued: bool) -> None:
        if requeued or place.ordered:
            self._wakeups.wake(place.queue_id, partitions={place.partition}, delayed=requeued)
