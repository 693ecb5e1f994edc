"""Consumers that wait with the same filter, in order of arrival."""

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
    """Which messages a waiter accepts: of a partition, of a priority, or any."""

    partition: str | None = None
    priority: int | None = None


class Waiter:
    """One consumer's claim. last: the next call answers it, even without messages.

    own_token: it shares its token with no other consumer. fill: in a FIFO queue, it accepts messages
    of several partitions.
    """

    __slots__ = ("answer", "consumer", "fill", "last", "lease", "own_token", "want")

    def __init__(
        self,
        want: int,
        lease: timedelta | None,
        consumer: str | None,
        *,
        last: bool,
        own_token: bool = False,
        fill: bool = False,
    ) -> None:
        self.want = want
        self.lease = lease
        self.consumer = consumer
        self.last = last
        self.own_token = own_token
        self.fill = fill
        self.answer: asyncio.Future[list[ClaimedSpan]] = asyncio.get_running_loop().create_future()


# Waiters in order of arrival.
Waiters: TypeAlias = "OrderedDict[Waiter, None]"

# How many messages to ask for after a call that left a waiter without messages; doubled after each
# call that leaves none.
FIRST_BATCH = 32
LARGEST_BATCH = 65_536


class Line:
    """Waiters with the same filter. awake: there may be messages for them.

    A newcomer is part of the next call unless other waiters are asleep: those found nothing, and
    nothing has arrived since. A waiter that got no message sleeps until the line is woken. Woken
    waiters are called for in growing batches and only while messages are found, so one message does
    not cause calls for a thousand sleepers. in_call: waiters in the running call.
    """

    __slots__ = (
        "_asleep",
        "_batch_limit",
        "_newcomers",
        "_woken",
        "awake",
        "filter",
        "in_call",
        "wakes",
    )

    def __init__(self, wanted: Filter) -> None:
        self.filter = wanted
        self._asleep: Waiters = OrderedDict()
        self._woken: Waiters = OrderedDict()
        self._newcomers: Waiters = OrderedDict()
        self._batch_limit = FIRST_BATCH
        self.in_call = 0
        self.awake = False
        self.wakes = 0

    def __iter__(self) -> Iterator[Waiter]:
        return chain(self._woken, self._asleep, self._newcomers)

    @property
    def is_empty(self) -> bool:
        return not (self.in_call or self._woken or self._asleep or self._newcomers)

    @property
    def has_eligible(self) -> bool:
        """Whether any waiter should be part of the next call."""
        return bool(self._woken or self._newcomers)

    def join(self, waiter: Waiter) -> None:
        if self._asleep and not waiter.last:
            self._asleep[waiter] = None
        else:
            self._add_newcomer(waiter)

    def leave(self, waiter: Waiter) -> None:
        for row in (self._woken, self._asleep, self._newcomers):
            row.pop(waiter, None)

    def has(self, waiter: Waiter) -> bool:
        return waiter in self._woken or waiter in self._asleep or waiter in self._newcomers

    def wake(self) -> None:
        self.wakes += 1
        self.awake = True
        self._woken, self._asleep = concat(self._woken, self._asleep), OrderedDict()

    def next_batch(self, *, messages: int) -> list[Waiter]:
        """Remove and return the first waiters: those that want up to `messages` messages in total."""
        batch: list[Waiter] = []
        left = min(messages, self._batch_limit) if self._woken else messages
        for row in (self._woken, self._newcomers):
            while row:
                waiter = next(iter(row))
                if batch and waiter.want > left:
                    break
                del row[waiter]
                if not waiter.answer.done():
                    batch.append(waiter)
                    left -= waiter.want
            if row:
                break
        self.in_call += len(batch)
        self.awake = self.has_eligible
        return batch

    def finish_call(self, left: Sequence[Waiter], *, exhausted: bool, wakes: int) -> None:
        """Requeue the waiters that a call left without messages.

        exhausted: the call found fewer messages than were wanted. wakes: `self.wakes` before it.
        """
        if not exhausted:
            self._batch_limit = min(2 * self._batch_limit, LARGEST_BATCH)
            return
        self._batch_limit = FIRST_BATCH
        # They arrived before those that were not in the batch.
        self._woken = concat(self._retry_impatient(left), self._woken)
        if wakes == self.wakes:
            # There are no messages for the others either.
            self._asleep, self._woken = concat(self._asleep, self._woken), OrderedDict()
        self.awake = self.has_eligible

    def _add_newcomer(self, waiter: Waiter) -> None:
        self._newcomers[waiter] = None
        self.awake = True

    def _retry_impatient(self, left: Sequence[Waiter]) -> Waiters:
        """Put waiters that may not wait into the next call; return the others."""
        impatient = [waiter for waiter in left if waiter.last]
        self._newcomers = concat(OrderedDict.fromkeys(impatient), self._newcomers)
        return OrderedDict.fromkeys(waiter for waiter in left if not waiter.last)


def concat(first: Waiters, then: Waiters) -> Waiters:
    """Return both in order, in time proportional to the shorter one. Invalidates both."""
    if len(first) >= len(then):
        first.update(then)
        return first
    for waiter in reversed(first):
        then[waiter] = None
        then.move_to_end(waiter, last=False)
    return then
