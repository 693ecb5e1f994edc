"""The cost of claiming ten messages with a large backlog, many exceptions, or many partitions."""

from __future__ import annotations

import random
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from benchmarks.cpu import BackendClock
from benchmarks.engine.bodies import make_bodies
from benchmarks.engine.queues import Queue, WrongCount, count_messages
from benchmarks.engine.rounds import interleave, measure
from benchmarks.results import MICROSECONDS, Bound, Figure, Row

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.engine.rounds import Comparison, Cost
    from benchmarks.engine.site import Connection, Site

_CLAIM = 10
# Keeps a batch below the maximum size of one body, which push_many compares with the whole batch first.
_FILL = 4_000
_LEASED_AT_ONCE = 1_000
_LANES_AT_ONCE = 1_000


async def measure_backlog(site: Site) -> list[Row]:
    scale = site.scale

    async def make_short(connection: Connection) -> RefilledQueue:
        return RefilledQueue(await _fill(site, connection, scale.short_backlog))

    async def make_long(connection: Connection) -> RefilledQueue:
        return RefilledQueue(await _fill(site, connection, scale.long_backlog))

    found = await _compare(site, make_short, make_long)
    return [
        _make_row(
            "backlog",
            found,
            ours=f"of {scale.long_backlog:,}",
            beside=f"of {scale.short_backlog:,}",
            target=1.2,
        )
    ]


async def measure_exceptions(site: Site) -> list[Row]:
    scale = site.scale
    details: dict[str, float | str] = {}

    async def make_clean(connection: Connection) -> RefilledQueue:
        return RefilledQueue(await _fill(site, connection, scale.short_backlog))

    async def make_exceptional(connection: Connection) -> RefilledQueue:
        queue = await Queue.create(connection, "exceptional", lease="6 hours")
        start = time.monotonic()
        await _push(site, queue, scale.delayed, delay=timedelta(hours=6))
        details["pushing the delayed, s"] = time.monotonic() - start
        details.update(await _park(site, queue, scale.delayed))
        await _leave_in_flight(site, queue, scale.in_flight)
        await _push(site, queue, scale.short_backlog)
        return RefilledQueue(queue)

    found = await _compare(site, make_clean, make_exceptional)
    return [
        _make_row(
            "exceptions",
            found,
            ours=f"with {scale.delayed:,} delayed, {scale.in_flight:,} in flight",
            beside="clean",
            target=1.5,
            details=details,
        )
    ]


async def measure_partitions(site: Site) -> list[Row]:
    scale = site.scale

    async def make_few(connection: Connection) -> RefilledQueue:
        return await _fill_partitions(site, connection, scale.few_partitions)

    async def make_many(connection: Connection) -> RefilledQueue:
        return await _fill_partitions(site, connection, scale.many_partitions)

    found = await _compare(site, make_few, make_many)
    return [
        _make_row(
            "partitions",
            found,
            ours=f"of {scale.many_partitions:,}",
            beside=f"of {scale.few_partitions:,}",
            target=2.0,
        )
    ]


@dataclass(frozen=True, slots=True)
class RefilledQueue:
    """A queue from which ten messages are claimed at a time. New ones go to its partitions at random."""

    queue: Queue
    partitions: int = 1

    async def slice(self, clock: BackendClock, calls: int) -> Cost:
        cost = await measure(clock, self._claim, calls=calls, messages=_CLAIM)
        await self.refill(calls * _CLAIM)
        return cost

    async def refill(self, count: int) -> None:
        names = [f"p{random.randrange(self.partitions)}" for _ in range(count)]
        partitions = names if self.partitions > 1 else None
        await self.queue.push(make_bodies(count), partitions=partitions)

    async def _claim(self) -> None:
        await self.queue.claim_and_ack_all([_CLAIM])


async def _compare(
    site: Site,
    make_base: Callable[[Connection], Awaitable[RefilledQueue]],
    make_ours: Callable[[Connection], Awaitable[RefilledQueue]],
) -> Comparison:
    """Compare two queues, each in its own database, so that they share no tables or indexes."""
    calls = site.scale.calls
    async with AsyncExitStack() as stack:
        sides = []
        for make in (make_base, make_ours):
            database = await stack.enter_async_context(site.open_database())
            connection = await database.connect()
            refilled = await make(connection)
            # Old data would have been vacuumed and written to disk.
            await connection.execute("vacuum (analyze)")
            sides.append((refilled, BackendClock([connection.get_server_pid()])))
        await sides[0][0].queue.connection.execute("checkpoint")
        (base, base_clock), (ours, ours_clock) = sides
        return await interleave(
            lambda: base.slice(base_clock, calls),
            lambda: ours.slice(ours_clock, calls),
            rounds=site.scale.rounds,
            progress=site.progress,
        )


async def _fill(site: Site, connection: Connection, count: int) -> Queue:
    queue = await Queue.create(connection, "full")
    await _push(site, queue, count)
    return queue


async def _push(site: Site, queue: Queue, count: int, *, delay: timedelta | None = None) -> None:
    for done in range(0, count, _FILL):
        site.progress.step("pushed", done, count)
        await queue.push(make_bodies(min(_FILL, count - done)), delay=delay)


async def _park(site: Site, queue: Queue, count: int) -> dict[str, float | str]:
    """Claim until all delayed messages are parked."""
    slowest, parked, calls, start = 0.0, 0, 0, time.monotonic()
    while parked < count:
        begun = time.monotonic()
        if await queue.claim([_CLAIM]):
            raise WrongCount("a delayed message was delivered")
        slowest = max(slowest, time.monotonic() - begun)
        calls += 1
        before, parked = parked, await _find_position(queue)
        if parked == before:
            raise WrongCount(f"only {parked} of {count} delayed messages were parked")
        site.progress.step("parked", parked, count)
    return {
        "parking them, s": time.monotonic() - start,
        "calls": float(calls),
        "slowest, s": slowest,
    }


async def _find_position(queue: Queue) -> int:
    place: int = await queue.connection.fetchval("select max(seq) from laneway.progress")
    return place


async def _leave_in_flight(site: Site, queue: Queue, count: int) -> None:
    """Leave messages in flight, each in a claim of its own."""
    for done in range(0, count, _LEASED_AT_ONCE):
        site.progress.step("leased", done, count)
        size = min(_LEASED_AT_ONCE, count - done)
        await queue.push(make_bodies(size))
        if count_messages(await queue.claim([1] * size)) != size:
            raise WrongCount(f"not all of {size} waiting consumers got a message")


async def _fill_partitions(site: Site, connection: Connection, partitions: int) -> RefilledQueue:
    """Push one message to each partition, then as many to random partitions, at least 10,000."""
    refilled = RefilledQueue(await Queue.create(connection, "partitions"), partitions)
    for start in range(0, partitions, _LANES_AT_ONCE):
        site.progress.step("created", start, partitions)
        names = [f"p{number}" for number in range(start, min(start + _LANES_AT_ONCE, partitions))]
        await refilled.queue.push(make_bodies(len(names)), partitions=names)
    more = max(partitions, site.scale.short_backlog)
    for done in range(0, more, _LANES_AT_ONCE):
        site.progress.step("pushed", done, more)
        await refilled.refill(min(_LANES_AT_ONCE, more - done))
    return refilled


def _make_row(
    name: str,
    found: Comparison,
    *,
    ours: str,
    beside: str,
    target: float,
    details: dict[str, float | str] | None = None,
) -> Row:
    return Row(
        name=name,
        ours=Figure(found.ours, MICROSECONDS, ours),
        beside=Figure(found.base, MICROSECONDS, beside),
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        rounds=found.rounds,
        target=Bound("at most", target),
        details=details or {},
    )
