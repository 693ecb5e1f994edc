"""Batches as the arrays that the SQL functions take, and their answers as values again."""

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
    """Messages turned on their side, as push_many takes them: null, one for all, or one each."""

    bodies: Sequence[str]
    partitions: Sequence[str] | None
    priorities: Sequence[int] | None
    delays: Sequence[timedelta | None] | None
    keys: Sequence[str | None] | None
    headers: Sequence[str | None] | None
    leases: Sequence[timedelta | None] | None
    max_attempts: Sequence[int | None] | None


class Runs(NamedTuple):
    """Receipts as ack_many takes them: each run is first .. last of a token in a lane."""

    tokens: list[Token]
    lanes: list[int]
    first: list[int]
    last: list[int]

    def begin(self, token: Token, lane: int, seq: int) -> None:
        """Add a run of one message."""
        self.tokens.append(token)
        self.lanes.append(lane)
        self.first.append(seq)
        self.last.append(seq)

    def join(self, runs: Runs) -> None:
        """Add all of others."""
        self.tokens.extend(runs.tokens)
        self.lanes.extend(runs.lanes)
        self.first.extend(runs.first)
        self.last.extend(runs.last)

    @property
    def messages(self) -> int:
        return sum(self.last) - sum(self.first) + len(self.first)

    def find_positions(self, lost: Sequence[LostRun]) -> list[int]:
        """Return where lost messages stand among all."""
        if not lost:
            return []
        sizes = (last - first + 1 for first, last in zip(self.first, self.last, strict=True))
        starts = list(accumulate(sizes, initial=0))
        return [
            starts[run] + seq - self.first[run]
            for run, first, last in lost
            for seq in range(first, last + 1)
        ]


class LostRun(NamedTuple):
    """What was not settled of a run: its messages first .. last."""

    run: int
    first: int
    last: int


def turn_messages(messages: Sequence[OutgoingMessage]) -> MessageColumns:
    if not messages:
        return MessageColumns((), None, None, None, None, None, None, None)
    bodies, partitions, priorities, delays, keys, headers, leases, max_attempts = zip(
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
    )


def squeeze(column: Sequence[T], default: T | None = None) -> Sequence[T] | None:
    """Return null for a column of defaults and one element for a column of equals."""
    first = column[0]
    if column.count(first) < len(column):
        return column
    return None if first == default else (first,)


def expand_places(rows: Iterable[asyncpg.Record]) -> list[Pushed]:
    """Return the place of each message from push_many's runs."""
    pushed: list[Pushed] = []
    for _, run, segment, lane, seq, duplicate in rows:
        if run == 1:
            pushed.append(Pushed(segment, lane, seq, duplicate))
        else:
            pushed += [Pushed(segment, lane, at, duplicate) for at in range(seq, seq + run)]
    return pushed


def make_runs(receipts: Sequence[Receipt]) -> Runs:
    """Return one run for the messages of a token in a lane, as far as they follow each other."""
    runs = Runs([], [], [], [])
    if not _fill_runs(runs, receipts):
        runs = Runs([], [], [], [])
        _fill_runs(runs, sorted(receipts, key=lambda receipt: (str(receipt[0]), *receipt[1:])))
    return runs


def _fill_runs(runs: Runs, receipts: Sequence[Receipt]) -> bool:
    """Return False where a token's messages in a lane fell into several runs."""
    last = runs.last
    seen: set[tuple[Token, int]] = set()
    whole = True
    run_token: Token = ""
    run_lane = run_last = -1
    for token, lane, seq in receipts:
        if seq == run_last + 1 and lane == run_lane and token == run_token:
            last[-1] = seq
        else:
            runs.begin(token, lane, seq)
            if (token, lane) in seen:
                whole = False
            seen.add((token, lane))
            run_token, run_lane = token, lane
        run_last = seq
    return whole
