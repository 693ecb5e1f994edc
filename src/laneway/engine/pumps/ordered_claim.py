"""Claims of one ordered group: who is woken, and when, given that a lane has one holder at a time."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import LanewayError
from laneway.engine.columns import deal_runs
from laneway.engine.holds import Hold, Holds
from laneway.engine.procedures.streams import claim_lanes
from laneway.engine.pumps.claim import ClaimPump
from laneway.engine.pumps.conflicts import persist
from laneway.engine.pumps.ordered_line import OrderedLine

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import asyncpg

    from laneway.domain.messages import Delivery
    from laneway.engine.procedures.call import Connection
    from laneway.engine.pumps.line import Filter, Line, Waiter

logger = logging.getLogger(__name__)

# How soon after something was handed out it is looked up when its time is up.
DUE_PAUSE = timedelta(milliseconds=100)


class OrderedClaimPump(ClaimPump):
    """A push wakes as many as it can serve; an ack, only where something is left in its lane."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self._most_flights = 1
        self._holds = Holds()
        self._looking = False

    def wake(
        self,
        *,
        partitions: Collection[str] | None = None,
        delayed: bool = False,
        plain: bool = False,
    ) -> None:
        if delayed:
            self._due_known = False
        if partitions is None:
            self._holds.loosen_all()
            self._rouse_lines(self._lines.values(), None)
        elif plain:
            self._serve_partitions(self._holds.stir(partitions))
        else:
            self._holds.loosen(partitions)
            for partition in (None, *partitions):
                self._rouse_lines(self._lines_by_partition.get(partition, ()), None)
        self._launch()

    def _make_line(self, wanted: Filter) -> Line:
        return OrderedLine(wanted)

    def _serve_partitions(self, partitions: Collection[str]) -> None:
        """Wake one waiter for each."""
        if partitions:
            self._rouse_lines(self._lines_by_partition.get(None, ()), len(partitions))
            for partition in partitions:
                self._rouse_lines(self._lines_by_partition.get(partition, ()), 1)

    def _rouse_lines(self, lines: Iterable[Line], most: int | None) -> None:
        for line in lines:
            line.wake(most)
            if line.has_askers:
                self._awake[line] = None

    async def _call(
        self, connection: Connection, wanted: Filter, riders: Sequence[Waiter]
    ) -> list[asyncpg.Record]:
        leases = [rider.lease for rider in riders]
        consumers = [rider.consumer for rider in riders]
        since = 0

        async def call() -> list[asyncpg.Record]:
            nonlocal since
            since = self._holds.stirs
            self.calls += 1
            return await claim_lanes(
                connection,
                group_id=self.group_id,
                wants=[rider.want for rider in riders],
                leases=leases if any(leases) else None,
                consumers=consumers if any(consumers) else None,
                partition=wanted.partition,
                priority=wanted.priority,
            )

        rows = await persist(call)
        for row in rows:
            hold = Hold(self._resume, row["partition"], len(row["bodies"]), row["more"], since)
            if row["priority"] == 0:
                self._holds.take(hold)
            self._lanes.hold(row["token"], hold)
        if rows and not self._looking and not self._closed:
            self._looking = True
            asyncio.get_running_loop().call_later(DUE_PAUSE.total_seconds(), self._look_soon)
        return rows

    def _share_out(self, rows: Sequence[asyncpg.Record], *, waiters: int) -> list[list[Delivery]]:
        return deal_runs([row[1:] for row in rows], waiters=waiters)  # type: ignore[misc]

    def _resume(self, hold: Hold) -> None:
        """Go on after all of a lane is settled."""
        if self._holds.finish(hold):
            self._serve_partitions((hold.partition,))
            self._launch()

    def _look_soon(self) -> None:
        self._looking = False
        if self.has_sleepers and not self._closed:
            self._tasks.start(self._look(), name="look when lanes come due")

    async def _look(self) -> None:
        try:
            async with self._pool.lend() as connection:
                await self._watch_due(connection)
        except LanewayError as error:
            # The safety poll finds what is not looked up now.
            logger.debug("not looked up when lanes come due: %s", error)
