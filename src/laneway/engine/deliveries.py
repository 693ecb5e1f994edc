"""What claims hand out: dealt to those who asked, and message by message where one wants it so."""

from __future__ import annotations

from heapq import merge
from itertools import chain, count, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from laneway.domain.messages import ClaimedSpan, Delivery, Receipt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import asyncpg

T = TypeVar("T")

_FIRST = ClaimedSpan._fields.index("first")
# From this field on, a handout has columns.
_COLUMNS = ClaimedSpan._fields.index("positions")


def deal(
    rows: Iterable[asyncpg.Record | tuple[Any, ...]], wants: Sequence[int]
) -> list[list[ClaimedSpan]]:
    """Return what each waiter was handed.

    A row is a waiter's number and a handout. What is more than that one wanted is for those after
    it: they share a lock.
    """
    dealt: list[list[ClaimedSpan]] = [[] for _ in wants]
    for row in rows:
        dealt[row[0]].append(ClaimedSpan._make(row[1:]))
    for waiter, handouts in enumerate(dealt):
        if count_messages(handouts) > wants[waiter]:
            shared, dealt[waiter] = handouts, []
            _share_out(shared, dealt, wants, waiter)
            break
    return dealt


def _share_out(
    handouts: Sequence[ClaimedSpan],
    dealt: list[list[ClaimedSpan]],
    wants: Sequence[int],
    waiter: int,
) -> None:
    """Give each waiter from this one on as many as it wanted, the oldest first."""
    if len(handouts) == 1:
        start = 0
        for place in range(waiter, len(wants)):
            stop = start + wants[place]
            if start < len(handouts[0].bodies) and start < stop:
                dealt[place].append(_cut(handouts[0], start, stop))
            start = stop
        return
    places = chain.from_iterable(repeat(place, wants[place]) for place in range(waiter, len(wants)))
    spots = [[(handout, at) for at in range(len(handout.bodies))] for handout in handouts]
    for place, (handout, at) in zip(places, arrange(handouts, spots), strict=False):
        dealt[place].append(_cut(handout, at, at + 1))


def _cut(handout: ClaimedSpan, start: int, stop: int) -> ClaimedSpan:
    values: list[Any] = list(handout)
    values[_FIRST] += start
    values[_COLUMNS:] = [column and column[start:stop] for column in values[_COLUMNS:]]
    return ClaimedSpan._make(values)


def arrange(handouts: Sequence[ClaimedSpan], columns: Iterable[Iterable[T]]) -> list[T]:
    """Return what there is of each message, a column for a handout, in the order of delivery.

    That is by position or, where there are none, by age.
    """
    if len(handouts) == 1 and handouts[0].positions is None:
        return list(*columns)
    if all(handout.positions is None for handout in handouts):
        ages = [handout.created_at for handout in handouts]
        aged = [zip(*pair, strict=False) for pair in zip(ages, columns, strict=True)]
        return [value for _, value in merge(*aged, key=itemgetter(0))]
    first: list[T] = []
    placed: list[tuple[int, T]] = []
    for handout, column in zip(handouts, columns, strict=True):
        if handout.positions is None:
            first += column
        else:
            placed += zip(handout.positions, column, strict=True)
    placed.sort(key=itemgetter(0))
    return first + [value for _, value in placed]


def list_deliveries(handouts: Sequence[ClaimedSpan]) -> list[Delivery]:
    """Return the messages in the order of delivery."""
    return arrange(handouts, map(_list_messages, handouts))


def count_messages(handouts: Iterable[ClaimedSpan]) -> int:
    return sum(len(handout.bodies) for handout in handouts)


def list_receipts(handouts: Iterable[ClaimedSpan]) -> list[Receipt]:
    return [
        Receipt(handout.token, handout.lane, seq)
        for handout in handouts
        for seq in range(handout.first, handout.first + len(handout.bodies))
    ]


def list_attempts(handout: ClaimedSpan) -> Iterable[int]:
    """Return how often each was handed out; those that did not fail before have no own number."""
    if not handout.attempts:
        return repeat(handout.attempt)
    return [own or handout.attempt for own in handout.attempts]


def _list_messages(handout: ClaimedSpan) -> Iterable[Delivery]:
    return map(
        Delivery._make,
        zip(
            repeat(handout.token),
            repeat(handout.segment),
            repeat(handout.lane),
            count(handout.first),
            repeat(handout.partition),
            repeat(handout.priority),
            list_attempts(handout),
            handout.created_at,
            repeat(handout.until),
            handout.leases or _NOTHING,
            handout.max_attempts or _NOTHING,
            handout.keys or _NOTHING,
            handout.headers or _NOTHING,
            handout.bodies,
            handout.errors or _NOTHING,
            strict=False,
        ),
    )


_NOTHING = repeat(None)
