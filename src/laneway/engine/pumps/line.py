"""Consumers who wait for the same messages, in order of arrival."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    from laneway.domain.messages import ClaimedSpan


class Filter(NamedTuple):
    """What a waiter wants: a partition, a priority, or any."""

    partition: str | None = None
    priority: int | None = None


class Waiter:
    """One consumer's claim. last: it is answered by the next call, whatever that brings.

    apart: under a token that it shares with no other.
    """

    __slots__ = ("answer", "apart", "consumer", "last", "lease", "want")

    def __init__(
        self,
        want: int,
        lease: timedelta | None,
        consumer: str | None,
        *,
        last: bool,
        apart: bool = False,
    ) -> None:
        self.want = want
        self.lease = lease
        self.consumer = consumer
        self.last = last
        self.apart = apart
        self.answer: asyncio.Future[list[ClaimedSpan]] = asyncio.get_running_loop().create_future()


# Waiters in order of arrival.
Row: TypeAlias = "OrderedDict[Waiter, None]"

# How many messages to ask for after a call that left somebody with nothing; doubled while none does.
FIRST_REACH = 32
LAST_REACH = 65_536


class Line:
    """Waiters with the same filter. awake: something may be there for them.

    A newcomer asks once, unless others sleep already: they asked, and nothing came since. Who got
    nothing sleeps until the line is woken, and then asks only while others do get something: one
    message for a thousand sleepers costs no call for all of them.
    """

    __slots__ = ("_asleep", "_newcomers", "_reach", "_woken", "awake", "filter", "riding", "wakes")

    def __init__(self, wanted: Filter) -> None:
        self.filter = wanted
        self._asleep: Row = OrderedDict()
        self._woken: Row = OrderedDict()
        self._newcomers: Row = OrderedDict()
        self._reach = FIRST_REACH
        self.riding = 0
        self.awake = False
        self.wakes = 0

    def __iter__(self) -> Iterator[Waiter]:
        return chain(self._woken, self._asleep, self._newcomers)

    @property
    def is_empty(self) -> bool:
        return not (self.riding or self._woken or self._asleep or self._newcomers)

    @property
    def has_askers(self) -> bool:
        return bool(self._woken or self._newcomers)

    def join(self, waiter: Waiter) -> None:
        if self._asleep and not waiter.last:
            self._asleep[waiter] = None
        else:
            self._ask(waiter)

    def leave(self, waiter: Waiter) -> None:
        for row in (self._woken, self._asleep, self._newcomers):
            row.pop(waiter, None)

    def holds(self, waiter: Waiter) -> bool:
        return waiter in self._woken or waiter in self._asleep or waiter in self._newcomers

    def wake(self) -> None:
        self.wakes += 1
        self.awake = True
        self._woken, self._asleep = join_rows(self._woken, self._asleep), OrderedDict()

    def board(self, *, messages: int) -> list[Waiter]:
        """Take the first waiters, as many as want so many messages together."""
        riders: list[Waiter] = []
        left = min(messages, self._reach) if self._woken else messages
        for row in (self._woken, self._newcomers):
            while row:
                waiter = next(iter(row))
                if riders and waiter.want > left:
                    break
                del row[waiter]
                if not waiter.answer.done():
                    riders.append(waiter)
                    left -= waiter.want
            if row:
                break
        self.riding += len(riders)
        self.awake = self.has_askers
        return riders

    def settle(self, left: Sequence[Waiter], *, dry: bool, wakes: int) -> None:
        """Go on after a call that brought too little for all (dry) and left these with nothing.

        wakes: how many there were before it.
        """
        if not dry:
            self._reach = min(2 * self._reach, LAST_REACH)
            return
        self._reach = FIRST_REACH
        # They came before those who did not ride.
        self._woken = join_rows(self._part(left), self._woken)
        if wakes == self.wakes:
            # There is nothing for the others either.
            self._asleep, self._woken = join_rows(self._asleep, self._woken), OrderedDict()
        self.awake = self.has_askers

    def _ask(self, waiter: Waiter) -> None:
        self._newcomers[waiter] = None
        self.awake = True

    def _part(self, left: Sequence[Waiter]) -> Row:
        """Have those ask again who cannot wait, and return the others."""
        hasty = [waiter for waiter in left if waiter.last]
        self._newcomers = join_rows(OrderedDict.fromkeys(hasty), self._newcomers)
        return OrderedDict.fromkeys(waiter for waiter in left if not waiter.last)


def join_rows(first: Row, then: Row) -> Row:
    """Return both in order, at the cost of the shorter one; neither is used again."""
    if len(first) >= len(then):
        first.update(then)
        return first
    for waiter in reversed(first):
        then[waiter] = None
        then.move_to_end(waiter, last=False)
    return then
