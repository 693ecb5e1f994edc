"""The rows of the scenario "http", and a run of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from benchmarks.http.idle import measure_idle_polls
from benchmarks.http.profile import profile_enqueue
from benchmarks.http.stage import open_stage
from benchmarks.http.throughput import LOADS, measure_throughput
from benchmarks.http.waiting import measure_long_polls
from benchmarks.http.wrk import find_wrk
from benchmarks.results import Machine, Row, Run, record, save

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from benchmarks.http.scale import Scale
    from benchmarks.http.stage import Stage
    from benchmarks.progress import Progress

Measurement: TypeAlias = Callable[["Stage"], Awaitable[list[Row]]]

_WAITING: dict[str, Measurement] = {
    "long-poll": measure_long_polls,
    "idle-polls": measure_idle_polls,
}

ROWS = (*(load.name for load in LOADS), *_WAITING)

# A measurement that runs longer stops the run.
_LONGEST = timedelta(minutes=20)


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows to run, their sizes, and the results file."""

    names: Sequence[str]
    scale: Scale
    quick: bool
    profile: bool
    path: Path


async def run_http(plan: Plan, progress: Progress) -> Run:
    await find_wrk()
    started = datetime.now(UTC)
    async with open_stage(plan.scale, progress) as stage:
        run = Run(
            scenario="http",
            started_at=started,
            quick=plan.quick,
            machine=Machine.describe(stage.postgres),
        )
        for title, measure in _list_measurements(plan.names):
            progress.begin(title)
            start = time.monotonic()
            async with asyncio.timeout(_LONGEST.total_seconds()):
                rows = await measure(stage)
            spent = time.monotonic() - start
            progress.end(f"{spent:.0f} s")
            run = record(run, rows, seconds=spent, path=plan.path)
        if plan.profile:
            progress.begin("profile")
            run = msgspec.structs.replace(run, profile=await profile_enqueue(stage))
            save(run, plan.path)
    return run


def _list_measurements(names: Sequence[str]) -> Iterable[tuple[str, Measurement]]:
    """Return the measurements, with all loads in one, because they are compared with each other."""
    loads = [load.name for load in LOADS if load.name in names]
    if loads:
        yield ", ".join(loads), partial(measure_throughput, names=loads)
    for name, measure in _WAITING.items():
        if name in names:
            yield name, measure
