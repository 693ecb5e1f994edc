"""The time that a status takes, from the cache and from the database."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from statistics import median, quantiles
from typing import TYPE_CHECKING

from benchmarks.http.connection import open_connection
from benchmarks.http.meter import OTHERS, Meter
from benchmarks.results import MILLISECONDS, Bound, Figure, Latency, Row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from benchmarks.http.connection import HttpConnection
    from benchmarks.http.meter import Spent
    from benchmarks.http.stage import Stage

RATE = 500  # a second
_CLIENTS = 16
# p99 in milliseconds.
CACHED, STORED = 5.0, 15.0
# A process caches so many final transactions, and more.
TRANSACTIONS = 1_000


class StatusMissing(Exception):
    """A status was not found."""


async def measure_statuses(stage: Stage, name: str, ids: Sequence[str], limit: float) -> Row:
    """Ask for these transactions by the clock, in turn."""
    await _ask(stage, ids, stage.scale.warm_up)
    turns: list[tuple[Latency, Spent, int]] = []
    for number in range(stage.scale.rounds):
        stage.progress.step(f"{name}, round", number + 1, stage.scale.rounds)
        meter = Meter.begin(stage)
        delays = await _ask(stage, ids, stage.scale.turn)
        cuts = quantiles(delays, n=100)
        turns.append((Latency(cuts[49], cuts[98]), meter.end(), len(delays)))
    p99 = median(latency.p99 for latency, _, _ in turns)
    return Row(
        name=name,
        ours=Figure(p99, MILLISECONDS, f"p99 at {RATE} a second"),
        rounds=len(turns),
        target=Bound("at most", limit, "ours"),
        latency=Latency(median(latency.p50 for latency, _, _ in turns), p99),
        details={OTHERS: median(spent.busy_cores for _, spent, _ in turns)},
    )


async def _ask(stage: Stage, ids: Sequence[str], length: timedelta) -> list[float]:
    """Return the delays in milliseconds, from when each request is due."""
    count = int(length.total_seconds() * RATE)
    delays: list[float] = []
    start = time.monotonic()

    async def ask(first: int, client: HttpConnection) -> None:
        for number in range(first, count, _CLIENTS):
            due = start + number / RATE
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            answer = await client.get(f"/api/v1/relay/status/{ids[number % len(ids)]}")
            delays.append((time.monotonic() - due) * 1000)
            if answer.status != 200:
                raise StatusMissing(answer.body.decode())

    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(open_connection(stage.server)) for _ in range(_CLIENTS)
        ]
        start = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for first, client in enumerate(clients):
                group.create_task(ask(first, client))
    return delays
