"""The rows of the scenario "engine", and a run of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from benchmarks.engine.batches import (
    measure_claim,
    measure_claim_of_lanes,
    measure_claim_of_waiters,
    measure_push,
)
from benchmarks.engine.depth import measure_backlog, measure_exceptions, measure_partitions
from benchmarks.engine.horizon import measure_pinned
from benchmarks.engine.singles import measure_connections, measure_one_connection
from benchmarks.engine.site import open_site
from benchmarks.engine.skip_locked import measure_skip_locked
from benchmarks.results import MICROSECONDS, Figure, Machine, Row, Run, record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.engine.scale import Scale
    from benchmarks.engine.site import Site
    from benchmarks.progress import Progress

Measurement: TypeAlias = Callable[["Site"], Awaitable[list[Row]]]

ROWS: dict[str, Measurement] = {
    "push-100": measure_push,
    "claim-ack-100": measure_claim,
    "claim-ack-100-of-10-lanes": measure_claim_of_lanes,
    "claim-ack-32x1": measure_claim_of_waiters,
    "push-1-of-16": measure_connections,
    "push-1-of-1": measure_one_connection,
    "pinned-horizon": measure_pinned,
    "backlog": measure_backlog,
    "exceptions": measure_exceptions,
    "partitions": measure_partitions,
    "skip-locked": measure_skip_locked,
}

# A row that runs longer is stopped and counts as short.
_LONGEST = timedelta(minutes=20)


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows to run, their sizes, the server, and the results file."""

    names: Sequence[str]
    scale: Scale
    quick: bool
    dsn: str | None
    path: Path


async def run_engine(plan: Plan, progress: Progress) -> Run:
    started = datetime.now(UTC)
    async with open_site(plan.dsn, plan.scale, progress) as site:
        run = Run(
            scenario="engine",
            started_at=started,
            quick=plan.quick,
            machine=Machine.describe(site.postgres),
        )
        for number, name in enumerate(plan.names, 1):
            progress.begin(f"[{number}/{len(plan.names)}] {name}")
            start = time.monotonic()
            rows = await _measure(site, name)
            spent = time.monotonic() - start
            progress.end(f"{spent:.0f} s")
            run = record(run, rows, seconds=spent, path=plan.path)
    return run


async def _measure(site: Site, name: str) -> list[Row]:
    limit = _LONGEST + 2 * site.scale.pin_time
    try:
        async with asyncio.timeout(limit.total_seconds()):
            return await ROWS[name](site)
    except TimeoutError:
        nothing = Figure(0.0, MICROSECONDS, "")
        return [Row(name=name, ours=nothing, failure=f"stopped after {limit}")]
