"""Consumers of an ordered group that wait with the same filter; a lane is leased to one at a time."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from laneway.engine.pumps.line import Line, concat

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from laneway.engine.pumps.line import Filter, Waiter

# For how many seconds newcomers sleep without a call after one found nothing, unless woken.
EXHAUSTED_FOR = 0.1
# How many waiters one call carries.
MOST_WAITERS = 32


class OrderedLine(Line):
    """Wakes one waiter per free lane; newcomers sleep while every lane is leased."""

    __slots__ = ("_exhausted_at", "_partitions", "_woken_since_call", "partitions")

    def __init__(self, wanted: Filter) -> None:
        super().__init__(wanted)
        self._exhausted_at = float("-inf")
        self._woken_since_call = False
        # Partitions that may have messages for the woken waiters; None: any.
        self._partitions: set[str] | None = set()
        self.partitions: Collection[str] | None = None

    @property
    def has_sleepers(self) -> bool:
        return bool(self._asleep)

    def join(self, waiter: Waiter) -> None:
        if waiter.last or time.monotonic() - self._exhausted_at > EXHAUSTED_FOR:
            self._add_newcomer(waiter)
        else:
            self._asleep[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        woken = waiter in self._woken
        super().leave(waiter)
        if woken:
            # Another waiter can have the messages that it was woken for.
            self._wake_waiters(1)

    def wake(self) -> None:
        self._partitions = None
        self._wake_waiters(None)

    def wake_for(self, partitions: Collection[str]) -> None:
        """Wake one waiter for each of these partitions."""
        if self._partitions is not None:
            self._partitions.update(partitions)
        self._wake_waiters(len(partitions))

    def next_batch(self, *, messages: int) -> list[Waiter]:
        """Remove and return the first waiters; set `partitions` to those that the call should claim from."""
        batch: list[Waiter] = []
        left = messages
        self._woken_since_call = False
        self.partitions = self._partitions
        while (self._woken or self._newcomers) and len(batch) < MOST_WAITERS:
            row = self._woken or self._newcomers
            if row is self._newcomers:
                self.partitions = None
            waiter = next(iter(row))
            if waiter.answer.done():
                self.leave(waiter)
                continue
            if batch and waiter.want > left:
                break
            del row[waiter]
            batch.append(waiter)
            left -= waiter.want
        if not self._woken:
            self._partitions = set()
        self.in_call += len(batch)
        self.awake = self.has_eligible
        return batch

    def finish_call(self, left: Sequence[Waiter], *, exhausted: bool, wakes: int) -> None:
        if not exhausted:
            return
        patient = self._retry_impatient(left)
        if wakes != self.wakes:
            # Messages arrived for which no waiter was woken.
            self._woken = concat(patient, self._woken)
        else:
            self._asleep = concat(patient, self._asleep)
            if self.partitions is None:
                self._exhausted_at = time.monotonic()
                if not self._woken_since_call:
                    # There are no messages for the others either.
                    self._asleep = concat(self._asleep, self._woken)
                    self._woken = OrderedDict()
        self.awake = self.has_eligible

    def _wake_waiters(self, most: int | None) -> None:
        """Wake the first `most` waiters, or all."""
        self._woken_since_call = True
        if most is None or most > len(self._asleep):
            # There may be messages for newcomers, too.
            self.wakes += 1
            self._partitions = None
            self._exhausted_at = float("-inf")
        if most is None or most >= len(self._asleep):
            self._woken = concat(self._woken, self._asleep)
            self._asleep = OrderedDict()
        else:
            for _ in range(most):
                waiter, _none = self._asleep.popitem(last=False)
                self._woken[waiter] = None
        self.awake = self.has_eligible
