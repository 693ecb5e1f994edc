"""Runs one turn of a load: pushes of batches, or pops with acknowledgements."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from benchmarks.http.meter import Meter
from benchmarks.http.turns import QueueEmpty, Turn, WrongCount
from benchmarks.http.wrk import run_wrk
from benchmarks.results import Latency

if TYPE_CHECKING:
    from datetime import timedelta

    from benchmarks.http.stage import Stage
    from benchmarks.streams.queues import BenchStream
    from benchmarks.streams.scale import Scale

BATCH = 100
_MARGIN = 1.5
CONNECTIONS = 8


@dataclass(frozen=True, slots=True)
class PushTurns:
    stage: Stage
    stream: BenchStream
    size: int

    async def run(self, time: timedelta) -> Turn:
        await self.stage.settle()
        before = await self.stream.count_pushed()
        connections = 64 if self.size == 1 else CONNECTIONS
        stream = self.stream
        argument = f"{stream.name},{self.size},{stream.partitions},{uuid4().hex[:8]}"
        meter = Meter.begin(self.stage)
        load = await run_wrk(
            self.stage.server.url,
            "../streams/push.lua",
            argument,
            connections=connections,
            time=time,
        )
        await asyncio.sleep(
            0.2
        )  # requests in progress when wrk stopped are counted, so their time is too
        spent = meter.end()
        messages = await self.stream.count_pushed() - before
        answered = load.requests * self.size
        if load.empty or not 0 < answered <= messages <= answered + connections * self.size:
            raise WrongCount(
                f"the responses confirm {answered} messages, the database has {messages}"
            )
        latency = Latency(load.p50 / 1000, load.p99 / 1000)
        return Turn(messages / load.seconds, spent, messages, latency)


@dataclass(frozen=True, slots=True)
class PopTurns:
    stage: Stage
    scale: Scale
    stream: BenchStream
    connections: int = CONNECTIONS
    rates: list[float] = field(default_factory=list)

    async def run(self, time: timedelta) -> Turn:
        groups = self.stream.groups
        expected = self.rates[-1] if self.rates else self.scale.guess
        await self.stream.fill(int(expected / groups * time.total_seconds() * _MARGIN))
        await self.stream.wait_until_free()
        await self.stage.settle()
        before = await self.stream.count_left()
        connections = self.connections
        meter = Meter.begin(self.stage)
        load = await run_wrk(
            self.stage.server.url,
            "../streams/pop.lua",
            f"{self.stream.name},{groups}",
            connections=connections,
            time=time,
        )
        await asyncio.sleep(0.2)
        spent = meter.end()
        messages = before - await self.stream.count_left()
        if load.empty:
            raise QueueEmpty(f"{load.empty} pops found nothing, or acknowledgements were refused")
        if not 0 < load.settled <= messages <= load.settled + connections * BATCH:
            raise WrongCount(
                f"the responses confirm {load.settled} messages, the database has {messages}"
            )
        self.rates.append(messages / load.seconds)
        return Turn(self.rates[-1], spent, messages, Latency(load.p50 / 1000, load.p99 / 1000))
