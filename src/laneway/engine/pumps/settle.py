"""Batches acks, nacks, releases and extensions, each kind by itself."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from laneway.domain.messages import Outcome
from laneway.engine.columns import LostSpan, Spans, make_spans, squeeze
from laneway.engine.procedures.delivery import (
    ack_many,
    ack_whole,
    extend_many,
    nack_many,
    release_many,
)
from laneway.engine.pumps.conflicts import retry_conflicts
from laneway.engine.pumps.pump import Pump

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from laneway.domain.messages import Nack, Receipt, Token
    from laneway.domain.settings import PumpSettings
    from laneway.engine.lane_queues import Lanes
    from laneway.engine.measurements import Traffic
    from laneway.engine.pool import Pool
    from laneway.engine.procedures.call import Connection
    from laneway.engine.tasks import Tasks


T = TypeVar("T")


class _Release(NamedTuple):
    receipts: Sequence[Receipt]
    delay: timedelta | None


class _Extension(NamedTuple):
    receipts: Sequence[Receipt]
    lease: timedelta


class SettlePump:
    """Settles messages and wakes the consumers that wait for the freed lanes."""

    def __init__(
        self,
        *,
        pool: Pool,
        tasks: Tasks,
        settings: PumpSettings,
        lanes: Lanes,
        traffic: Traffic,
    ) -> None:
        self._lanes = lanes
        self._traffic = traffic
        # Concurrent calls that settle parts of one claim would wait for each other.
        self._acks: Pump[Spans, list[LostSpan]] = Pump(
            "ack", self._ack, pool=pool, tasks=tasks, settings=settings, calls_per_key=1
        )
        self._bundles: Pump[Spans, None] = Pump(
            "ack", self._ack_whole, pool=pool, tasks=tasks, settings=settings, calls_per_key=1
        )
        self._nacks: Pump[Sequence[Nack], list[Outcome]] = Pump(
            "nack", self._nack, pool=pool, tasks=tasks, settings=settings
        )
        self._releases: Pump[_Release, list[int]] = Pump(
            "release", self._release, pool=pool, tasks=tasks, settings=settings, mixed=False
        )
        self._extensions: Pump[_Extension, list[datetime | None]] = Pump(
            "extension", self._extend, pool=pool, tasks=tasks, settings=settings
        )
        self._pumps: tuple[Pump[Any, Any], ...] = (
            self._acks,
            self._bundles,
            self._nacks,
            self._releases,
            self._extensions,
        )

    @property
    def calls(self) -> int:
        """Number of calls so far."""
        return sum(pump.calls for pump in self._pumps)

    @property
    def waiting(self) -> int:
        """Number of messages that are not settled yet."""
        return sum(pump.waiting[0] for pump in self._pumps)

    async def ack(self, receipts: Sequence[Receipt]) -> list[int]:
        """Return the positions of messages whose lease was lost; the others are acked."""
        spans = make_spans(receipts)
        return [
            position
            for span, first, last in await self.ack_spans(spans)
            for position, (token, lane, seq) in enumerate(receipts)
            if first <= seq <= last and lane == spans.lanes[span] and token == spans.tokens[span]
        ]

    async def ack_spans(self, spans: Spans) -> list[LostSpan]:
        """Return the parts that were not acked; the rest is acked."""
        return await self._acks.submit(spans, count=spans.messages, key=spans.tokens[0])

    async def ack_whole(self, spans: Spans) -> None:
        """Ack all of these messages, or raise LeaseLost and ack none if a lease is lost."""
        await self._bundles.submit(spans, count=spans.messages, key=spans.tokens[0])

    async def nack(self, nacks: Sequence[Nack]) -> list[Outcome]:
        return await self._nacks.submit(nacks, count=len(nacks))

    async def release(
        self, receipts: Sequence[Receipt], *, delay: timedelta | None = None
    ) -> list[int]:
        """Return the positions of messages whose lease was lost; the others are released."""
        return await self._releases.submit(
            _Release(receipts, delay), count=len(receipts), key=delay
        )

    async def extend(
        self, receipts: Sequence[Receipt], *, lease: timedelta
    ) -> list[datetime | None]:
        """Return the new expiry times, None where the lease was lost."""
        return await self._extensions.submit(_Extension(receipts, lease), count=len(receipts))

    async def drain(self) -> None:
        for pump in self._pumps:
            await pump.drain()

    def abandon(self) -> None:
        for pump in self._pumps:
            pump.abandon()

    async def _ack(self, connection: Connection, loads: Sequence[Spans]) -> list[list[LostSpan]]:
        """Ack all loads. If two name the same message, the first one acks it."""
        first, again = _separate(loads)
        if not again:
            return await self._ack_distinct(connection, loads)
        lost = dict(
            zip(first, await self._ack_distinct(connection, [loads[n] for n in first]), strict=True)
        )
        # Retry only these after a conflict: the first are acked already.
        late = await retry_conflicts(lambda: self._ack(connection, [loads[n] for n in again]))
        lost.update(zip(again, late, strict=True))
        return [lost[n] for n in range(len(loads))]

    async def _ack_distinct(
        self, connection: Connection, loads: Sequence[Spans]
    ) -> list[list[LostSpan]]:
        """Ack loads of which no two name the same message."""
        spans, starts = _join(loads)
        rows = await ack_many(connection, **spans._asdict())
        self._lanes.settle(spans, lost={row[0] for row in rows})
        refused = sum(last - first + 1 for _, first, last in rows)
        self._traffic.count_acks(spans.messages, refused=refused)
        lost: list[list[LostSpan]] = [[] for _ in loads]
        for span, first, last in rows:
            number = bisect_right(starts, span) - 1
            lost[number].append(LostSpan(span - starts[number], first, last))
        return lost

    async def _ack_whole(self, connection: Connection, loads: Sequence[Spans]) -> list[None]:
        """Ack all loads; if that fails, the pump calls again for each by itself."""
        spans, _ = _join(loads)
        await ack_whole(connection, **spans._asdict())
        self._lanes.settle(spans, lost=())
        self._traffic.count_acks(spans.messages)
        return [None] * len(loads)

    async def _nack(
        self, connection: Connection, loads: Sequence[Sequence[Nack]]
    ) -> list[list[Outcome]]:
        tokens, lanes, seqs, reasons, delays, dead = _transpose(
            [nack for load in loads for nack in load]
        )
        rows = await nack_many(
            connection,
            tokens=tokens,
            lanes=lanes,
            seqs=seqs,
            reasons=_or_null(reasons),
            delays=_or_null(delays),
            dead=_or_null(dead),
        )
        self._lanes.free(lanes, requeued=True)
        outcomes = [Outcome.LOST] * len(tokens)
        for position, outcome in rows:
            outcomes[position] = Outcome(outcome)
        self._traffic.count_nacks(outcomes)
        return _split(outcomes, [len(load) for load in loads])

    async def _release(self, connection: Connection, loads: Sequence[_Release]) -> list[list[int]]:
        tokens, lanes, seqs = _transpose([receipt for load in loads for receipt in load.receipts])
        rows = await release_many(
            connection, tokens=tokens, lanes=lanes, seqs=seqs, delay=loads[0].delay
        )
        self._lanes.free(lanes, requeued=True)
        missed = {row[0] for row in rows}
        lost = _split([n in missed for n in range(len(tokens))], [len(load[0]) for load in loads])
        return [[n for n, gone in enumerate(load) if gone] for load in lost]

    async def _extend(
        self, connection: Connection, loads: Sequence[_Extension]
    ) -> list[list[datetime | None]]:
        tokens, lanes, seqs = _transpose([receipt for load in loads for receipt in load.receipts])
        leases = [load.lease for load in loads for _ in load.receipts]
        rows = await extend_many(connection, tokens=tokens, lanes=lanes, seqs=seqs, leases=leases)
        untils: list[datetime | None] = [None] * len(tokens)
        for position, until in rows:
            untils[position] = until
        return _split(untils, [len(load.receipts) for load in loads])


def _join(loads: Sequence[Spans]) -> tuple[Spans, list[int]]:
    """Return the spans of all loads, and the position at which those of each begin."""
    spans = Spans([], [], [], [])
    starts = []
    for load in loads:
        starts.append(len(spans.tokens))
        spans.join(load)
    return spans, starts


def _separate(loads: Sequence[Spans]) -> tuple[list[int], list[int]]:
    """Return the positions of loads that name no message of a load before them, and of the others."""
    places = {(load.tokens[0], load.lanes[0], load.first[0]) for load in loads}
    if len(loads) == 1 or len(places) == sum(load.messages for load in loads):
        # The usual case: one load, or one message each.
        return list(range(len(loads))), []
    named: dict[tuple[Token, int], set[int]] = {}
    first: list[int] = []
    again: list[int] = []
    for position, load in enumerate(loads):
        leases = zip(load.tokens, load.lanes, strict=True)
        known = [named.setdefault(lease, set()) for lease in leases]
        spans = [range(a, b + 1) for a, b in zip(load.first, load.last, strict=True)]
        if all(seqs.isdisjoint(span) for seqs, span in zip(known, spans, strict=True)):
            first.append(position)
            for seqs, span in zip(known, spans, strict=True):
                seqs.update(span)
        else:
            again.append(position)
    return first, again


def _transpose(items: Sequence[tuple[Any, ...]]) -> Any:
    return zip(*items, strict=True)


def _or_null(column: Sequence[T]) -> Sequence[T] | None:
    return None if squeeze(column) is None else column


def _split(values: list[T], sizes: Sequence[int]) -> list[list[T]]:
    """Split the values of all loads into those of each."""
    parts = []
    start = 0
    for size in sizes:
        parts.append(values[start : start + size])
        start += size
    return parts
