"""Claimed spans: distributed to the waiting consumers, and converted to messages."""

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
# From this field on, the fields of a span are columns.
_COLUMNS = ClaimedSpan._fields.index("positions")


def distribute(
    rows: Iterable[asyncpg.Record | tuple[Any, ...]], wants: Sequence[int]
) -> list[list[ClaimedSpan]]:
    """Return the spans of each waiter.

    A row is a waiter's number and a span. If a waiter's spans have more messages than it asked for,
    the rest is for the waiters after it: they share a claim.
    """
    parts: list[list[ClaimedSpan]] = [[] for _ in wants]
    for row in rows:
        parts[row[0]].append(ClaimedSpan._make(row[1:]))
    for waiter, spans in enumerate(parts):
        if count_messages(spans) > wants[waiter]:
            shared, parts[waiter] = spans, []
            _split_shared(shared, parts, wants, waiter)
            break
    return parts


def _split_shared(
    spans: Sequence[ClaimedSpan],
    parts: list[list[ClaimedSpan]],
    wants: Sequence[int],
    waiter: int,
) -> None:
    """Distribute spans of a shared claim to the waiters from this one on, oldest message first."""
    if len(spans) == 1:
        start = 0
        for place in range(waiter, len(wants)):
            stop = start + wants[place]
            if start < len(spans[0].bodies) and start < stop:
                parts[place].append(_cut(spans[0], start, stop))
            start = stop
        return
    places = chain.from_iterable(repeat(place, wants[place]) for place in range(waiter, len(wants)))
    cells = [[(span, at) for at in range(len(span.bodies))] for span in spans]
    for place, (span, at) in zip(places, arrange(spans, cells), strict=False):
        parts[place].append(_cut(span, at, at + 1))


def _cut(span: ClaimedSpan, start: int, stop: int) -> ClaimedSpan:
    values: list[Any] = list(span)
    values[_FIRST] += start
    values[_COLUMNS:] = [column and column[start:stop] for column in values[_COLUMNS:]]
    return ClaimedSpan._make(values)


def arrange(spans: Sequence[ClaimedSpan], columns: Iterable[Iterable[T]]) -> list[T]:
    """Return the values of all messages in delivery order, from a column of values per span.

    The order is by position or, without positions, by age.
    """
    if len(spans) == 1 and spans[0].positions is None:
        return list(*columns)
    if all(span.positions is None for span in spans):
        ages = [span.created_at for span in spans]
        aged = [zip(*pair, strict=False) for pair in zip(ages, columns, strict=True)]
        return [value for _, value in merge(*aged, key=itemgetter(0))]
    first: list[T] = []
    placed: list[tuple[int, T]] = []
    for span, column in zip(spans, columns, strict=True):
        if span.positions is None:
            first += column
        else:
            placed += zip(span.positions, column, strict=True)
    placed.sort(key=itemgetter(0))
    return first + [value for _, value in placed]


def list_deliveries(spans: Sequence[ClaimedSpan]) -> list[Delivery]:
    """Return the messages in delivery order."""
    return arrange(spans, map(_list_messages, spans))


def count_messages(spans: Iterable[ClaimedSpan]) -> int:
    return sum(len(span.bodies) for span in spans)


def list_receipts(spans: Iterable[ClaimedSpan]) -> list[Receipt]:
    return [
        Receipt(span.token, span.lane, seq)
        for span in spans
        for seq in range(span.first, span.first + len(span.bodies))
    ]


def list_attempts(span: ClaimedSpan) -> Iterable[int]:
    """Return the attempt of each message; zero in `attempts` means the span's own."""
    if not span.attempts:
        return repeat(span.attempt)
    return [own or span.attempt for own in span.attempts]


def _list_messages(span: ClaimedSpan) -> Iterable[Delivery]:
    return map(
        Delivery._make,
        zip(
            repeat(span.token),
            repeat(span.segment),
            repeat(span.lane),
            count(span.first),
            repeat(span.partition),
            repeat(span.priority),
            list_attempts(span),
            span.created_at,
            repeat(span.until),
            span.leases or _NOTHING,
            span.max_attempts or _NOTHING,
            span.dedup_keys or _NOTHING,
            span.headers or _NOTHING,
            span.bodies,
            span.errors or _NOTHING,
            strict=False,
        ),
    )


_NOTHING = repeat(None)
