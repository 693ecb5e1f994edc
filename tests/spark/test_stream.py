"""Streams: every message once, whatever happens between two runs."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from laneway.lake.lag import measure_lag
from laneway.lake.offload import offload
from laneway.lake.tables import open_lake
from tests.spark.broker import create_queue, push, rotate, run, settle_events

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Landing:
    """A stream into Parquet that may be run again and again from its checkpoint."""

    def __init__(self, spark: SparkSession, dsn: str, folder: Path) -> None:
        self._spark = spark
        self._dsn = dsn
        self._folder = folder

    def run(self, **options: Any) -> StreamingQuery:
        query = self._start(**options)
        query.awaitTermination()
        return query

    def _start(self, **options: Any) -> StreamingQuery:
        return (
            self._spark.readStream.format("laneway")
            .options(dsn=self._dsn, **options)
            .load()
            .writeStream.format("parquet")
            .option("path", str(self._folder / "data"))
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )

    @property
    def bodies(self) -> list[Any]:
        rows = self._spark.read.parquet(str(self._folder / "data")).select("body").collect()
        return sorted(json.loads(row.body) for row in rows)


def test_restarted_stream_reads_every_message_once(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    """With new lanes, a rotation, and segments that are offloaded and dropped in between."""
    queue = create_queue(database, "mail")
    push(database, queue, [1, 2])
    landing = Landing(spark, database, tmp_path)
    landing.run(queue="m*")
    assert landing.bodies == [1, 2]
    rotate(database)
    push(database, queue, [3])
    push(database, queue, [4], partition="new", priority=5)
    push(database, create_queue(database, "more"), [5])
    push(database, create_queue(database, "other"), [0])
    landing.run(queue="m*")
    assert landing.bodies == [1, 2, 3, 4, 5]
    run(
        database,
        "select laneway.purge(g.group_id) from laneway.consumer_group g order by g.group_id",
    )
    lake = open_lake(spark, tmp_path / "lake")
    (gone,) = offload(spark, lake, database, older_than=timedelta(0))
    assert (gone.messages, gone.dropped) == (2, True)
    push(database, queue, [6])
    landing.run(queue="m*")
    assert landing.bodies == [1, 2, 3, 4, 5, 6]
    rotate(database)
    run(
        database,
        "select laneway.purge(g.group_id) from laneway.consumer_group g order by g.group_id",
    )
    run(database, "update laneway.policy set retention = '0', event_retention = '0'")
    assert run(database, "select laneway.retain()")
    push(database, queue, [7])
    landing.run(queue="m*")
    assert landing.bodies == [1, 2, 3, 4, 5, 6, 7]


def test_micro_batches_are_limited_and_report_lag(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    queue = create_queue(database, "mail")
    push(database, queue, list(range(7)))
    push(database, queue, list(range(7, 10)), partition="b")
    landing = Landing(spark, database, tmp_path)
    query = landing.run(maxMessagesPerTrigger=4)
    assert [progress.numInputRows for progress in query.recentProgress] == [4, 4, 2]
    assert landing.bodies == list(range(10))
    assert [measure_lag(progress) for progress in query.recentProgress] == [6, 2, 0]


def test_stream_starts_at_its_starting_offsets(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    queue = create_queue(database, "mail")
    push(database, queue, [1, 2])
    landing = Landing(spark, database, tmp_path)
    landing.run(startingOffsets="latest")
    push(database, queue, [3])
    push(database, queue, [4], partition="new")
    landing.run(startingOffsets="latest")
    assert landing.bodies == [3, 4]


@pytest.mark.parametrize("pushing", ["false", "true"])
def test_streams_of_one_dataframe_do_not_share_filters(
    spark: SparkSession, database: str, tmp_path: Path, pushing: str
) -> None:
    queue = create_queue(database, "mail")
    push(database, queue, [1, 2], partition="a")
    push(database, queue, [3], partition="b", priority=4)
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting, "false")
    spark.conf.set(setting, pushing)
    try:
        frame = spark.readStream.format("laneway").options(dsn=database, queue="mail").load()
        parts = {
            "a": frame.where("partition = 'a'"),
            "all": frame,
            "b": frame.where("partition = 'b'"),
            "both": frame.where("seq = 1").union(frame.where("priority = 4")),
        }
        found = {name: land(spark, part, tmp_path / name) for name, part in parts.items()}
    finally:
        spark.conf.set(setting, str(before))
    assert found == {"a": [1, 2], "all": [1, 2, 3], "b": [3], "both": [1, 3, 3]}


def land(spark: SparkSession, frame: DataFrame, folder: Path) -> list[Any]:
    query = (
        frame.select("body")
        .writeStream.format("parquet")
        .option("path", str(folder / "data"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted(
        json.loads(row.body) for row in spark.read.parquet(str(folder / "data")).collect()
    )


def test_a_stream_is_limited_by_options(spark: SparkSession, database: str, tmp_path: Path) -> None:
    queue = create_queue(database, "mail")
    push(database, queue, [1], partition="a", priority=3)
    push(database, queue, [0], partition="a")
    push(database, queue, [0], partition="b", priority=3)
    landing = Landing(spark, database, tmp_path)
    landing.run(partition="a*", priority="1-5")
    push(database, queue, [2], partition="a", priority=3)
    push(database, queue, [3], partition="a-new", priority=5)
    push(database, queue, [0], partition="c", priority=3)
    landing.run(partition="a*", priority="1-5")
    assert landing.bodies == [1, 2, 3]


def test_a_stream_stops_where_messages_were_lost(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    queue = create_queue(database, "mail")
    push(database, queue, [1])
    landing = Landing(spark, database, tmp_path)
    landing.run()
    push(database, queue, [2, 3])
    run(database, "delete from laneway.message where seq <= 2")
    run(database, "select laneway.advance_lane_base(l.lane_id, 2) from laneway.lane l")
    with pytest.raises(StreamingQueryException, match=r"1 messages of lane .* left the log"):
        landing.run()
    landing.run(failOnDataLoss="false")
    assert landing.bodies == [1, 3]


def test_events_are_streamed_whole_transactions_at_a_time(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    queue = create_queue(database, "mail")
    for number in range(3):
        push(database, queue, [number])
    settle_events(database)
    folder = str(tmp_path / "data")

    def land() -> list[tuple[str, int | None]]:
        query = (
            spark.readStream.format("laneway")
            .options(dsn=database, table="events", maxMessagesPerTrigger=2)
            .load()
            .writeStream.format("parquet")
            .option("path", folder)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = spark.read.parquet(folder).orderBy("xid", "event_id").collect()
        return [(row.kind, row.first_seq) for row in rows]

    expected = [("queue_created", None), ("pushed", 1), ("pushed", 2), ("pushed", 3)]
    assert land() == expected
    push(database, queue, [3])
    settle_events(database)
    assert land() == [*expected, ("pushed", 4)]
