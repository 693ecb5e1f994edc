"""The command `laneway benchmark`: throughput and latency of the broker, from this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Annotated, NamedTuple
from uuid import uuid4

import typer

from laneway.cli.connections import with_connection
from laneway.cli.output import Output
from laneway.domain.settings import QueueSettings
from laneway.library.connection import Connection

_PAYLOAD = {"text": "x" * 180}
_FILL = 1000


class Test(StrEnum):
    ENQUEUE = "enqueue"
    BATCH = "batch"
    DEQUEUE = "dequeue"
    CYCLE = "cycle"
    CONCURRENT = "concurrent"
    ALL = "all"


class Measured(NamedTuple):
    operation: str
    ops_per_second: float
    average_ms: float
    p99_ms: float


@with_connection
async def benchmark(
    connection: Connection,
    output: Output,
    *,
    duration: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds per test.")] = 5,
    batch_size: Annotated[int, typer.Option(min=1, max=10_000, help="Messages per batch.")] = 100,
    workers: Annotated[
        int, typer.Option(min=1, max=1000, help="Producers in the concurrent test.")
    ] = 5,
    test: Annotated[Test, typer.Option(help="Test to run.")] = Test.ALL,
    logging: Annotated[
        bool,
        typer.Option(
            "--logging/--no-logging", help="Record activity during the benchmark, which is slower."
        ),
    ] = False,
) -> None:
    """Benchmark the broker on a temporary queue."""
    name = f"benchmark-{uuid4().hex[:8]}"
    await connection.admin.create_queue(name, QueueSettings(record_events=logging))
    try:
        bench = _Benchmark(
            connection, name, duration=duration, batch_size=batch_size, workers=workers
        )
        chosen = [item for item in Test if item is not Test.ALL and test in {item, Test.ALL}]
        results = [await bench.run(item) for item in chosen]
    finally:
        await connection.admin.delete_queue(name, force=True)
    output.rows(
        [
            {
                "Operation": item.operation,
                "Ops/Sec": item.ops_per_second,
                "Avg (ms)": item.average_ms,
                "P99 (ms)": item.p99_ms,
            }
            for item in results
        ],
        ("Operation", "Ops/Sec", "Avg (ms)", "P99 (ms)"),
    )


class _Benchmark:
    def __init__(
        self, connection: Connection, queue: str, *, duration: float, batch_size: int, workers: int
    ) -> None:
        self._producer = connection.producer(queue)
        self._consumer = connection.consumer(queue)
        self._duration = duration
        self._batch = [_PAYLOAD] * batch_size
        self._workers = workers

    async def run(self, test: Test) -> Measured:
        size = len(self._batch)
        match test:
            case Test.ENQUEUE:
                return await self._measure("Single Enqueue", self._enqueue)
            case Test.BATCH:
                return await self._measure(f"Batch Enqueue ({size}/batch)", self._push, each=size)
            case Test.DEQUEUE:
                await self._fill()
                return await self._measure("Single Dequeue", self._dequeue)
            case Test.CYCLE:
                return await self._measure("Full Cycle (enqueue→dequeue→ack)", self._cycle)
            case _:
                return await self._measure(
                    f"Concurrent Enqueue ({self._workers} workers)",
                    self._enqueue,
                    workers=self._workers,
                )

    async def _measure(
        self,
        name: str,
        operation: Callable[[], Awaitable[None]],
        *,
        each: int = 1,
        workers: int = 1,
    ) -> Measured:
        times: list[float] = []
        end = time.perf_counter() + self._duration

        async def repeat() -> None:
            while (start := time.perf_counter()) < end:
                await operation()
                times.append(time.perf_counter() - start)

        start = time.perf_counter()
        await asyncio.gather(*(repeat() for _ in range(workers)))
        spent = time.perf_counter() - start
        times.sort()
        return Measured(
            name,
            len(times) * each / spent,
            1000 * sum(times) / len(times),
            1000 * times[min(int(len(times) * 0.99), len(times) - 1)],
        )

    async def _fill(self) -> None:
        await self._producer.batch_enqueue([_PAYLOAD] * _FILL)

    async def _enqueue(self) -> None:
        await self._producer.enqueue(_PAYLOAD)

    async def _push(self) -> None:
        await self._producer.batch_enqueue(self._batch)

    async def _dequeue(self) -> None:
        message = await self._consumer.dequeue()
        if message is None:
            await self._fill()
        else:
            await self._consumer.delete(message)

    async def _cycle(self) -> None:
        await self._producer.enqueue(_PAYLOAD)
        message = await self._consumer.dequeue()
        if message is not None:
            await self._consumer.delete(message)
