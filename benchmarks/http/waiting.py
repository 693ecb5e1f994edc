"""Long polls: how soon a message reaches one that waits, and what waiting costs."""

from __future__ import annotations

import asyncio
import json
import re
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import TYPE_CHECKING

from benchmarks.http.connection import open_connection
from benchmarks.http.meter import OTHERS, Meter
from benchmarks.http.server import run_server
from benchmarks.results import MILLISECONDS, PER_CENT, Bound, Cpu, Figure, Latency, Row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from benchmarks.http.connection import HttpConnection
    from benchmarks.http.server import RunningServer
    from benchmarks.http.stage import Stage

RATE = 100  # messages a second
_PRODUCERS = 8
_POLLERS = 16
_P50, _P99 = 5.0, 25.0  # milliseconds
_IDLE_SHARE = 3.0  # per cent of a core
# The look once a second that is the net under all wake-ups, and what happens to be counted late.
_SPARE_TRANSACTIONS = 5


class LostMessages(Exception):
    """Not everything that was pushed was delivered once."""


@dataclass(frozen=True, slots=True)
class Delivery:
    latency: Latency
    cpu: Cpu
    busy_cores: float  # by others


@dataclass(frozen=True, slots=True)
class Course:
    """From where messages are pushed to where they are waited for."""

    stage: Stage
    queue: str
    source: RunningServer
    target: RunningServer
    delays: list[float] = field(default_factory=list)  # milliseconds

    async def run(self, length: timedelta) -> Delivery:
        """Push by the clock and return what deliveries took, from before the push was sent."""
        self.delays.clear()
        count = int(length.total_seconds() * RATE)
        meter = Meter.begin(self.stage, {self.source, self.target})
        async with AsyncExitStack() as stack:
            producers = [
                await stack.enter_async_context(open_connection(self.source))
                for _ in range(_PRODUCERS)
            ]
            pollers = [
                await stack.enter_async_context(open_connection(self.target))
                for _ in range(_POLLERS)
            ]
            waits = [asyncio.ensure_future(self._poll(poller)) for poller in pollers]
            try:
                await asyncio.sleep(0.5)
                await self._push(producers, count)
                await self._wait_for(count)
            finally:
                for wait in waits:
                    wait.cancel()
                await asyncio.gather(*waits, return_exceptions=True)
        spent = meter.end()
        cuts = quantiles(self.delays, n=100)
        return Delivery(Latency(cuts[49], cuts[98]), spent.share(count), spent.busy_cores)

    async def _push(self, producers: Sequence[HttpConnection], count: int) -> None:
        start = time.monotonic()

        async def produce(first: int, producer: HttpConnection) -> None:
            for number in range(first, count, len(producers)):
                await asyncio.sleep(max(0.0, start + number / RATE - time.monotonic()))
                payload = {"sent": time.monotonic_ns()}
                body = {"queue": self.queue, "type": "order", "payload": payload}
                answer = await producer.post("/api/queue/message", json.dumps(body))
                if answer.status != 201:
                    raise LostMessages(answer.body.decode())

        async with asyncio.TaskGroup() as group:
            for first, producer in enumerate(producers):
                group.create_task(produce(first, producer))

    async def _poll(self, poller: HttpConnection) -> None:
        while True:
            answer = await poller.get(f"/api/queue/message?timeout=60&queue={self.queue}")
            arrived = time.monotonic_ns()
            if answer.status != 200:
                continue
            message = json.loads(answer.body)
            self.delays.append((arrived - message["payload"]["sent"]) / 1_000_000)
            ack = {"id": message["id"], "lock_token": message["lock_token"]}
            await poller.post("/api/queue/ack", json.dumps(ack))

    async def _wait_for(self, count: int) -> None:
        for _ in range(100):
            if len(self.delays) >= count:
                break
            await asyncio.sleep(0.05)
        if len(self.delays) != count:
            raise LostMessages(f"{count} messages were pushed and {len(self.delays)} delivered")


async def measure_long_polls(stage: Stage) -> list[Row]:
    """Measure within one process, and from one process to another, in turns."""
    near, far = await stage.make_queue("near"), await stage.make_queue("far")
    async with run_server(stage.dsn) as other:
        courses = {
            "long-poll": Course(stage, near.name, stage.server, stage.server),
            "long-poll-across": Course(stage, far.name, stage.server, other),
        }
        for course in courses.values():
            await course.run(stage.scale.warm_up)
        found: dict[str, list[Delivery]] = {name: [] for name in courses}
        for number in range(stage.scale.rounds):
            for name, course in courses.items():
                stage.progress.step(f"{name}, round", number + 1, stage.scale.rounds)
                found[name].append(await course.run(stage.scale.delivery_turn))
    return [_make_row(name, turns) for name, turns in found.items()]


def _make_row(name: str, turns: Sequence[Delivery]) -> Row:
    p50 = median(turn.latency.p50 for turn in turns)
    p99 = median(turn.latency.p99 for turn in turns)
    return Row(
        name=name,
        ours=Figure(p50, MILLISECONDS, "p50"),
        rounds=len(turns),
        target=Bound("at most", _P50, "ours"),
        failure=None if p99 <= _P99 else f"p99 of {p99:.1f} ms is above {_P99:g} ms",
        latency=Latency(p50, p99),
        cpu=Cpu(
            median(turn.cpu.server for turn in turns), median(turn.cpu.postgres for turn in turns)
        ),
        details={OTHERS: median(turn.busy_cores for turn in turns)},
    )


async def measure_idle_polls(stage: Stage) -> list[Row]:
    """Compare a server on which many wait with the same server alone."""
    queue = await stage.make_queue("idle")
    count, length = stage.scale.idle_polls, stage.scale.idle_time
    alone = await _watch(stage, length)
    async with AsyncExitStack() as stack:
        for number in range(count):
            stage.progress.step("poll", number, count)
            poll = await stack.enter_async_context(open_connection(stage.server))
            poll.ask(f"/api/queue/message?timeout=600&queue={queue.name}")
        await _wait_for_waiters(stage.server, count)
        found = await _watch(stage, length)
    extra = found.transactions - alone.transactions
    allowed = length.total_seconds() + _SPARE_TRANSACTIONS
    return [
        Row(
            name="idle-polls",
            ours=Figure(found.server, PER_CENT, f"of a core, {count:,} polls"),
            beside=Figure(alone.server, PER_CENT, "of a core, nobody waits"),
            rounds=1,
            target=Bound("at most", _IDLE_SHARE, "ours"),
            failure=None
            if extra <= allowed
            else f"{extra} transactions more than without polls in {length.total_seconds():g} s",
            details={
                "transactions a second": found.transactions / length.total_seconds(),
                "without polls": alone.transactions / length.total_seconds(),
                "PostgreSQL, % of a core": found.postgres,
                "without polls, %": alone.postgres,
                OTHERS: found.busy_cores,
            },
        )
    ]


@dataclass(frozen=True, slots=True)
class Quiet:
    """Shares of a core in per cent, and transactions, ours that counts them left out."""

    server: float
    postgres: float
    transactions: int
    busy_cores: float  # by others


async def _watch(stage: Stage, length: timedelta) -> Quiet:
    await asyncio.sleep(stage.scale.idle_settling.total_seconds())
    transactions = await _count_transactions(stage)
    meter = Meter.begin(stage)
    await asyncio.sleep(length.total_seconds())
    spent = meter.end()
    return Quiet(
        spent.server / spent.elapsed * 100,
        spent.postgres / spent.elapsed * 100,
        await _count_transactions(stage) - transactions - 1,
        spent.busy_cores,
    )


async def _count_transactions(stage: Stage) -> int:
    found = await stage.connection.fetchval(
        "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
    )
    return int(found)


async def _wait_for_waiters(server: RunningServer, count: int) -> None:
    async with open_connection(server) as client:
        for _ in range(100):
            text = (await client.get("/metrics")).body.decode()
            waiting = re.search(
                r"^laneway_claim_pump_waiters(?:\{.*\})? ([\d.]+)", text, re.MULTILINE
            )
            if waiting is not None and float(waiting[1]) >= count:
                return
            await asyncio.sleep(0.2)
    raise LostMessages(f"of {count} polls not all came to wait")
