"""Batches as the arrays that SQL functions take, and their results as values."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from laneway.domain.messages import Pushed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta

    import asyncpg

    from laneway.domain.messages import OutgoingMessage, Receipt, Token

T = TypeVar("T")


class MessageColumns(NamedTuple):
    """Messages as columns for push_many: null, one value for all, or one value each."""

    bodies: Sequence[str]
    partitions: Sequence[str] | None
    priorities: Sequence[int] | None
    delays: Sequence[timedelta | None] | None
    dedup_keys: Sequence[str | None] | None
    headers: Sequence[str | None] | None
    leases: Sequence[timedelta | None] | None
    max_attempts: Sequence[int | None] | None
    dedup_windows: Sequence[timedelta | None] | None


class Spans(NamedTuple):
    """Receipts as columns for ack_many: each span is first .. last of a token in a lane."""

    tokens: list[Token]
    lanes: list[int]
    first: list[int]
    last: list[int]

    def begin(self, token: Token, lane: int, seq: int) -> None:
        """Add a span of one message."""
        self.tokens.append(token)
        self.lanes.append(lane)
        self.first.append(seq)
        self.last.append(seq)

    def join(self, spans: Spans) -> None:
        """Add all spans of others."""
        self.tokens.extend(spans.tokens)
        self.lanes.extend(spans.lanes)
        self.first.extend(spans.first)
        self.last.extend(spans.last)

    @property
    def messages(self) -> int:
        return sum(self.last) - sum(self.first) + len(self.first)

    def find_positions(self, lost: Sequence[LostSpan]) -> list[int]:
        """Return the positions of lost messages among all."""
        if not lost:
            return []
        sizes = (last - first + 1 for first, last in zip(self.first, self.last, strict=True))
        starts = list(accumulate(sizes, initial=0))
        return [
            starts[span] + seq - self.first[span]
            for span, first, last in lost
            for seq in range(first, last + 1)
        ]


class LostSpan(NamedTuple):
    """The part of a span that was not settled: its messages first .. last."""

    span: int
    first: int
    last: int


def turn_messages(messages: Sequence[OutgoingMessage]) -> MessageColumns:
    if not messages:
        return MessageColumns((), None, None, None, None, None, None, None, None)
    bodies, partitions, priorities, delays, keys, headers, leases, max_attempts, windows = zip(
        *messages, strict=True
    )
    return MessageColumns(
        bodies,
        squeeze(partitions, ""),
        squeeze(priorities, 0),
        squeeze(delays),
        squeeze(keys),
        squeeze(headers),
        squeeze(leases),
        squeeze(max_attempts),
        squeeze(windows),
    )


def squeeze(column: Sequence[T], default: T | None = None) -> Sequence[T] | None:
    """Return null for a column of defaults, and one element for a column of equal values."""
    first = column[0]
    if column.count(first) < len(column):
        return column
    return None if first == default else (first,)


def expand_places(rows: Iterable[asyncpg.Record]) -> list[Pushed]:
    """Return the place of each message from push_many's spans."""
    pushed: list[Pushed] = []
    for _, span, segment, lane, seq, duplicate in rows:
        if span == 1:
            pushed.append(Pushed(segment, lane, seq, duplicate))
        else:
            pushed += [Pushed(segment, lane, at, duplicate) for at in range(seq, seq + span)]
    return pushed


def make_spans(receipts: Sequence[Receipt]) -> Spans:
    """Return spans of the receipts: consecutive messages of a token and lane share one."""
    spans = Spans([], [], [], [])
    if not _fill_spans(spans, receipts):
        spans = Spans([], [], [], [])
        _fill_spans(spans, sorted(receipts, key=lambda receipt: (str(receipt[0]), *receipt[1:])))
    return spans


def _fill_spans(spans: Spans, receipts: Sequence[Receipt]) -> bool:
    """Fill the spans; return False if the messages of a token and lane are not consecutive."""
    last = spans.last
    seen: set[tuple[Token, int]] = set()
    whole = True
    span_token: Token = ""
    span_lane = span_last = -1
    for token, lane, seq in receipts:
        if seq == span_last + 1 and lane == span_lane and token == span_token:
            last[-1] = seq
        else:
            spans.begin(token, lane, seq)
            if (token, lane) in seen:
                whole = False
            seen.add((token, lane))
            span_token, span_lane = token, lane
        span_last = seq
    return whole
