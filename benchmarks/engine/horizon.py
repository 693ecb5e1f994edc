"""A steady load while an old open transaction prevents vacuum from removing dead rows."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from benchmarks.cpu import BackendClock, ServerClock
from benchmarks.engine.bodies import make_bodies
from benchmarks.engine.plain import PlainTable
from benchmarks.engine.queues import Queue
from benchmarks.results import MICROSECONDS, Bound, Figure, Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from benchmarks.engine.site import Connection, Database, Site

RATE = 2_000  # messages a second
_TICK = timedelta(milliseconds=10)
_WAITERS = 20  # consumers that wait for one message each
_REFERENCE_TICKS = 10  # how often the reference runs
_WARM_UP = timedelta(seconds=3)
_WINDOW = timedelta(seconds=30)
_MOST_BEHIND = RATE  # a second's worth


class Load(Protocol):
    """A queue under load. `pids` are the backends that serve it, by what they do."""

    @property
    def pids(self) -> Mapping[str, int]: ...

    async def push(self, count: int) -> None: ...

    async def consume(self, waiters: int) -> int:
        """Claim one message for each waiter, ack them, and return their number."""

    async def maintain(self) -> None:
        """Run the maintenance that is due every second."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Totals since the start of the load."""

    second: float
    pushed: int
    consumed: int
    backends: Mapping[str, int]  # nanoseconds
    server: int  # nanoseconds
    reference: int  # nanoseconds
    references: int


@dataclass(frozen=True, slots=True)
class Window:
    """The cost of the load in a window of time, in microseconds per message consumed."""

    backends: Mapping[str, float]
    server: float
    reference: float  # per call
    rate: float

    @property
    def cost(self) -> float:
        return sum(self.backends.values())

    def tabulate(self, end: Sample) -> dict[str, float]:
        figures = {
            "second": end.second,
            **{f"{name}_us": cost for name, cost in self.backends.items()},
            "server_us": self.server,
            "reference_us": self.reference,
            "rate": self.rate,
            "backlog": end.pushed - end.consumed,
        }
        return {name: round(figure, 1) for name, figure in figures.items()}


@dataclass(frozen=True, slots=True)
class Pinned:
    first: Window
    last: Window
    window: int  # seconds
    samples: Sequence[Sample]

    @property
    def ratio(self) -> float:
        return self.last.cost / self.first.cost

    @property
    def drift(self) -> float:
        """The reference's cost in the last window, relative to the first."""
        return self.last.reference / self.first.reference

    @property
    def backlog(self) -> int:
        """The maximum backlog, in messages."""
        return max(sample.pushed - sample.consumed for sample in self.samples)

    @property
    def most_expensive(self) -> float:
        """The cost in the most expensive second. Early in the run, it would lower the ratio."""
        return max(_measure_window(a, b).cost for a, b in pairwise(self.samples))

    @property
    def keeps_up(self) -> bool:
        return self.backlog <= _MOST_BEHIND

    def tabulate(self) -> list[dict[str, float]]:
        """Return about twenty entries over the whole time."""
        chosen = self.samples[:: max(1, len(self.samples) // 20)]
        return [_measure_window(a, b).tabulate(b) for a, b in pairwise(chosen)]


async def measure_pinned(site: Site) -> list[Row]:
    pin_time = site.scale.pin_time
    async with site.open_database() as database:
        load = await QueueLoad.create(database)
        found = await run_pinned(site, database, load, pin_time)
    return [
        Row(
            name="pinned-horizon",
            ours=Figure(found.last.cost, MICROSECONDS, f"in the last {found.window} s"),
            beside=Figure(found.first.cost, MICROSECONDS, f"in the first {found.window} s"),
            ratio=found.ratio,
            rounds=1,
            target=Bound("at most", 1.3),
            failure=None if found.keeps_up else f"up to {found.backlog:,} messages were ready",
            details=describe(found, pin_time),
            series=found.tabulate(),
        )
    ]


def describe(found: Pinned, pin_time: timedelta) -> dict[str, float | str]:
    return {
        "pinned, s": pin_time.total_seconds(),
        "messages/s": found.last.rate,
        "greatest backlog": float(found.backlog),
        "most expensive second, µs": found.most_expensive,
        "reference, last to first": found.drift,
        "ratio divided by it": found.ratio / found.drift,
        "whole server, µs first": found.first.server,
        "last": found.last.server,
    }


async def run_pinned(site: Site, database: Database, load: Load, pin_time: timedelta) -> Pinned:
    """Push RATE messages a second during `pin_time`, with the horizon pinned throughout.

    After the first window, the database is analyzed at a moment when nothing is in flight.
    Autovacuum does that sooner or later, and the measurement includes plans based on such statistics.
    """
    reference = await PlainTable.create(await database.connect())
    driver = _Driver(load, reference, ServerClock(site.postmaster), await database.connect())
    pin = await database.connect()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(part)
            for part in (driver.produce(), driver.consume(), driver.maintain())
        ]
        await asyncio.sleep(_WARM_UP.total_seconds())
        await pin_horizon(pin)
        samples = [driver.sample()]
        total = int(pin_time.total_seconds())
        window = min(int(_WINDOW.total_seconds()), max(1, total // 3))
        start = samples[0].second
        for second in range(1, total + 1):
            site.progress.step("second", second, total)
            await asyncio.sleep(max(0.0, start + second - driver.elapsed()))
            samples.append(driver.sample())
            if second == window:
                driver.analyse_when_drained()
        for task in tasks:
            task.cancel()
    return Pinned(
        first=_measure_window(samples[0], samples[window]),
        last=_measure_window(samples[-1 - window], samples[-1]),
        window=window,
        samples=samples,
    )


async def pin_horizon(connection: Connection) -> None:
    """Leave a transaction open that has both an id and a snapshot."""
    await connection.execute("begin isolation level repeatable read")
    await connection.fetchval("select txid_current()")
    await connection.fetchval("select 1 from pg_catalog.pg_class limit 1")


class QueueLoad:
    """A queue of the broker, used as its pumps and its maintenance use it."""

    def __init__(self, queue: Queue, consumer: Connection, maintainer: Connection) -> None:
        self._queue = queue
        self._consumer = queue.over(consumer)
        self._maintainer = maintainer
        self._since: datetime | None = None

    @classmethod
    async def create(cls, database: Database) -> QueueLoad:
        queue = await Queue.create(await database.connect(), "pinned")
        return cls(queue, await database.connect(), await database.connect())

    @property
    def pids(self) -> Mapping[str, int]:
        return {
            "push": self._queue.connection.get_server_pid(),
            "consume": self._consumer.connection.get_server_pid(),
            "maintain": self._maintainer.get_server_pid(),
        }

    async def push(self, count: int) -> None:
        await self._queue.push(make_bodies(count))

    async def consume(self, waiters: int) -> int:
        return await self._consumer.claim_and_ack([1] * waiters)

    async def maintain(self) -> None:
        now = await self._maintainer.fetchval("select clock_timestamp()")
        await self._maintainer.fetch("select * from laneway.expire_claims(1000, $1)", self._since)
        await self._maintainer.fetchval("select laneway.sweep_idle(1000)")
        self._since = now


class _Driver:
    """Pushes by the clock, however far consumption is behind, and consumes as fast as it can."""

    def __init__(
        self, load: Load, reference: PlainTable, server: ServerClock, analyst: Connection
    ) -> None:
        self._load = load
        self._analyst = analyst
        self._analyse = False
        self._table = reference
        self._backends = {name: BackendClock([pid]) for name, pid in load.pids.items()}
        self._reference = BackendClock([reference.connection.get_server_pid()])
        self._server = server
        self._begun = time.monotonic()
        self._pushed = 0
        self._consumed = 0
        self._references = 0
        self._new_messages = asyncio.Event()

    def elapsed(self) -> float:
        return time.monotonic() - self._begun

    def sample(self) -> Sample:
        return Sample(
            second=self.elapsed(),
            pushed=self._pushed,
            consumed=self._consumed,
            backends={name: clock.read() for name, clock in self._backends.items()},
            server=self._server.read(),
            reference=self._reference.read(),
            references=self._references,
        )

    def analyse_when_drained(self) -> None:
        self._analyse = True

    async def produce(self) -> None:
        tick = _TICK.total_seconds()
        for number in range(1, 1_000_000_000):
            await asyncio.sleep(max(0.0, number * tick - self.elapsed()))
            due = min(int(self.elapsed() * RATE) - self._pushed, RATE)
            if due > 0:
                await self._load.push(due)
                self._pushed += due
                self._new_messages.set()
            if number % _REFERENCE_TICKS == 0:
                await self._table.insert_many(make_bodies(_WAITERS))
                self._references += 1

    async def consume(self) -> None:
        while True:
            self._new_messages.clear()
            consumed = await self._load.consume(_WAITERS)
            self._consumed += consumed
            if self._analyse and consumed < _WAITERS:
                self._analyse = False
                await self._analyst.execute("analyze")
            elif consumed < _WAITERS:
                await self._new_messages.wait()

    async def maintain(self) -> None:
        while True:
            await self._load.maintain()
            await asyncio.sleep(1)


def _measure_window(a: Sample, b: Sample) -> Window:
    consumed = max(b.consumed - a.consumed, 1)
    return Window(
        backends={
            name: (b.backends[name] - a.backends[name]) / consumed / 1000 for name in b.backends
        },
        server=(b.server - a.server) / consumed / 1000,
        reference=(b.reference - a.reference) / max(b.references - a.references, 1) / 1000,
        rate=(b.consumed - a.consumed) / (b.second - a.second),
    )
