"""Turns in which a process of the gateway delivers what was accepted before."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.http.meter import Meter
from benchmarks.http.server import RunningServer
from benchmarks.http.turns import Turn
from benchmarks.http.wrk import run_wrk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.http.queues import BenchQueue
    from benchmarks.http.stage import Stage

CONCURRENCY = 64
TARGET = "bench"
SCRIPT = str(Path(__file__).with_name("accept_one.lua"))
# Deliveries a second that are expected, until the first turn has measured them.
_GUESS = 1_500.0
_MARGIN = 1.5
_LANEWAY = Path(sys.executable).with_name("laneway")
# How often deliveries are counted, in seconds.
_STEP = 0.1


@asynccontextmanager
async def run_delivery(dsn: str, settings: str) -> AsyncIterator[RunningServer]:
    """Run `laneway gateway run`."""
    with tempfile.TemporaryDirectory(prefix="laneway-gateway-") as folder:
        (Path(folder) / "laneway.toml").write_text(settings)
        with (Path(folder) / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(_LANEWAY, "gateway", "run", "--concurrency", str(CONCURRENCY)),
                *("--log-level", "warn"),
                cwd=folder,
                env={"PATH": "/usr/bin:/bin", "DATABASE_URL": dsn},
                stderr=log,
            )
            try:
                yield RunningServer(process.pid, "")
            finally:
                process.terminate()
                await process.wait()


@dataclass(frozen=True, slots=True)
class DeliveryTurns:
    """Each turn lasts until its time is over or nothing is left."""

    stage: Stage
    queue: BenchQueue
    settings: str
    rates: list[float] = field(default_factory=list)

    async def run(self, length: timedelta) -> Turn:
        await self._fill(int(max(self.rates, default=_GUESS) * length.total_seconds() * _MARGIN))
        await self.stage.settle()
        start = await self.queue.count()
        async with run_delivery(self.stage.dsn, self.settings) as process:
            # The process first starts; the clock runs from its first deliveries on.
            while (first := await self.queue.count()) == start:  # noqa: ASYNC110 - another process
                await asyncio.sleep(_STEP)
            meter, began = Meter.begin(self.stage, {process}), time.monotonic()
            left = first
            while left and time.monotonic() - began < length.total_seconds():
                await asyncio.sleep(_STEP)
                left = await self.queue.count()
            seconds, spent = time.monotonic() - began, meter.end()
        self.rates.append((first - left) / seconds)
        return Turn(self.rates[-1], spent, first - left)

    async def _fill(self, level: int) -> None:
        """Have requests accepted until at least `level` are not delivered."""
        while await self.queue.count() < level:
            await run_wrk(
                self.stage.server.url,
                SCRIPT,
                TARGET,
                connections=CONCURRENCY,
                time=timedelta(seconds=2),
            )
