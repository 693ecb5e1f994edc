"""A whole run of the lake, and how its time grows with the history."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.results import Bound, Figure, Row
from benchmarks.spark.stage import fill, take_time
from laneway.lake.running import run_once
from laneway.lake.tables import open_lake

if TYPE_CHECKING:
    from benchmarks.engine.site import Connection
    from benchmarks.spark.stage import Stage

_BATCH = 100


async def measure_history(stage: Stage) -> list[Row]:
    """Every message is pushed, claimed and acked; seconds per million of those events."""
    seconds: list[tuple[int, float]] = []
    for number, messages in enumerate((stage.scale.history[0], *stage.scale.history)):
        async with stage.site.open_database() as database:
            connection = await database.connect()
            await fill(connection, messages)
            await _settle(connection)
            lake = open_lake(stage.spark, stage.folder / f"lake-{number}")
            took = await asyncio.to_thread(
                take_time,
                lambda dsn=database.dsn, lake=lake: run_once(stage.spark, lake, dsn),  # type: ignore[misc]
            )
        if number:  # the first is for getting warm
            seconds.append((3 * messages, took))
    (small, least), (large, most) = seconds[0], seconds[-1]
    growth = (most / least) / (large / small)
    return [
        Row(
            name="lake-run",
            ours=Figure(most / large * 1_000_000, "s", f"per million events, of {large:,}"),
            beside=Figure(least / small * 1_000_000, "s", f"per million events, of {small:,}"),
            ratio=growth,
            rounds=1,
            target=Bound("at most", 1.0),
            series=[{"events": float(events), "seconds": took} for events, took in seconds],
        )
    ]


async def _settle(connection: Connection) -> None:
    group = await connection.fetchval("select g.group_id from laneway.consumer_group g")
    while True:
        runs = await connection.fetch(
            "select c.token, c.lane_id, min(c.seq) as first, max(c.seq) as last"
            " from laneway.claim_many($1, array[$2::int], null, array['bench']) c group by c.token, c.lane_id",
            group,
            _BATCH,
        )
        if not runs:
            return
        await connection.execute(
            "select laneway.ack_many($1::uuid[], $2::int[], $3::bigint[], $4::bigint[])",
            [run["token"] for run in runs],
            [run["lane_id"] for run in runs],
            [run["first"] for run in runs],
            [run["last"] for run in runs],
        )
