"""The rows of the scenario "streams", and a run of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from benchmarks.http.stage import open_stage
from benchmarks.http.wrk import find_wrk
from benchmarks.results import Machine, Run, record
from benchmarks.streams.fan_out import measure_fan_out
from benchmarks.streams.throughput import LOADS, measure_throughput
from benchmarks.streams.waiting import measure_long_polls

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from benchmarks.http.stage import Stage
    from benchmarks.progress import Progress
    from benchmarks.results import Row
    from benchmarks.streams.scale import Scale

Measurement: TypeAlias = Callable[["Stage"], Awaitable[list["Row"]]]

FAN_OUT = "fan-out"
LONG_POLL = "long-poll"
ROWS = (*(load.name for load in LOADS), FAN_OUT, LONG_POLL)

# A measurement that runs longer stops the run.
_LONGEST = timedelta(minutes=20)


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows to run, their sizes, and the results file."""

    names: Sequence[str]
    scale: Scale
    quick: bool
    path: Path


async def run_streams(plan: Plan, progress: Progress) -> Run:
    await find_wrk()
    started = datetime.now(UTC)
    async with open_stage(plan.scale, progress) as stage:
        run = Run(
            scenario="streams",
            started_at=started,
            quick=plan.quick,
            machine=Machine.describe(stage.postgres),
        )
        for title, measure in _list_measurements(plan):
            progress.begin(title)
            start = time.monotonic()
            async with asyncio.timeout(_LONGEST.total_seconds()):
                rows = await measure(stage)
            spent = time.monotonic() - start
            progress.end(f"{spent:.0f} s")
            run = record(run, rows, seconds=spent, path=plan.path)
    return run


def _list_measurements(plan: Plan) -> Iterable[tuple[str, Measurement]]:
    """Return the measurements, with all loads in one, because they are compared with each other."""
    loads = [name for name in plan.names if name not in {FAN_OUT, LONG_POLL}]
    if loads:
        yield ", ".join(loads), partial(measure_throughput, scale=plan.scale, names=loads)
    if FAN_OUT in plan.names:
        yield FAN_OUT, partial(measure_fan_out, scale=plan.scale)
    if LONG_POLL in plan.names:
        yield LONG_POLL, partial(measure_long_polls, scale=plan.scale)
