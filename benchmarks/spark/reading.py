"""Counting the log and landing it as Parquet, compared with COPY of the same rows."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import time
from typing import TYPE_CHECKING

from benchmarks.results import PER_SECOND, Bound, Figure, Row
from benchmarks.spark.stage import fill
from laneway.embedded.binaries import find_bundled

if TYPE_CHECKING:
    from benchmarks.spark.stage import Stage

_COPY = (
    "copy (select m.segment, m.lane_id, m.seq, m.created_at, m.deliver_at, m.key, m.headers, m.body"
    " from laneway.message m where m.lane_id % 2 = {half}) to stdout (format binary)"
)


async def measure_reading(stage: Stage) -> list[Row]:
    """Measure in turns COPY by two connections, Spark's count(), and Spark's write of Parquet."""
    messages = stage.scale.messages
    rates: dict[str, list[float]] = {"copy": [], "count": [], "land": []}
    async with stage.site.open_database() as database:
        connection = await database.connect()
        await fill(connection, messages)
        for number in range(stage.scale.rounds + 1):
            copied = await _copy(database.dsn)
            counted = await stage.measure_time(stage.read(database.dsn).count)
            landed = await _land(stage, database.dsn)
            if number == 0 and stage.scale.rounds > 1:
                continue  # the first is a warm-up
            for name, seconds in (("copy", copied), ("count", counted), ("land", landed)):
                rates[name].append(messages / seconds)
    return [
        _make_row("count", rates, least=0.1, goal=0.2),
        _make_row("land", rates, least=0.07, goal=0.12),
    ]


async def _copy(dsn: str) -> float:
    """Return the seconds that two psql processes need to copy all rows to /dev/null."""
    binaries = await asyncio.to_thread(find_bundled, None)
    began = time.monotonic()
    clients = [
        await asyncio.create_subprocess_exec(
            binaries.program("psql"),
            *("--no-psqlrc", "--quiet", f"--command={_COPY.format(half=half)}", dsn),
            stdout=asyncio.subprocess.DEVNULL,
        )
        for half in range(2)
    ]
    codes = [await client.wait() for client in clients]
    if any(codes):
        raise RuntimeError(f"psql ended with {codes}")
    return time.monotonic() - began


async def _land(stage: Stage, dsn: str) -> float:
    target = stage.folder / "landed"
    seconds = await stage.measure_time(lambda: stage.read(dsn).write.parquet(str(target)))
    shutil.rmtree(target)
    return seconds


def _make_row(name: str, rates: dict[str, list[float]], *, least: float, goal: float) -> Row:
    ratios = sorted(ours / beside for ours, beside in zip(rates[name], rates["copy"], strict=True))
    return Row(
        name=f"spark-{name}",
        ours=Figure(statistics.median(rates[name]), PER_SECOND, "rows"),
        beside=Figure(
            statistics.median(rates["copy"]), PER_SECOND, "rows copied by two connections"
        ),
        ratio=statistics.median(ratios),
        low=ratios[0],
        high=ratios[-1],
        rounds=len(ratios),
        target=Bound("at least", least),
        goal=Bound("at least", goal),
    )
