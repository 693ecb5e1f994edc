"""Handlers of ordered groups: the messages of one lane are handled in order, in one slot."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import chain
from time import monotonic
from typing import TYPE_CHECKING, Any

from laneway.worker.runner import AHEAD, MOST_AHEAD, SLICE, Runner

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    from laneway.domain.messages import Token
    from laneway.worker.runner import Item
    from laneway.worker.slots import Slot

    # The messages of a lane that one claim returned and no handler has started on, in order.
    Lane: TypeAlias = deque[Item]


class OrderedRunner(Runner):
    """Handles lanes in parallel, each up to its first message that does not succeed.

    That message is delivered again, and the claimed messages behind it are released.
    """

    _ordered = True

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._lanes: deque[Lane] = deque()
        self._current: dict[Slot, Lane] = {}
        # Messages whose release was cut short. No handler starts on them: one before may still run.
        self._stranded: list[Item] = []

    def _count_wanted(self) -> int:
        """Return how many messages to claim; a claim returns messages of one lane only."""
        ahead = self._look_ahead()
        idle = len(self._idle) > len(self._lanes)
        if not idle and (not ahead or self._count_waiting() > ahead // 2):
            return 0
        return (self.handler.batch or 1) + self._look_along()

    def _count_waiting(self) -> int:
        return len(self._stranded) + sum(map(len, (*self._lanes, *self._current.values())))

    def _look_along(self) -> int:
        """Return how many messages of one lane to prefetch."""
        if self._stuck or self.handler.prefetch is not None or not self._pace:
            return self._look_ahead()
        return min(int(AHEAD / self._pace), MOST_AHEAD)

    def _add_waiting(self, claimed: Sequence[Item]) -> None:
        lanes: dict[Token, Lane] = {}
        for item in claimed:
            lanes.setdefault(item[0].delivery.token, deque()).append(item)
        self._lanes.extend(lanes.values())
        self._wake_slots(len(lanes))

    def _list_waiting(self) -> Iterable[Item]:
        return chain(self._stranded, *self._lanes, *self._current.values())

    def _withdraw(self, by: float) -> list[Item]:
        """Remove and return the stale messages, and those behind them in their lanes."""
        stale, self._stranded = self._stranded, []
        for lane in (*self._lanes, *self._current.values()):
            fresh = next(
                (n for n, (_, lease_group) in enumerate(lane) if lease_group.stale <= by), len(lane)
            )
            while len(lane) > fresh:
                stale.append(lane.pop())
        self._lanes = deque(lane for lane in self._lanes if lane)
        return stale

    def _restore(self, items: Sequence[Item]) -> None:
        self._stranded.extend(items)

    async def _work(self, slot: Slot) -> None:
        while not slot.abandoned:
            if not self._lanes:
                await self._wait_for_work()
                continue
            lane = self._current[slot] = self._lanes.popleft()
            try:
                await self._follow(slot, lane)
            finally:
                del self._current[slot]
                self._stranded.extend(lane)

    async def _follow(self, slot: Slot, lane: Lane) -> None:
        """Handle a lane's messages up to the first that does not succeed, and release the rest."""
        batch = self.handler.batch
        began = monotonic()
        while lane and not slot.abandoned:
            now = monotonic()
            claimed = [lane.popleft() for _ in range(min(batch or 1, len(lane)))]
            if self._claiming and not self._wants_messages.is_set():
                self._wants_messages.set()
            if not all(
                lease_group.is_safe(now) and not message.lost for message, lease_group in claimed
            ):
                lane.extendleft(reversed(claimed))
                break
            good = await self._handle(slot, [message for message, _ in claimed])
            end = self._measure_pace(now)
            if not good:
                break
            if end - began > SLICE:
                await asyncio.sleep(0)
                began = monotonic()
        if lane and not slot.abandoned:
            # The nack of the message before ended most of these leases, unless it was dead-lettered.
            await self._returns.release([message for message, _ in lane])
            lane.clear()
