"""Consumers of an ordered group who wait for the same messages: a lane serves one of them at a time."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from laneway.engine.pumps.line import Line, join_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from laneway.engine.pumps.line import Filter, Waiter

# Seconds for which it is known that there is nothing, as long as nothing is told.
KNOWN_FOR = 0.1
# How many waiters ask in one call when nobody knows how many can be served.
REACH = 32


class OrderedLine(Line):
    """Wakes as many as can be served, and lets those sleep who come while all is handed out."""

    __slots__ = ("_dry_at", "_places", "_roused", "places")

    def __init__(self, wanted: Filter) -> None:
        super().__init__(wanted)
        self._dry_at = float("-inf")
        self._roused = False
        # Where those who are woken will find something; None: anywhere.
        self._places: set[str] | None = set()
        self.places: Collection[str] | None = None

    @property
    def has_sleepers(self) -> bool:
        return bool(self._asleep)

    def join(self, waiter: Waiter) -> None:
        if waiter.last or time.monotonic() - self._dry_at > KNOWN_FOR:
            self._ask(waiter)
        else:
            self._asleep[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        woken = waiter in self._woken
        super().leave(waiter)
        if woken:
            # What it was woken for is another's now.
            self._rouse(1)

    def wake(self) -> None:
        self._places = None
        self._rouse(None)

    def wake_for(self, partitions: Collection[str]) -> None:
        """Have as many ask, for these partitions."""
        if self._places is not None:
            self._places.update(partitions)
        self._rouse(len(partitions))

    def board(self, *, messages: int) -> list[Waiter]:
        """Take the first waiters; `places` tells where they are to look."""
        riders: list[Waiter] = []
        left = messages
        self._roused = False
        self.places = self._places
        while (self._woken or self._newcomers) and len(riders) < REACH:
            row = self._woken or self._newcomers
            if row is self._newcomers:
                self.places = None
            waiter = next(iter(row))
            if waiter.answer.done():
                self.leave(waiter)
                continue
            if riders and waiter.want > left:
                break
            del row[waiter]
            riders.append(waiter)
            left -= waiter.want
        if not self._woken:
            self._places = set()
        self.riding += len(riders)
        self.awake = self.has_askers
        return riders

    def settle(self, left: Sequence[Waiter], *, dry: bool, wakes: int) -> None:
        if not dry:
            return
        patient = self._part(left)
        if wakes != self.wakes:
            # Something came for which nobody was woken.
            self._woken = join_rows(patient, self._woken)
        else:
            self._asleep = join_rows(patient, self._asleep)
            if self.places is None:
                self._dry_at = time.monotonic()
                if not self._roused:
                    # There is nothing for the others either.
                    self._asleep = join_rows(self._asleep, self._woken)
                    self._woken = OrderedDict()
        self.awake = self.has_askers

    def _rouse(self, most: int | None) -> None:
        self._roused = True
        if most is None or most > len(self._asleep):
            # There may be something for whoever comes next, too.
            self.wakes += 1
            self._places = None
            self._dry_at = float("-inf")
        if most is None or most >= len(self._asleep):
            self._woken = join_rows(self._woken, self._asleep)
            self._asleep = OrderedDict()
        else:
            for _ in range(most):
                waiter, _none = self._asleep.popitem(last=False)
                self._woken[waiter] = None
        self.awake = self.has_askers
