"""Claims of one ordered group: who is woken, and when, given that a lane has one holder at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import LanewayError
from laneway.engine.deliveries import deal
from laneway.engine.ordered_leases import LaneLease, LaneLeases
from laneway.engine.procedures.streams import claim_lanes
from laneway.engine.pumps.claim import ClaimPump, gather
from laneway.engine.pumps.conflicts import persist
from laneway.engine.pumps.ordered_line import OrderedLine

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import asyncpg

    from laneway.domain.messages import ClaimedSpan
    from laneway.engine.procedures.call import Connection
    from laneway.engine.pumps.line import Filter, Line, Waiter

logger = logging.getLogger(__name__)

# Seconds between the beginnings of two calls of which the first brought few messages: so that those who are served one
# by one are served together where many are, without waiting where few are.
PAUSE = 0.003
FEW = 64

# How soon after something was handed out it is looked up when its time is up: seconds, or so many times what the last
# look-up took.
DUE_PAUSE = 0.1
DUE_SHARE = 20


class OrderedClaimPump(ClaimPump):
    """A push wakes as many as it can serve; an ack, only where something is left in its lane."""

    _lines: dict[Filter, OrderedLine]  # type: ignore[assignment]  # all are made here
    _lines_by_partition: dict[str | None, list[OrderedLine]]  # type: ignore[assignment]

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self._most_flights = 1
        self._leases = LaneLeases()
        self._looking = False
        self._due_pause = DUE_PAUSE
        self._pause_until = 0.0
        self._pause_timer: asyncio.TimerHandle | None = None

    def wake(
        self,
        *,
        partitions: Collection[str] | None = None,
        delayed: bool = False,
        plain: bool = False,
    ) -> None:
        if plain and partitions is not None:
            if delayed:
                self._due_known = False
            self._serve_partitions(self._leases.stir(partitions))
            self._launch()
            return
        if partitions is None:
            self._leases.loosen_all()
        else:
            self._leases.loosen(partitions)
        super().wake(partitions=partitions, delayed=delayed)

    def _make_line(self, wanted: Filter) -> OrderedLine:
        return OrderedLine(wanted)

    def _find_line(self) -> Line | None:
        line = super()._find_line()
        if line is None:
            return None
        wait = self._pause_until - time.monotonic()
        if wait <= 0:
            return line
        if self._pause_timer is None:
            loop = asyncio.get_running_loop()
            self._pause_timer = loop.call_later(wait, self._go_on)
        return None

    def _go_on(self) -> None:
        self._pause_timer = None
        self._launch()

    def _serve_partitions(self, partitions: Collection[str]) -> None:
        """Wake one waiter for each."""
        if not partitions:
            return
        for line in self._lines_by_partition.get(None, ()):
            line.wake_for(partitions)
            self._note(line)
        for partition in partitions:
            for line in self._lines_by_partition.get(partition, ()):
                line.wake_for((partition,))
                self._note(line)

    async def _call(
        self, connection: Connection, wanted: Filter, riders: Sequence[Waiter]
    ) -> list[asyncpg.Record]:
        named = gather(riders)
        since = 0
        began = time.monotonic()
        places = (wanted.partition,) if wanted.partition is not None else self._lines[wanted].places

        async def call() -> list[asyncpg.Record]:
            nonlocal since
            since = self._leases.stirs
            self.calls += 1
            return await claim_lanes(
                connection,
                group_id=self.group_id,
                partitions=places,
                priority=wanted.priority,
                **named,
            )

        rows = await persist(call)
        for row in rows:
            # Where a partition has lanes of several priorities, nothing is sure.
            if row["priority"] == 0:
                lease = LaneLease(
                    self._resume, row["partition"], len(row["bodies"]), row["more"], since
                )
                self._leases.add(lease)
                self._lanes.track(row["token"], lease)
        if sum(len(row["bodies"]) for row in rows) < FEW:
            self._pause_until = began + PAUSE
        if rows and not self._looking and not self._closed:
            self._looking = True
            asyncio.get_running_loop().call_later(self._due_pause, self._look_soon)
        return rows

    def _share_out(
        self, rows: Sequence[asyncpg.Record], wants: Sequence[int]
    ) -> list[list[ClaimedSpan]]:
        return deal((row[1:] for row in rows), wants)

    def _resume(self, lease: LaneLease) -> None:
        """Go on after all of a lane is settled."""
        if self._leases.finish(lease):
            self._serve_partitions((lease.partition,))
            self._launch()

    def _look_soon(self) -> None:
        self._looking = False
        if not any(line.has_sleepers for line in self._lines.values()):
            # Who comes to sleep looks.
            self._due_known = False
        elif not self._closed:
            self._tasks.start(self._look(), name="look when lanes come due")

    async def _look(self) -> None:
        try:
            async with self._pool.lend() as connection:
                began = time.monotonic()
                await self._watch_due(connection)
                spent = time.monotonic() - began
            self._due_pause = max(DUE_PAUSE, DUE_SHARE * spent)
        except LanewayError as error:
            # The safety poll finds what is not looked up now.
            logger.debug("not looked up when lanes come due: %s", error)
