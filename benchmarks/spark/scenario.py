"""The rows of the scenario "spark", and a run of them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from benchmarks.engine.scale import FULL as ENGINE
from benchmarks.engine.site import open_site
from benchmarks.results import Machine, Row, Run, record
from benchmarks.spark.history import measure_history
from benchmarks.spark.reading import measure_reading
from benchmarks.spark.stage import open_stage
from benchmarks.spark.writing import measure_beside, measure_writing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.progress import Progress
    from benchmarks.spark.scale import Scale
    from benchmarks.spark.stage import Stage

Measurement: TypeAlias = Callable[["Stage"], Awaitable[list[Row]]]

ROWS: dict[str, Measurement] = {
    "read": measure_reading,
    "sink": measure_writing,
    "lake": measure_history,
    "beside": measure_beside,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows to run, their sizes, and the results file."""

    names: Sequence[str]
    scale: Scale
    quick: bool
    path: Path


async def run_spark(plan: Plan, progress: Progress) -> Run:
    started = datetime.now(UTC)
    async with open_site(None, ENGINE, progress) as site, open_stage(site, plan.scale) as stage:
        run = Run(
            scenario="spark",
            started_at=started,
            quick=plan.quick,
            machine=Machine.describe(site.postgres),
        )
        for number, name in enumerate(plan.names, 1):
            progress.begin(f"[{number}/{len(plan.names)}] {name}")
            began = time.monotonic()
            rows = await ROWS[name](stage)
            spent = time.monotonic() - began
            progress.end(f"{spent:.0f} s")
            run = record(run, rows, seconds=spent, path=plan.path)
    return run
