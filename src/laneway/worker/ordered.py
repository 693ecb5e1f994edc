"""Runs the handler of an ordered group: the messages of one lane one after the other, in one slot."""

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

    # What one claim brought of a lane and was not begun, in order.
    Lane: TypeAlias = deque[Item]


class OrderedRunner(Runner):
    """Different lanes are handled beside each other, each as far as its messages succeed.

    Where one does not, it comes again, and what was taken behind it does so after it.
    """

    _ordered = True

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._lanes: deque[Lane] = deque()
        self._begun: dict[Slot, Lane] = {}
        # On its way back when that was cut short: never begun, for a message before it may still run.
        self._stranded: list[Item] = []

    def _count_wanted(self) -> int:
        """Return how many messages of one lane to ask for: a claim brings no more than one lane."""
        ahead = self._look_ahead()
        idle = len(self._idle) > len(self._lanes)
        if not idle and (not ahead or self._count_waiting() > ahead // 2):
            return 0
        return (self.handler.batch or 1) + self._look_along()

    def _count_waiting(self) -> int:
        return len(self._stranded) + sum(map(len, (*self._lanes, *self._begun.values())))

    def _look_along(self) -> int:
        """Return how many messages of one lane to take ahead."""
        if self._stuck or self.handler.prefetch is not None or not self._pace:
            return self._look_ahead()
        return min(int(AHEAD / self._pace), MOST_AHEAD)

    def _line_up(self, taken: Sequence[Item]) -> None:
        lanes: dict[Token, Lane] = {}
        for item in taken:
            lanes.setdefault(item[0].delivery.token, deque()).append(item)
        self._lanes.extend(lanes.values())
        self._rouse(len(lanes))

    def _list_waiting(self) -> Iterable[Item]:
        return chain(self._stranded, *self._lanes, *self._begun.values())

    def _withdraw(self, by: float) -> list[Item]:
        """Take out what is stale, and what is behind it in its lane: that goes back with it."""
        stale, self._stranded = self._stranded, []
        for lane in (*self._lanes, *self._begun.values()):
            fresh = next((n for n, (_, lot) in enumerate(lane) if lot.stale <= by), len(lane))
            while len(lane) > fresh:
                stale.append(lane.pop())
        self._lanes = deque(lane for lane in self._lanes if lane)
        return stale

    def _restore(self, items: Sequence[Item]) -> None:
        self._stranded.extend(items)

    async def _work(self, slot: Slot) -> None:
        while not slot.given_up:
            if not self._lanes:
                await self._wait_for_work()
                continue
            lane = self._begun[slot] = self._lanes.popleft()
            try:
                await self._follow(slot, lane)
            finally:
                del self._begun[slot]
                self._stranded.extend(lane)

    async def _follow(self, slot: Slot, lane: Lane) -> None:
        """Handle a lane's messages, up to the first that does not succeed; the rest goes back."""
        batch = self.handler.batch
        began = monotonic()
        while lane and not slot.given_up:
            now = monotonic()
            taken = [lane.popleft() for _ in range(min(batch or 1, len(lane)))]
            if self._taking and not self._hungry.is_set():
                self._hungry.set()
            if not all(lot.is_safe(now) and not message.lost for message, lot in taken):
                lane.extendleft(reversed(taken))
                break
            good = await self._handle(slot, [message for message, _ in taken])
            end = self._pace_since(now)
            if not good:
                break
            if end - began > SLICE:
                await asyncio.sleep(0)
                began = monotonic()
        if lane and not slot.given_up:
            # Most are gone already, with the one before them; where that is dead, they are not.
            await self._returns.release([message for message, _ in lane])
            lane.clear()
