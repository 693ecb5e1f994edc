"""The rows of the command "compare", and a run of them: both sides take turns on one PostgreSQL server."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, Literal

from benchmarks.compare.revision import ROOT, check_out, describe_checkout, find_commit
from benchmarks.compare.side import Task
from benchmarks.compare.turns import run_loads, start_side
from benchmarks.cpu import ServerClock
from benchmarks.engine.rounds import compare, interleave
from benchmarks.engine.scale import FULL as ENGINE_SCALE
from benchmarks.engine.site import open_site
from benchmarks.http import throughput as http
from benchmarks.http.wrk import find_wrk
from benchmarks.results import MICROSECONDS, Figure, Machine, Row, Run, record
from benchmarks.sqs import scenario as sqs
from benchmarks.streams import throughput as streams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.compare.turns import Side
    from benchmarks.engine.rounds import Comparison
    from benchmarks.engine.site import Site
    from benchmarks.progress import Progress
    from benchmarks.results import Judgement

Scenario = Literal["engine", "http", "sqs", "streams"]

_BENCH = "push-1-of-16"

ROWS: Final[Mapping[Scenario, Sequence[str]]] = {
    "engine": (
        "push-100",
        "claim-ack-100",
        "claim-ack-100-of-10-lanes",
        "claim-ack-32x1",
        "push-1-of-1",
        _BENCH,
    ),
    "http": [load.name for load in http.LOADS],
    "sqs": [load.name for load in sqs.LOADS if load.beside != sqs.MOTO],
    "streams": [load.name for load in streams.LOADS],
}

# A difference of cost that counts.
_LIMIT = 0.03


@dataclass(frozen=True, slots=True)
class Scale:
    """slices: rounds of calls. loads: rounds of wrk and pgbench. The rest is in `side.Task`."""

    slices: int = 400
    loads: int = 10
    seconds: float = 8.0
    calls: int = 10
    single_calls: int = 40


FULL = Scale()

QUICK = Scale(slices=6, loads=2, seconds=1.0, calls=2, single_calls=5)


@dataclass(frozen=True, slots=True)
class Plan:
    """The base revision, the rows to run, their sizes, and the results file. `rounds` overrides the scale's."""

    base: str
    scenario: Scenario
    names: Sequence[str]
    scale: Scale
    rounds: int | None
    quick: bool
    path: Path


async def run_compare(plan: Plan, progress: Progress) -> Run:
    commit = find_commit(plan.base)
    if plan.scenario != "engine":
        await find_wrk()
    started = datetime.now(UTC)
    progress.begin(f"installing {plan.base}")
    with check_out(commit) as tree:
        async with open_site(None, ENGINE_SCALE, progress) as site:
            run = Run(
                scenario="compare",
                compared=plan.scenario,
                base=commit[:12],
                this=describe_checkout(),
                started_at=started,
                quick=plan.quick,
                machine=Machine.describe(site.postgres),
            )
            for number, name in enumerate(plan.names, 1):
                progress.begin(f"[{number}/{len(plan.names)}] {name}")
                start = time.monotonic()
                row = await _measure(plan, name, tree, site)
                spent = time.monotonic() - start
                progress.end(f"{spent:.0f} s")
                run = record(run, [row], seconds=spent, path=plan.path)
    return run


async def _measure(plan: Plan, name: str, tree: Path, site: Site) -> Row:
    sliced = plan.scenario == "engine" and name != _BENCH
    rounds = plan.rounds or (plan.scale.slices if sliced else plan.scale.loads)

    def task(template: str) -> Task:
        return Task(
            scenario=plan.scenario,
            row=name,
            dsn=site.dsn,
            template=template,
            seconds=plan.scale.seconds,
            calls=plan.scale.calls,
            single_calls=plan.scale.single_calls,
        )

    python = tree / ".venv" / "bin" / "python"
    async with (
        start_side("base", tree, python, task("laneway_base")) as base,
        start_side("this", ROOT, Path(sys.executable), task("laneway_this")) as this,
    ):
        if not sliced:
            return await _alternate_loads(name, base, this, rounds, site)
        found = await interleave(
            base.run_slice, this.run_slice, rounds=rounds, progress=site.progress
        )
        return _make_row(name, found, {})


async def _alternate_loads(name: str, base: Side, this: Side, rounds: int, site: Site) -> Row:
    clock = ServerClock(site.postmaster)
    pairs = []
    for number in range(rounds + 1):
        site.progress.step("round", number, rounds)
        if number % 2:
            ours, other = await run_loads((this, base), clock)
        else:
            other, ours = await run_loads((base, this), clock)
        pairs.append((other, ours))
    counted = pairs[1:]  # the first round warms up
    details = {
        f"{side.name}, {what}": median(values)
        for side, loads in zip((base, this), zip(*counted, strict=True), strict=True)
        for what, values in (
            ("messages a second", [load.rate for load in loads]),
            ("server's µs", [load.server_cost for load in loads]),
        )
    }
    return _make_row(name, compare([(other.cost, ours.cost) for other, ours in counted]), details)


def _make_row(name: str, found: Comparison, details: Mapping[str, float]) -> Row:
    return Row(
        name=name,
        ours=Figure(found.ours, MICROSECONDS, ""),
        beside=Figure(found.base, MICROSECONDS, ""),
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        rounds=found.rounds,
        interval=found.interval,
        judgement=_judge(found),
        details=dict(details),
    )


def _judge(found: Comparison) -> Judgement:
    if found.interval is None:
        return "unresolved"
    low, high = found.interval
    if low > 1 + _LIMIT:
        return "worse"
    if high < 1 - _LIMIT:
        return "better"
    if high > 1 + _LIMIT:
        return "unresolved"
    return "within 3 %" if low >= 1 - _LIMIT else "not worse"
