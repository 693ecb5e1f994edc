"""The time from a push to the arrival of its message in a long poll, at a steady rate."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import TYPE_CHECKING

from benchmarks.http.connection import open_connection
from benchmarks.http.meter import OTHERS, Meter
from benchmarks.http.waiting import Delivery, LostMessages
from benchmarks.results import MILLISECONDS, Bound, Cpu, Figure, Latency, Row
from benchmarks.streams.consumer import Consumer
from benchmarks.streams.queues import BenchStream

if TYPE_CHECKING:
    from datetime import timedelta

    from benchmarks.http.connection import HttpConnection
    from benchmarks.http.stage import Stage
    from benchmarks.streams.scale import Scale

_PARTITIONS = 16
_PRODUCERS = 16
_POLLERS = 8
# The number of partitions of a pop in long-poll-wide.
_WIDE = 4
_P99 = 50.0  # milliseconds


@dataclass(frozen=True, slots=True)
class Route:
    """A queue that single messages are pushed to by the clock, and that consumers poll."""

    stage: Stage
    queue: str
    rate: int
    partitions: int
    delays: list[float] = field(default_factory=list)  # milliseconds

    async def run(self, length: timedelta) -> Delivery:
        """Return the latency of deliveries, from just before each push is sent."""
        self.delays.clear()
        count = int(length.total_seconds() * self.rate)
        meter = Meter.begin(self.stage)
        async with AsyncExitStack() as stack:
            connections = [
                await stack.enter_async_context(open_connection(self.stage.server))
                for _ in range(_PRODUCERS + _POLLERS)
            ]
            consumers = [
                Consumer(each, self.queue, "g1", self.delays, self.partitions)
                for each in connections[_PRODUCERS:]
            ]
            waits = [asyncio.ensure_future(consumer.run()) for consumer in consumers]
            try:
                await asyncio.sleep(0.5)
                start = time.monotonic()
                async with asyncio.TaskGroup() as group:
                    for first, producer in enumerate(connections[:_PRODUCERS]):
                        group.create_task(
                            self._push(producer, start, range(first, count, _PRODUCERS))
                        )
                await self._wait_for(count)
            finally:
                for wait in waits:
                    wait.cancel()
                await asyncio.gather(*waits, return_exceptions=True)
        spent = meter.end()
        cuts = quantiles(self.delays, n=100)
        return Delivery(Latency(cuts[49], cuts[98]), spent.share(count), spent.busy_cores)

    async def _push(self, producer: HttpConnection, start: float, numbers: range) -> None:
        for number in numbers:
            await asyncio.sleep(max(0.0, start + number / self.rate - time.monotonic()))
            body = (
                f'{{"items":[{{"queue":"{self.queue}","partition":"p{number % _PARTITIONS}",'
                f'"payload":{{"sent":{time.monotonic_ns()}}}}}]}}'
            )
            answer = await producer.post("/api/v1/push", body)
            if answer.status != 201:
                raise LostMessages(answer.body.decode())

    async def _wait_for(self, count: int) -> None:
        for _ in range(100):
            if len(self.delays) >= count:
                break
            await asyncio.sleep(0.05)
        if len(self.delays) != count:
            raise LostMessages(f"{count} messages were pushed and {len(self.delays)} delivered")


async def measure_long_polls(stage: Stage, scale: Scale) -> list[Row]:
    return [
        await _measure(
            stage, scale, "long-poll", partitions=1, target=Bound("at most", _P99, "ours")
        ),
        await _measure(stage, scale, "long-poll-wide", partitions=_WIDE),
    ]


async def _measure(
    stage: Stage, scale: Scale, name: str, *, partitions: int, target: Bound | None = None
) -> Row:
    stream = await BenchStream.create(stage, name, partitions=_PARTITIONS)
    route = Route(stage, stream.name, scale.rate, partitions)
    await route.run(scale.warm_up)
    turns = []
    for number in range(scale.rounds):
        stage.progress.step(f"{name}, round", number + 1, scale.rounds)
        turns.append(await route.run(scale.delivery_turn))
    latency = Latency(
        median(turn.latency.p50 for turn in turns), median(turn.latency.p99 for turn in turns)
    )
    return Row(
        name=name,
        ours=Figure(latency.p99, MILLISECONDS, f"p99 at {scale.rate} a second"),
        rounds=len(turns),
        target=target,
        latency=latency,
        cpu=Cpu(
            median(turn.cpu.server for turn in turns), median(turn.cpu.postgres for turn in turns)
        ),
        details={OTHERS: median(turn.busy_cores for turn in turns)},
    )
