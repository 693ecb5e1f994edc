"""The rows of the scenario "library", and a run of them."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from benchmarks.engine.scale import FULL as ENGINE_SCALE
from benchmarks.engine.site import open_site
from benchmarks.library.contestants import CONTESTANTS
from benchmarks.results import (
    MILLISECONDS,
    PER_SECOND,
    Bound,
    Figure,
    Latency,
    Machine,
    Row,
    Run,
    record,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from benchmarks.library.contestants import Contestant
    from benchmarks.library.scale import Scale
    from benchmarks.progress import Progress

ROWS = ("prefilled", "flow", "lone-job")

# A worker without output for longer stops the run, in seconds.
_OUTPUT_TIMEOUT = 300


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows to run, their sizes, and the results file."""

    names: Sequence[str]
    scale: Scale
    quick: bool
    path: Path


async def run_library(plan: Plan, progress: Progress) -> Run:
    started = datetime.now(UTC)
    async with open_site(None, ENGINE_SCALE, progress) as site, site.open_database() as database:
        run = Run(
            scenario="library",
            started_at=started,
            quick=plan.quick,
            machine=Machine.describe(site.postgres),
        )
        contestants = []
        for kind in CONTESTANTS.values():
            contestant = kind(database.dsn)
            if contestant.name != "laneway":
                await contestant.install()
            contestants.append(contestant)
        await _make_queue(database.dsn)
        for name in plan.names:
            progress.begin(name)
            start = time.monotonic()
            measure = {"prefilled": _prefilled, "flow": _flow, "lone-job": _lone}[name]
            found: dict[str, list[list[float]]] = {item.name: [] for item in contestants}
            for _ in range(plan.scale.rounds):
                for contestant in contestants:
                    found[contestant.name].append(await measure(contestant, plan.scale))
            spent = time.monotonic() - start
            row = _compare_latency(found) if name == "lone-job" else _compare_rates(name, found)
            run = record(run, [row], seconds=spent, path=plan.path)
            progress.end(f"{spent:.0f} s")
    return run


async def _make_queue(dsn: str) -> None:
    """Create the queue of Laneway. The site has installed the schema."""
    await CONTESTANTS["laneway"](dsn).install()


async def _prefilled(contestant: Contestant, scale: Scale) -> list[float]:
    """Return jobs per second, from the first to the last of those pushed before."""
    await contestant.open()
    await contestant.push(scale.jobs)
    await contestant.close()
    jobs = int(scale.jobs * contestant.part)
    async with _run_worker(contestant, jobs) as worker:
        first, last = await _read(worker), await _read(worker)
    await contestant.clear()
    return [(jobs - 1) / (last - first)]


async def _flow(contestant: Contestant, scale: Scale) -> list[float]:
    """Return jobs per second while one producer pushes them as fast as it can."""
    jobs = int(scale.jobs * contestant.part)
    await contestant.open()
    try:
        async with _run_worker(contestant, jobs) as worker:
            pushing = asyncio.create_task(contestant.push(jobs))
            first, last = await _read(worker), await _read(worker)
            await pushing
    finally:
        await contestant.close()
    await contestant.clear()
    return [(jobs - 1) / (last - first)]


async def _lone(contestant: Contestant, scale: Scale) -> list[float]:
    """Return milliseconds from just before a push to its handler, one job at a time."""
    times = []
    await contestant.open()
    try:
        # The first job waits for the worker to start, and is not counted.
        async with _run_worker(contestant, scale.lone + 1, "lone") as worker:
            for number in range(scale.lone + 1):
                began = time.time()
                await contestant.push_one()
                handled = await _read(worker)
                if number:
                    times.append(1000 * (handled - began))
                # Long enough for the worker to become idle again.
                await asyncio.sleep(0.02)
    finally:
        await contestant.close()
    return times


@asynccontextmanager
async def _run_worker(
    contestant: Contestant, jobs: int, *options: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.library.contestants",
        contestant.name,
        contestant.dsn,
        str(jobs),
        *options,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield worker
        async with asyncio.timeout(60):
            await worker.wait()
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()


async def _read(worker: asyncio.subprocess.Process) -> float:
    """Return the time that the worker prints next, in seconds since the epoch."""
    if worker.stdout is None:
        raise RuntimeError("the worker has no standard output")
    async with asyncio.timeout(_OUTPUT_TIMEOUT):
        line = await worker.stdout.readline()
    if not line:
        raise RuntimeError("the worker ended before it had processed its jobs")
    return int(line.split()[1]) / 1e9


def _compare_rates(name: str, found: dict[str, list[list[float]]]) -> Row:
    rates = {who: [turn[0] for turn in turns] for who, turns in found.items()}
    middle = {who: statistics.median(values) for who, values in rates.items()}
    peer = max((who for who in middle if who != "laneway"), key=lambda who: middle[who])
    ratios = sorted(a / b for a, b in zip(rates["laneway"], rates[peer], strict=True))
    return Row(
        name=name,
        ours=Figure(middle["laneway"], PER_SECOND, "jobs, one worker process"),
        beside=Figure(middle[peer], PER_SECOND, peer),
        ratio=statistics.median(ratios),
        low=ratios[0],
        high=ratios[-1],
        rounds=len(ratios),
        target=Bound("at least", 5.0),
        details={f"{who}, jobs/s": round(value) for who, value in middle.items()},
    )


def _compare_latency(found: dict[str, list[list[float]]]) -> Row:
    times = {who: sorted(time for turn in turns for time in turn) for who, turns in found.items()}
    latency = {
        who: Latency(p50=_part(values, 0.5), p99=_part(values, 0.99))
        for who, values in times.items()
    }
    ours = latency["laneway"]
    peers = {who: item for who, item in latency.items() if who != "laneway"}
    quickest = min(peers, key=lambda who: peers[who].p50)
    worst = max(
        ours.p50 / min(item.p50 for item in peers.values()),
        ours.p99 / min(item.p99 for item in peers.values()),
    )
    details: dict[str, float | str] = {}
    for who, item in latency.items():
        details[f"{who}, p50 ms"] = round(item.p50, 2)
        details[f"{who}, p99 ms"] = round(item.p99, 2)
    return Row(
        name="lone-job",
        ours=Figure(ours.p50, MILLISECONDS, "push to handler, p50"),
        beside=Figure(peers[quickest].p50, MILLISECONDS, quickest),
        ratio=worst,
        rounds=len(found["laneway"]),
        target=Bound("at most", 1.0),
        latency=ours,
        details=details,
    )


def _part(values: list[float], part: float) -> float:
    return values[min(int(len(values) * part), len(values) - 1)]
