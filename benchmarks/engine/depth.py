"""What a claim of ten costs beside a mountain: of backlog, of exceptions, of partitions."""

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

_TAKE = 10
# Below a queue's greatest size of one body, which push_many holds against a whole batch first.
_FILL = 4_000
_HELD_AT_ONCE = 1_000
_LANES_AT_ONCE = 1_000


async def measure_backlog(site: Site) -> list[Row]:
    scale = site.scale

    async def make_short(connection: Connection) -> Popping:
        return Popping(await _fill(site, connection, scale.short_backlog))

    async def make_long(connection: Connection) -> Popping:
        return Popping(await _fill(site, connection, scale.long_backlog))

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

    async def make_clean(connection: Connection) -> Popping:
        return Popping(await _fill(site, connection, scale.short_backlog))

    async def make_laden(connection: Connection) -> Popping:
        queue = await Queue.create(connection, "laden", lease="6 hours")
        start = time.monotonic()
        await _push(site, queue, scale.delayed, delay=timedelta(hours=6))
        details["pushing the delayed, s"] = time.monotonic() - start
        details.update(await _park(site, queue, scale.delayed))
        await _hold(site, queue, scale.in_flight)
        await _push(site, queue, scale.short_backlog)
        return Popping(queue)

    found = await _compare(site, make_clean, make_laden)
    return [
        _make_row(
            "exceptions",
            found,
            ours=f"beside {scale.delayed:,} delayed, {scale.in_flight:,} in flight",
            beside="clean",
            target=1.5,
            details=details,
        )
    ]


async def measure_partitions(site: Site) -> list[Row]:
    scale = site.scale

    async def make_few(connection: Connection) -> Popping:
        return await _spread(site, connection, scale.few_partitions)

    async def make_many(connection: Connection) -> Popping:
        return await _spread(site, connection, scale.many_partitions)

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
class Popping:
    """A queue that tens are taken from, and put back to random partitions of it."""

    queue: Queue
    partitions: int = 1

    async def slice(self, clock: BackendClock, calls: int) -> Cost:
        cost = await measure(clock, self._take, calls=calls, messages=_TAKE)
        await self.put(calls * _TAKE)
        return cost

    async def put(self, count: int) -> None:
        names = [f"p{random.randrange(self.partitions)}" for _ in range(count)]
        partitions = names if self.partitions > 1 else None
        await self.queue.push(make_bodies(count), partitions=partitions)

    async def _take(self) -> None:
        await self.queue.take_all([_TAKE])


async def _compare(
    site: Site,
    make_base: Callable[[Connection], Awaitable[Popping]],
    make_ours: Callable[[Connection], Awaitable[Popping]],
) -> Comparison:
    """Compare two queues in databases of their own, so that neither lies in the other's tables."""
    calls = site.scale.calls
    async with AsyncExitStack() as stack:
        sides = []
        for make in (make_base, make_ours):
            database = await stack.enter_async_context(site.open_database())
            connection = await database.connect()
            popping = await make(connection)
            # What has stood for a while has been vacuumed and written to disk.
            await connection.execute("vacuum (analyze)")
            sides.append((popping, BackendClock([connection.get_server_pid()])))
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
    """Claim until everything delayed has been met and set aside."""
    slowest, parked, calls, start = 0.0, 0, 0, time.monotonic()
    while parked < count:
        begun = time.monotonic()
        if await queue.claim([_TAKE]):
            raise WrongCount("a delayed message was claimed")
        slowest = max(slowest, time.monotonic() - begun)
        calls += 1
        before, parked = parked, await _find_place(queue)
        if parked == before:
            raise WrongCount(f"{parked} of {count} delayed messages were set aside, and no more")
        site.progress.step("parked", parked, count)
    return {
        "parking them, s": time.monotonic() - start,
        "calls": float(calls),
        "slowest, s": slowest,
    }


async def _find_place(queue: Queue) -> int:
    place: int = await queue.connection.fetchval("select max(seq) from laneway.progress")
    return place


async def _hold(site: Site, queue: Queue, count: int) -> None:
    """Leave messages in flight, each in a claim of its own."""
    for done in range(0, count, _HELD_AT_ONCE):
        site.progress.step("held", done, count)
        size = min(_HELD_AT_ONCE, count - done)
        await queue.push(make_bodies(size))
        if count_messages(await queue.claim([1] * size)) != size:
            raise WrongCount(f"{size} waiting consumers were not all served")


async def _spread(site: Site, connection: Connection, partitions: int) -> Popping:
    """Put two messages for each partition, one of them where chance has it, at least 10,000."""
    popping = Popping(await Queue.create(connection, "spread"), partitions)
    for start in range(0, partitions, _LANES_AT_ONCE):
        site.progress.step("made", start, partitions)
        names = [f"p{number}" for number in range(start, min(start + _LANES_AT_ONCE, partitions))]
        await popping.queue.push(make_bodies(len(names)), partitions=names)
    more = max(partitions, site.scale.short_backlog)
    for done in range(0, more, _LANES_AT_ONCE):
        site.progress.step("spread", done, more)
        await popping.put(min(_LANES_AT_ONCE, more - done))
    return popping


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
