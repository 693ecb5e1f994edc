"""Batches as the arrays that the SQL functions take, and their answers as values again."""

from __future__ import annotations

from itertools import count, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from laneway.domain.messages import Delivery, Pushed

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


def add_runs(runs: Runs, receipts: Sequence[Receipt]) -> None:
    """Append the runs of one submission: one run where the messages of a token come in order."""
    start = len(runs.tokens)
    if _append_runs(runs, receipts):
        return
    for column in runs:
        del column[start:]
    _append_runs(runs, sorted(receipts, key=lambda receipt: (str(receipt[0]), *receipt[1:])))


def _append_runs(runs: Runs, receipts: Sequence[Receipt]) -> bool:
    """Return False where a token's messages in a lane fell into several runs."""
    tokens, lanes, first, last = runs
    seen: set[tuple[Token, int]] = set()
    whole = True
    run_token: Token = ""
    run_lane = run_last = -1
    for token, lane, seq in receipts:
        if seq == run_last + 1 and lane == run_lane and token == run_token:
            last[-1] = seq
        else:
            tokens.append(token)
            lanes.append(lane)
            first.append(seq)
            last.append(seq)
            if (token, lane) in seen:
                whole = False
            seen.add((token, lane))
            run_token, run_lane = token, lane
        run_last = seq
    return whole


def deal_runs(rows: Sequence[asyncpg.Record], *, waiters: int) -> list[list[Delivery]]:
    """Return each waiter's messages in the order they are to be handed out.

    A row is one claim: a run of one lane. Runs of several lanes are merged by their positions.
    """
    dealt: list[list[Delivery]] = [[] for _ in range(waiters)]
    merged: dict[int, list[tuple[int, Delivery]]] = {}
    for row in rows:
        (
            waiter,
            token,
            segment,
            lane,
            first,
            partition,
            priority,
            attempt,
            until,
            positions,
            attempts,
            created,
            leases,
            max_attempts,
            keys,
            headers,
            bodies,
            errors,
        ) = row
        run = map(
            Delivery._make,
            zip(
                repeat(token),
                repeat(segment),
                repeat(lane),
                count(first),
                repeat(partition),
                repeat(priority),
                # Those that did not fail before have no attempt of their own.
                [own or attempt for own in attempts] if attempts else repeat(attempt),
                created,
                repeat(until),
                leases or _NOTHING,
                max_attempts or _NOTHING,
                keys or _NOTHING,
                headers or _NOTHING,
                bodies,
                errors or _NOTHING,
                strict=False,
            ),
        )
        if positions is None:
            dealt[waiter].extend(run)
        else:
            merged.setdefault(waiter, []).extend(zip(positions, run, strict=True))
    for waiter, placed in merged.items():
        placed.sort(key=itemgetter(0))
        dealt[waiter].extend(delivery for _, delivery in placed)
    return dealt


_NOTHING = repeat(None)
