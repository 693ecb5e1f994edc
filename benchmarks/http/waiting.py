"""Long polls: the time from a push to the arrival of its message."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import TYPE_CHECKING

from benchmarks.http.connection import open_connection
from benchmarks.http.meter import OTHERS, Meter
from benchmarks.http.server import run_server
from benchmarks.results import MILLISECONDS, Bound, Cpu, Figure, Latency, Row

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


class LostMessages(Exception):
    """Not every pushed message was delivered exactly once."""


@dataclass(frozen=True, slots=True)
class Delivery:
    latency: Latency
    cpu: Cpu
    busy_cores: float  # by other programs


@dataclass(frozen=True, slots=True)
class Route:
    """A queue, the server that messages are pushed to, and the one that consumers poll."""

    stage: Stage
    queue: str
    source: RunningServer
    target: RunningServer
    delays: list[float] = field(default_factory=list)  # milliseconds

    async def run(self, length: timedelta) -> Delivery:
        """Push by the clock and return the latency of deliveries, from just before each push is sent."""
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
    """Measure deliveries within one server process and between two, in turns."""
    near, far = await stage.make_queue("near"), await stage.make_queue("far")
    async with run_server(stage.dsn) as other:
        routes = {
            "long-poll": Route(stage, near.name, stage.server, stage.server),
            "long-poll-across": Route(stage, far.name, stage.server, other),
        }
        for route in routes.values():
            await route.run(stage.scale.warm_up)
        found: dict[str, list[Delivery]] = {name: [] for name in routes}
        for number in range(stage.scale.rounds):
            for name, route in routes.items():
                stage.progress.step(f"{name}, round", number + 1, stage.scale.rounds)
                found[name].append(await route.run(stage.scale.delivery_turn))
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
