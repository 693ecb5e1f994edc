"""The sink compared with the engine's pushes, and the broker's rate while Spark reads."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from benchmarks.results import PER_SECOND, Bound, Figure, Row
from benchmarks.spark.stage import BODY, fill

if TYPE_CHECKING:
    from benchmarks.engine.site import Connection
    from benchmarks.spark.stage import Stage

_BATCH = 100


async def measure_writing(stage: Stage) -> list[Row]:
    """Measure in turns pushes of 100 on two connections, and the sink with two tasks."""
    count = stage.scale.written
    pushed, written = [], []
    async with stage.site.open_database() as database:
        connections = [await database.connect() for _ in range(2)]
        queue = await connections[0].fetchval("select laneway.create_queue('out')")
        frame = stage.spark.range(0, count, numPartitions=2).select(F.lit(BODY).alias("body"))

        def write() -> None:
            frame.write.format("laneway").mode("append").options(
                dsn=database.dsn, queue="out"
            ).save()

        for number in range(stage.scale.rounds + 1):
            began = time.monotonic()
            await asyncio.gather(
                *(
                    _push(each, queue, f"p{place}", count // 2)
                    for place, each in enumerate(connections)
                )
            )
            seconds = time.monotonic() - began
            took = await stage.measure_time(write)
            if number or stage.scale.rounds == 1:
                pushed.append(count / seconds)
                written.append(count / took)
    ratios = sorted(ours / beside for ours, beside in zip(written, pushed, strict=True))
    return [
        Row(
            name="spark-sink",
            ours=Figure(statistics.median(written), PER_SECOND, "rows written"),
            beside=Figure(
                statistics.median(pushed), PER_SECOND, "messages pushed by 100 on two connections"
            ),
            ratio=statistics.median(ratios),
            low=ratios[0],
            high=ratios[-1],
            rounds=len(ratios),
            target=Bound("at least", 0.3),
        )
    ]


async def measure_beside(stage: Stage) -> list[Row]:
    """Measure pushes, claims and acks of 100 on one connection, without and with Spark reading."""
    alone, beside = [], []
    async with stage.site.open_database() as database:
        await fill(await database.connect(), stage.scale.messages)
        connection = await database.connect()
        queue = await connection.fetchval("select laneway.create_queue('work')")
        for _ in range(stage.scale.rounds):
            alone.append(await _work(connection, queue, stage.scale.reading_seconds))
            reading = asyncio.create_task(
                stage.measure_time(
                    lambda: _read_for(stage, database.dsn, stage.scale.reading_seconds)
                )
            )
            beside.append(await _work(connection, queue, stage.scale.reading_seconds))
            await reading
    ratios = sorted(with_spark / without for with_spark, without in zip(beside, alone, strict=True))
    return [
        Row(
            name="broker-while-spark-reads",
            ours=Figure(statistics.median(beside), PER_SECOND, "messages while Spark reads"),
            beside=Figure(statistics.median(alone), PER_SECOND, "messages without"),
            ratio=statistics.median(ratios),
            low=ratios[0],
            high=ratios[-1],
            rounds=len(ratios),
            target=Bound("at least", 0.8),
        )
    ]


def _read_for(stage: Stage, dsn: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        stage.read(dsn, queue="in").write.format("noop").mode("overwrite").save()


async def _push(connection: Connection, queue: int, partition: str, count: int) -> None:
    for _ in range(count // _BATCH):
        await connection.execute(
            "select laneway.push_many(array[$1::int], array_fill($2::json, array[$3::int]), array[$4::text])",
            queue,
            BODY,
            _BATCH,
            partition,
        )


async def _work(connection: Connection, queue: int, seconds: float) -> float:
    """Return how many messages a second went all the way."""
    group = await connection.fetchval(
        "select g.group_id from laneway.consumer_group g where g.queue_id = $1", queue
    )
    done = 0
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        await _push(connection, queue, "", _BATCH)
        for run in await connection.fetch(
            "select c.token, c.lane_id, min(c.seq) as first, max(c.seq) as last"
            " from laneway.claim_many($1, array[$2::int]) c group by c.token, c.lane_id",
            group,
            _BATCH,
        ):
            await connection.execute(
                "select laneway.ack_many(array[$1::uuid], array[$2::int], array[$3::bigint], array[$4::bigint])",
                run["token"],
                run["lane_id"],
                run["first"],
                run["last"],
            )
            done += run["last"] - run["first"] + 1
    return done / (time.monotonic() - began)
