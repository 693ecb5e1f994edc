"""Batches the claims of one ordered group, and decides which waiters to wake and when."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import LanewayError
from laneway.engine.deliveries import distribute
from laneway.engine.ordered_leases import LaneLease, LaneLeases
from laneway.engine.procedures.streams import claim_lanes
from laneway.engine.pumps.claim import ClaimPump, batch_arguments
from laneway.engine.pumps.conflicts import retry_conflicts
from laneway.engine.pumps.ordered_line import OrderedLine

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import asyncpg

    from laneway.domain.messages import ClaimedSpan
    from laneway.engine.procedures.call import Connection
    from laneway.engine.pumps.line import Filter, Line, Waiter

logger = logging.getLogger(__name__)

# A call starts at least PAUSE seconds after one that returned fewer than FEW messages, so that consumers that get
# single messages share calls.
PAUSE = 0.003
FEW = 64

# How long after a claim to look up when the next lane comes due: at least DUE_PAUSE seconds and DUE_SHARE times the
# duration of the last look-up.
DUE_PAUSE = 0.1
DUE_SHARE = 20


class OrderedClaimPump(ClaimPump):
    """A push wakes one waiter per free partition; an ack wakes one if its lane has more messages."""

    _lines: dict[Filter, OrderedLine]  # type: ignore[assignment]  # _make_line makes all
    _lines_by_partition: dict[str | None, list[OrderedLine]]  # type: ignore[assignment]

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self._most_calls = 1
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
            self._wake_for(self._leases.note_pushed(partitions))
            self._start_call()
            return
        if partitions is None:
            self._leases.note_all_freed()
        else:
            self._leases.note_freed(partitions)
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
            self._pause_timer = loop.call_later(wait, self._end_pause)
        return None

    def _end_pause(self) -> None:
        self._pause_timer = None
        self._start_call()

    def _wake_for(self, partitions: Collection[str]) -> None:
        """Wake one waiter for each partition."""
        if not partitions:
            return
        for line in self._lines_by_partition.get(None, ()):
            line.wake_for(partitions)
            self._mark_awake(line)
        for partition in partitions:
            for line in self._lines_by_partition.get(partition, ()):
                line.wake_for((partition,))
                self._mark_awake(line)

    async def _call(
        self, connection: Connection, wanted: Filter, batch: Sequence[Waiter]
    ) -> list[asyncpg.Record]:
        named = batch_arguments(batch)
        since = 0
        began = time.monotonic()
        partitions = (
            (wanted.partition,) if wanted.partition is not None else self._lines[wanted].partitions
        )

        async def call() -> list[asyncpg.Record]:
            nonlocal since
            since = self._leases.changes
            self.calls += 1
            return await claim_lanes(
                connection,
                group_id=self.group_id,
                partitions=partitions,
                priority=wanted.priority,
                fill=all(waiter.fill for waiter in batch),
                **named,
            )

        rows = await retry_conflicts(call)
        for row in rows:
            # Track priority 0 only: a partition may have lanes of several priorities.
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

    def _distribute(
        self, rows: Sequence[asyncpg.Record], wants: Sequence[int]
    ) -> list[list[ClaimedSpan]]:
        return distribute((row[1:] for row in rows), wants)

    def _resume(self, lease: LaneLease) -> None:
        """Wake a waiter for a lane whose messages are all settled."""
        if self._leases.finish(lease):
            self._wake_for((lease.partition,))
            self._start_call()

    def _look_soon(self) -> None:
        self._looking = False
        if not any(line.has_sleepers for line in self._lines.values()):
            # The next waiter that goes to sleep looks it up.
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
            # The safety poll finds these lanes later.
            logger.debug("cannot look up when lanes come due: %s", error)
