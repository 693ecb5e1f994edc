"""Deliveries of a steady flow to ten groups, compared with one group."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TYPE_CHECKING

import msgspec

from benchmarks.engine.rounds import compare
from benchmarks.http.connection import open_connection
from benchmarks.http.meter import OTHERS, Meter
from benchmarks.http.turns import Turn, find_cpu, find_latency
from benchmarks.http.waiting import LostMessages
from benchmarks.results import PER_SECOND, Bound, Figure, Latency, Row
from benchmarks.streams.consumer import Consumer, Payload
from benchmarks.streams.queues import BATCH, BenchStream

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from benchmarks.http.connection import HttpConnection
    from benchmarks.http.stage import Stage
    from benchmarks.streams.scale import Scale

_PARTITIONS = 16
# The least ratio of deliveries, ten groups to one.
_FEWEST = 5.0
# A group that is further behind at the end could not keep up. In seconds of the flow.
_BEHIND = 1.0
_FILL = "x" * 160  # makes bodies of 200 bytes


@dataclass(frozen=True, slots=True)
class Flow:
    """Batches pushed by the clock, each to the next partition, and one consumer per group."""

    stage: Stage
    stream: BenchStream
    rate: int

    async def run(self, length: timedelta) -> tuple[Turn, int]:
        """Return the deliveries during the flow, and how many messages the slowest group was behind at its end."""
        batches = int(length.total_seconds() * self.rate / BATCH)
        async with AsyncExitStack() as stack:
            producer = await stack.enter_async_context(open_connection(self.stage.server))
            consumers = [
                Consumer(
                    await stack.enter_async_context(open_connection(self.stage.server)),
                    self.stream.name,
                    f"g{number}",
                )
                for number in range(1, self.stream.groups + 1)
            ]
            tasks = [asyncio.ensure_future(consumer.run()) for consumer in consumers]
            try:
                await asyncio.sleep(0.5)
                meter = Meter.begin(self.stage)
                start = time.monotonic()
                await self._push(producer, start, batches)
                seconds = time.monotonic() - start
                spent = meter.end()
                counts = [len(consumer.delays) for consumer in consumers]
                await self._wait_for(consumers, tasks, batches * BATCH)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        cuts = quantiles([delay for each in consumers for delay in each.delays], n=100)
        delivered = sum(counts)
        turn = Turn(delivered / seconds, spent, delivered, Latency(cuts[49], cuts[98]))
        return turn, batches * BATCH - min(counts)

    async def _push(self, producer: HttpConnection, start: float, batches: int) -> None:
        for number in range(batches):
            # The first batch is due after one interval, so that the flow includes all batches.
            due = start + (number + 1) * BATCH / self.rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            item = {
                "queue": self.stream.name,
                "partition": f"p{number % _PARTITIONS}",
                "payload": Payload(time.monotonic_ns(), _FILL),
            }
            body = msgspec.json.encode({"items": [item] * BATCH}).decode()
            answer = await producer.post("/api/v1/push", body)
            if answer.status != 201:
                raise LostMessages(answer.body.decode())

    async def _wait_for(
        self, consumers: Sequence[Consumer], tasks: Sequence[asyncio.Task[None]], count: int
    ) -> None:
        for _ in range(600):
            if all(len(consumer.delays) >= count for consumer in consumers):
                break
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.1)  # the last acknowledgements
        found = [len(consumer.delays) for consumer in consumers]
        if found != [count] * len(consumers):
            raise LostMessages(f"{count} messages were pushed; the groups got {found}")


async def measure_fan_out(stage: Stage, scale: Scale) -> list[Row]:
    flows = {
        groups: Flow(
            stage,
            await BenchStream.create(
                stage, f"fan-out-{groups}", partitions=_PARTITIONS, groups=groups
            ),
            scale.flow,
        )
        for groups in (1, scale.groups)
    }
    for flow in flows.values():
        await flow.run(scale.warm_up)
    found: dict[int, list[tuple[Turn, int]]] = {groups: [] for groups in flows}
    for number in range(scale.rounds):
        for groups, flow in flows.items():
            stage.progress.step(f"fan-out to {groups}, round", number + 1, scale.rounds)
            await stage.settle()
            found[groups].append(await flow.run(scale.turn))
    one, ten = ([turn for turn, _ in found[groups]] for groups in flows)
    behind = max(most for turns in found.values() for _, most in turns)
    rates = compare([(a.rate, b.rate) for a, b in zip(one, ten, strict=True)])
    late = behind > _BEHIND * scale.flow
    return [
        Row(
            name="fan-out",
            ours=Figure(rates.ours, PER_SECOND, ""),
            beside=Figure(rates.base, PER_SECOND, "one group"),
            ratio=rates.ratio,
            low=rates.low,
            high=rates.high,
            rounds=rates.rounds,
            target=Bound("at least", _FEWEST),
            failure=f"a group was {behind} messages behind at the end" if late else None,
            latency=find_latency(ten),
            cpu=find_cpu(ten),
            details={
                OTHERS: median(turn.spent.busy_cores for turn in ten),
                "most messages that a group was behind at the end": behind,
            },
        )
    ]
