"""Consumers who wait for the same messages, in order of arrival."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from laneway.domain.messages import Delivery


class Filter(NamedTuple):
    """What a waiter wants: a partition, a priority, or any."""

    partition: str | None = None
    priority: int | None = None


class Waiter:
    """One consumer's claim. last: it is answered by the next call, whatever that brings."""

    __slots__ = ("answer", "consumer", "last", "lease", "want")

    def __init__(
        self, want: int, lease: timedelta | None, consumer: str | None, *, last: bool
    ) -> None:
        self.want = want
        self.lease = lease
        self.consumer = consumer
        self.last = last
        self.answer: asyncio.Future[list[Delivery]] = asyncio.get_running_loop().create_future()


# Waiters in order of arrival.
Row: TypeAlias = "OrderedDict[Waiter, None]"


class Line:
    """Waiters with the same filter. awake: something may be there for them."""

    __slots__ = ("awake", "filter", "riding", "waiters")

    def __init__(self, wanted: Filter) -> None:
        self.filter = wanted
        self.waiters: Row = OrderedDict()
        self.riding = 0
        self.awake = False

    def board(self, *, messages: int) -> list[Waiter]:
        """Take the first waiters, as many as want so many messages together."""
        riders: list[Waiter] = []
        while self.waiters:
            waiter = next(iter(self.waiters))
            if riders and waiter.want > messages:
                break
            del self.waiters[waiter]
            if not waiter.answer.done():
                riders.append(waiter)
                messages -= waiter.want
        self.riding += len(riders)
        self.awake = bool(self.waiters)
        return riders

    def stay(self, waiters: Sequence[Waiter]) -> None:
        """Put back those who got nothing, in front of those who came later."""
        for waiter in reversed(waiters):
            self.waiters[waiter] = None
            self.waiters.move_to_end(waiter, last=False)
