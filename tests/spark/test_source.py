"""Batch reads: everything that is in the log, once, and only what was asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from tests.spark.broker import create_queue, push, rotate, run, settle_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(spark: SparkSession, dsn: str, **options: Any) -> DataFrame:
    return spark.read.format("laneway").options(dsn=dsn, **options).load()


def bodies(frame: DataFrame) -> list[Any]:
    return sorted(json.loads(row.body) for row in frame.select("body").collect())


def test_round_trip(spark: SparkSession, database: str) -> None:
    queue = create_queue(database, "mail")
    push(database, queue, [1, 2], partition="a", priority=3)
    push(database, queue, [3], headers=[{"n": 1, "to": "Ä"}], keys=["k"])
    rows = {row.body: row for row in read(spark, database).collect()}
    assert sorted(rows) == ["1", "2", "3"]
    expected = run(
        database,
        "select laneway.message_id(m.segment, m.lane_id, m.seq) as id, m.*, l.partition, l.priority"
        " from laneway.message m join laneway.lane l using (lane_id)",
    )
    for message in expected:
        row = rows[message["body"]]
        assert (row.id, row.lane, row.seq) == (message["id"], message["lane_id"], message["seq"])
        assert (row.queue, row.partition, row.priority) == (
            "mail",
            message["partition"],
            message["priority"],
        )
        assert row.created_at == message["created_at"].replace(tzinfo=None)
        assert row.max_attempts == 3
        assert row.lease == 30
    assert rows["3"].headers == {"n": "1", "to": "Ä"}
    assert rows["3"].key == "k"
    assert rows["1"].headers is None


def test_lanes_are_split_and_gathered(spark: SparkSession, database: str) -> None:
    queue = create_queue(database, "mail")
    push(database, queue, list(range(25)), partition="long")
    for number in range(5):
        push(database, queue, [100 + number], partition=f"short-{number}")
    frame = read(spark, database, rowsPerPartition=10)
    assert frame.rdd.getNumPartitions() == 3
    assert bodies(frame) == [*range(25), *range(100, 105)]
    assert frame.count() == 30


def test_segments_are_read_across(spark: SparkSession, database: str) -> None:
    queue = create_queue(database, "mail")
    push(database, queue, [1])
    rotate(database)
    push(database, queue, [2])
    rotate(database)
    assert bodies(read(spark, database)) == [1, 2]


def test_queues_by_name_list_and_pattern(spark: SparkSession, database: str) -> None:
    for number, name in enumerate(("mail-in", "mail-out", "other")):
        push(database, create_queue(database, name), [number])
    assert bodies(read(spark, database, queue="other")) == [2]
    assert bodies(read(spark, database, queue="other,mail-in")) == [0, 2]
    assert bodies(read(spark, database, queue="mail-*")) == [0, 1]
    assert bodies(read(spark, database, queue="nothing-*")) == []
    with pytest.raises(PySparkException, match="there is no queue 'mall'"):
        read(spark, database, queue="mall").count()


def test_positions(spark: SparkSession, database: str) -> None:
    queue = create_queue(database, "mail")
    push(database, queue, [1, 2])
    moment = run(database, "select clock_timestamp() as now")[0]["now"].isoformat()
    push(database, queue, [3])
    lane = run(database, "select lane_id from laneway.lane")[0]["lane_id"]
    assert bodies(read(spark, database, startingOffsets=moment)) == [3]
    assert bodies(read(spark, database, endingOffsets=moment)) == [1, 2]
    assert bodies(read(spark, database, startingOffsets="latest")) == []
    start, end = json.dumps({lane: 1}), json.dumps({lane: 2})
    assert bodies(read(spark, database, startingOffsets=start, endingOffsets=end)) == [2]


def test_only_the_columns_of_the_schema_are_asked_for(spark: SparkSession, database: str) -> None:
    push(database, create_queue(database, "mail"), [1])
    frame = (
        spark.read.format("laneway").schema("queue string, seq bigint").option("dsn", database)
    ).load()
    assert [tuple(row) for row in frame.collect()] == [("mail", 1)]
    with pytest.raises(PySparkException, match="messages have no column 'nothing'"):
        spark.read.format("laneway").schema("nothing int").option("dsn", database).load().count()


def test_filters_reach_the_database(spark: SparkSession, database: str) -> None:
    queue = create_queue(database, "mail")
    push(database, create_queue(database, "other"), [0])
    push(database, queue, ["it's 100%", "b", "c", "d"], partition="p")
    name = run(database, "select current_database() as name")[0]["name"]
    run(database, f"alter database {name} set log_min_duration_statement = 0")
    directory = Path(run(database, "show data_directory")[0]["data_directory"])
    log = directory.parent / "postgres.log"
    before = log.stat().st_size
    frame = read(spark, database).where(
        "queue = 'mail' and seq >= 2 and seq < 4 and created_at > '2020-01-01' and body like '%c%'"
    )
    assert bodies(frame) == ["c"]
    statements = [
        line
        for line in log.read_bytes()[before:].decode().splitlines()
        if "COPY (select" in line and "m.body" in line
    ]
    lane = run(database, "select lane_id from laneway.lane where partition = 'p'")[0]["lane_id"]
    place = f"m.lane_id = {lane} and m.seq between 1 and 4"
    assert statements
    for condition in (
        place,
        "m.seq >= 2",
        "m.seq < 4",
        "m.created_at > '2020-01-01T",
        "like '%c%'",
    ):
        assert all(condition in statement for statement in statements)
    # Spark filters nothing itself any more: what it pushed is all there was.
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "Filter (" not in plan
    assert bodies(read(spark, database).where("body like '%''s 100\\%%'")) == ["it's 100%"]
    assert bodies(read(spark, database).where("partition in ('x', '') and priority <> 1")) == [0]
    assert bodies(read(spark, database).where("not (seq = 1)")) == ["b", "c", "d"]


def test_messages_that_left_the_log_are_missed(spark: SparkSession, database: str) -> None:
    queue = create_queue(database, "mail")
    push(database, queue, [1, 2, 3])
    lane = run(database, "select lane_id from laneway.lane")[0]["lane_id"]
    run(database, "delete from laneway.message where seq <= 2")
    run(database, "select laneway.raise_base($1, 2)", lane)
    start = json.dumps({lane: 0})
    with pytest.raises(PySparkException, match=r"2 messages of lane .* left the log"):
        read(spark, database, startingOffsets=start).count()
    assert bodies(read(spark, database, startingOffsets=start, failOnDataLoss="false")) == [3]
    assert bodies(read(spark, database)) == [3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "nothing"}, "say messages or events"),
        ({"startingOffset": "latest"}, "is startingOffsets meant"),
        ({"startingOffsets": "yesterday"}, "say earliest, latest"),
        ({"rowsPerPartition": "0"}, "set a number from 1 on"),
        ({"failOnDataLoss": "maybe"}, "set true or false"),
        ({"startingOffsets": '{"1": true}'}, "write lanes and their seqs"),
        ({"startingOffsets": '{"999": 1}'}, "names lane 999, which there never was"),
        ({"startingOffsets": '{"xid": 1}'}, "messages have offsets by lane"),
        ({"foo": "1"}, "there is no option 'foo' for reading"),
        ({"runId": "1"}, "there is no option 'runid' for reading"),
        ({"path": "mail"}, "name it by the option queue"),
        ({"dsn": "mysql://x"}, "must start with postgresql"),
        ({"dsn": "postgresql://127.0.0.1:1/none"}, "the database failed"),
    ],
)
def test_bad_options_are_refused(
    spark: SparkSession, database: str, options: dict[str, str], message: str
) -> None:
    reader = spark.read.format("laneway").option("dsn", database)
    with pytest.raises(PySparkException, match=message):
        reader.options(**options).load().count()


def test_events(spark: SparkSession, database: str) -> None:
    queue = create_queue(database, "mail")
    push(database, queue, [1, 2, 3], partition="a")
    run(
        database,
        "select laneway.claim_many(g.group_id, array[2], null, array['me'])"
        " from laneway.consumer_group g",
    )
    settle_events(database)
    rows = read(spark, database, table="events").orderBy("event_id").collect()
    assert [(row.kind, row.first_seq, row.last_seq) for row in rows] == [
        ("queue_created", None, None),
        ("pushed", 1, 3),
        ("claimed", 1, 2),
    ]
    assert (rows[2].queue, rows[2].group, rows[2].partition) == ("mail", "default", "a")
    assert rows[2].consumer == "me"
    filtered = read(spark, database, table="events", rowsPerPartition=1).where("kind = 'claimed'")
    assert [row.attempt for row in filtered.collect()] == [1]
    assert read(spark, database, table="events", queue="mail").count() == 3
