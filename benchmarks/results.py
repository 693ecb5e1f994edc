"""The results of a run, and the JSON file that stores them."""

from __future__ import annotations

import os
import platform
from datetime import datetime  # noqa: TC003 - msgspec reads the annotations when it decodes
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable

# Of a row of "compare": the cost of this checkout, compared with that of the base.
Judgement = Literal["within 3 %", "not worse", "better", "worse", "unresolved"]
Verdict = Literal["met", "short", "-"] | Judgement

MICROSECONDS = "µs"
MILLISECONDS = "ms"
PER_CENT = "%"
PER_SECOND = "/s"


class Figure(msgspec.Struct, frozen=True):
    """One measured number; `of` says what was measured."""

    value: float
    unit: str
    of: str


class Bound(msgspec.Struct, frozen=True):
    """A limit on a row's ratio, or on its own figure."""

    side: Literal["at most", "at least"]
    value: float
    figure: Literal["ratio", "ours"] = "ratio"


class Latency(msgspec.Struct, frozen=True):
    """Percentiles in milliseconds."""

    p50: float
    p99: float


class Cpu(msgspec.Struct, frozen=True):
    """Microseconds of processor time per message: of the server's process, and of all of PostgreSQL."""

    server: float
    postgres: float


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table. `low` and `high` are the quartiles of the rounds' ratios.

    `interval` and `judgement` are of rows of "compare": the confidence interval of the ratio, and the verdict.
    """

    name: str
    ours: Figure
    beside: Figure | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    interval: tuple[float, float] | None = None
    judgement: Judgement | None = None
    target: Bound | None = None
    goal: Bound | None = None
    failure: str | None = None
    latency: Latency | None = None
    cpu: Cpu | None = None
    details: dict[str, float | str] = {}
    series: list[dict[str, float]] = []
    seconds: float = 0.0

    @property
    def verdict(self) -> Verdict:
        if self.judgement is not None:
            return self.judgement
        if self.failure is not None:
            return "short"
        if self.target is None:
            return "-"
        return "met" if self.meets(self.target) else "short"

    def meets(self, bound: Bound) -> bool:
        value = self.ours.value if bound.figure == "ours" else self.ratio
        if value is None:
            return False
        return value <= bound.value if bound.side == "at most" else value >= bound.value


class Hot(msgspec.Struct, frozen=True):
    """A function in a profile, with the percentage of time spent in the function itself."""

    function: str
    place: str
    own: float


class Machine(msgspec.Struct, frozen=True):
    processor: str
    cores: int
    memory_gib: float
    system: str
    postgres: str
    python: str = ""

    @classmethod
    def describe(cls, postgres: str) -> Machine:
        return cls(
            processor=_name_processor(),
            cores=os.cpu_count() or 1,
            memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
            system=f"{platform.system()} {platform.release()}",
            postgres=postgres,
            python=f"{platform.python_implementation()} {platform.python_version()}",
        )


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one scenario. A run of "compare" also has the scenario compared, and the revisions."""

    scenario: str
    compared: str = ""
    base: str = ""
    this: str = ""
    started_at: datetime
    quick: bool
    machine: Machine
    rows: tuple[Row, ...] = ()
    profile: tuple[Hot, ...] = ()


def save(run: Run, path: Path) -> None:
    """Write the whole file and replace the old one, so that an interrupted run keeps its finished rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".partial")
    scratch.write_bytes(msgspec.json.format(_encode(run), indent=2) + b"\n")
    scratch.replace(path)


def record(run: Run, rows: Iterable[Row], *, seconds: float, path: Path) -> Run:
    """Return the run with these rows and their duration added, after writing it to the file."""
    timed = (msgspec.structs.replace(row, seconds=seconds) for row in rows)
    run = msgspec.structs.replace(run, rows=(*run.rows, *timed))
    save(run, path)
    return run


def load(path: Path) -> Run:
    return msgspec.json.decode(path.read_bytes(), type=Run)


def _encode(run: Run) -> bytes:
    rows = [msgspec.structs.asdict(row) | {"verdict": row.verdict} for row in run.rows]
    return msgspec.json.encode(msgspec.structs.asdict(run) | {"rows": rows})


def _name_processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
