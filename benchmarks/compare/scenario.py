"""The rows of the command "compare", and a run of them: both sides take turns on one PostgreSQL server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from benchmarks.compare import side
from benchmarks.compare.revision import ROOT, check_out, describe_checkout, find_commit
from benchmarks.engine.rounds import Cost, interleave
from benchmarks.engine.scale import FULL as ENGINE_SCALE
from benchmarks.engine.site import open_site
from benchmarks.http import throughput as http
from benchmarks.http.wrk import find_wrk
from benchmarks.results import MICROSECONDS, Figure, Machine, Row, Run, record
from benchmarks.sqs import scenario as sqs
from benchmarks.streams import throughput as streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from benchmarks.engine.rounds import Comparison
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
    """slices: rounds of calls. turns: rounds of wrk and pgbench. The rest is in `side.Task`."""

    slices: int = 400
    turns: int = 20
    turn: float = 2.0
    calls: int = 10
    single_calls: int = 40


FULL = Scale()

QUICK = Scale(slices=6, turns=2, turn=1.0, calls=2, single_calls=5)


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


class SideFailed(Exception):
    """The benchmark of one side ended with an error, which it printed."""


class _Turn(msgspec.Struct, frozen=True):
    """The answer of `side.py`. The fields with a default are of turns over HTTP or with pgbench only."""

    nanoseconds: float
    messages: int
    rate: float | None = None
    server: float | None = None
    postgres: float | None = None


@dataclass(frozen=True, slots=True)
class _Side:
    name: str
    process: asyncio.subprocess.Process
    turns: list[_Turn] = field(default_factory=list)

    async def take_turn(self) -> Cost:
        if self.process.stdin is None or self.process.stdout is None:
            raise TypeError("the process has no pipes")
        self.process.stdin.write(b"\n")
        line = await self.process.stdout.readline()
        if not line:
            raise SideFailed(f"the benchmark of {self.name} failed; it printed the error above")
        turn = msgspec.json.decode(line, type=_Turn)
        self.turns.append(turn)
        return Cost(round(turn.nanoseconds), turn.messages)

    def list_details(self) -> dict[str, float | str]:
        """Return medians of what turns over HTTP or with pgbench measure in addition."""
        counted = self.turns[1:]
        columns = {
            "messages a second": [turn.rate for turn in counted],
            "server, µs": [turn.server for turn in counted],
            "PostgreSQL, µs": [turn.postgres for turn in counted],
        }
        return {
            f"{self.name}: {title}": median(known)
            for title, values in columns.items()
            if (known := [value for value in values if value is not None])
        }


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
                row = await _measure(plan, name, tree, site.dsn, progress)
                spent = time.monotonic() - start
                progress.end(f"{spent:.0f} s")
                run = record(run, [row], seconds=spent, path=plan.path)
    return run


async def _measure(plan: Plan, name: str, tree: Path, dsn: str, progress: Progress) -> Row:
    scale = plan.scale
    slices = plan.scenario == "engine" and name != _BENCH
    rounds = plan.rounds or (scale.slices if slices else scale.turns)

    def task(template: str) -> side.Task:
        return side.Task(
            scenario=plan.scenario,
            row=name,
            dsn=dsn,
            template=template,
            turn=scale.turn,
            calls=scale.calls,
            single_calls=scale.single_calls,
        )

    python = tree / ".venv" / "bin" / "python"
    async with (
        _start("base", python, tree, task("laneway_base")) as base,
        _start("this", Path(sys.executable), ROOT, task("laneway_this")) as this,
    ):
        found = await interleave(base.take_turn, this.take_turn, rounds=rounds, progress=progress)
        details = base.list_details() | this.list_details()
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
        details=details,
    )


def _judge(found: Comparison) -> Judgement:
    if found.interval is None:
        return "unresolved"
    low, high = found.interval
    if low > 1 + _LIMIT:
        return "worse"
    if high < 1 - _LIMIT:
        return "better"
    return "within 3 %" if low >= 1 - _LIMIT and high <= 1 + _LIMIT else "unresolved"


@asynccontextmanager
async def _start(name: str, python: Path, tree: Path, task: side.Task) -> AsyncIterator[_Side]:
    # -P: the directory of side.py is not among those that modules are imported from.
    process = await asyncio.create_subprocess_exec(
        *(python, "-P", side.__file__, json.dumps(msgspec.to_builtins(task))),
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C ends it by the end of its standard input
    )
    try:
        yield _Side(name, process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()
