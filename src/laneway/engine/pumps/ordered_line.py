"""Consumers of an ordered group who wait for the same messages: a lane serves one of them at a time."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from laneway.engine.pumps.line import Line, join_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.engine.pumps.line import Filter, Waiter

# Seconds for which it is known that there is nothing, as long as nothing is told.
KNOWN_FOR = 0.1
# How many waiters ask in one call when nobody knows how many can be served.
REACH = 32


class OrderedLine(Line):
    """Wakes as many as can be served, and lets those sleep who come while all is handed out."""

    __slots__ = ("_dry_at", "_roused")

    def __init__(self, wanted: Filter) -> None:
        super().__init__(wanted)
        self._dry_at = float("-inf")
        self._roused = False

    def join(self, waiter: Waiter) -> None:
        if waiter.last or time.monotonic() - self._dry_at > KNOWN_FOR:
            super().join(waiter)
        else:
            self._asleep[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        woken = waiter in self._woken
        super().leave(waiter)
        if woken:
            # What it was woken for is another's now.
            self.wake(1)

    def wake(self, most: int | None = None) -> None:
        """Have up to so many ask; None: all."""
        self._roused = True
        if most is None or most > len(self._asleep):
            # There may be something for whoever comes next, too.
            self.wakes += 1
            self._dry_at = float("-inf")
        if most is None or most >= len(self._asleep):
            self._woken = join_rows(self._woken, self._asleep)
            self._asleep = OrderedDict()
        else:
            for _ in range(most):
                waiter, _none = self._asleep.popitem(last=False)
                self._woken[waiter] = None
        self.awake = self.has_askers

    def board(self, *, messages: int) -> list[Waiter]:
        riders: list[Waiter] = []
        left = messages
        self._roused = False
        while (self._woken or self._newcomers) and len(riders) < REACH:
            row = self._woken or self._newcomers
            waiter = next(iter(row))
            if waiter.answer.done():
                self.leave(waiter)
                continue
            if riders and waiter.want > left:
                break
            del row[waiter]
            riders.append(waiter)
            left -= waiter.want
        self.riding += len(riders)
        self.awake = self.has_askers
        return riders

    def settle(self, left: Sequence[Waiter], *, dry: bool, wakes: int) -> None:
        if not dry:
            return
        hasty = [waiter for waiter in left if waiter.last]
        self._newcomers = join_rows(OrderedDict.fromkeys(hasty), self._newcomers)
        patient = OrderedDict.fromkeys(waiter for waiter in left if not waiter.last)
        if wakes != self.wakes:
            # Something came for which nobody was woken.
            self._woken = join_rows(patient, self._woken)
        else:
            self._asleep = join_rows(patient, self._asleep)
            if not self._roused:
                # There is nothing for the others either.
                self._asleep = join_rows(self._asleep, self._woken)
                self._woken = OrderedDict()
            self._dry_at = time.monotonic()
        self.awake = self.has_askers
