"""Counting and landing the log beside two connections that copy the same rows out."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import time
from typing import TYPE_CHECKING

from benchmarks.results import PER_SECOND, Bound, Figure, Row
from benchmarks.spark.stage import fill

if TYPE_CHECKING:
    from benchmarks.engine.site import Database
    from benchmarks.spark.stage import Stage

_COPY = (
    "select m.segment, m.lane_id, m.seq, m.created_at, m.deliver_at, m.key, m.headers, m.body"
    " from laneway.message m where m.lane_id % 2 = {half}"
)


async def measure_reading(stage: Stage) -> list[Row]:
    """In turns: PostgreSQL's own COPY to two connections, Spark's count, Spark's Parquet."""
    messages = stage.scale.messages
    rates: dict[str, list[float]] = {"copy": [], "count": [], "land": []}
    async with stage.site.open_database() as database:
        connection = await database.connect()
        await fill(connection, messages)
        for number in range(stage.scale.rounds + 1):
            copied = await _copy(database)
            counted = await stage.take_time(stage.read(database.dsn).count)
            landed = await _land(stage, database.dsn)
            if number == 0 and stage.scale.rounds > 1:
                continue  # the first is for getting warm
            for name, seconds in (("copy", copied), ("count", counted), ("land", landed)):
                rates[name].append(messages / seconds)
    return [
        _make_row("count", rates, least=0.1, goal=0.2),
        _make_row("land", rates, least=0.07, goal=0.12),
    ]


async def _copy(database: Database) -> float:
    connections = [await database.connect() for _ in range(2)]

    async def discard(_: bytes) -> None:
        pass

    began = time.monotonic()
    await asyncio.gather(
        *(
            each.copy_from_query(_COPY.format(half=half), output=discard, format="binary")
            for half, each in enumerate(connections)
        )
    )
    seconds = time.monotonic() - began
    for each in connections:
        await each.close()
    return seconds


async def _land(stage: Stage, dsn: str) -> float:
    target = stage.folder / "landed"
    seconds = await stage.take_time(lambda: stage.read(dsn).write.parquet(str(target)))
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
