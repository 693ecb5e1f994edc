"""Batch reads: everything in the log, once, and only what was asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from tests.spark.broker import create_queue, push, rotate, run, settle_events

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        assert row.max_attempts == 5
        assert row.lease == 30
    assert rows["3"].headers == '{"n": 1, "to": "\\u00c4"}'
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
    with pytest.raises(PySparkException, match="queue 'mall' not found"):
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


def test_options_choose_what_the_database_reads(spark: SparkSession, database: str) -> None:
    queue = create_queue(database, "mail")
    push(database, create_queue(database, "other"), [0], partition="p")
    push(database, queue, ["a", "b", "c", "d"], partition="p")
    push(database, queue, ["e"], partition="q,[1]", priority=7)
    push(database, queue, ["f"], priority=5)
    name = run(database, "select current_database() as name")[0]["name"]
    run(database, f"alter database {name} set log_min_duration_statement = 0")
    directory = Path(run(database, "show data_directory")[0]["data_directory"])
    log = directory.parent / "postgres.log"
    before = log.stat().st_size
    lane = run(
        database,
        "select l.lane_id from laneway.lane l join laneway.queue q using (queue_id)"
        " where q.name = 'mail' and l.partition = 'p'",
    )[0]["lane_id"]
    part = read(
        spark,
        database,
        queue="mail",
        partition="p",
        startingOffsets=json.dumps({lane: 1}),
        endingOffsets=json.dumps({lane: 3}),
    )
    assert bodies(part) == ["b", "c"]
    statements = [
        line
        for line in log.read_bytes()[before:].decode().splitlines()
        if "COPY (select" in line and "m.body" in line
    ]
    assert statements
    assert all(f"m.lane_id = {lane} and m.seq between 2 and 3" in each for each in statements)

    def choose(**options: Any) -> list[Any]:
        return bodies(read(spark, database, queue="mail", **options))

    assert choose(partition="") == ["f"]
    assert choose(partition="q*") == ["e"]
    assert choose(partition="q?[[]1]") == ["e"]
    assert choose(partition="p,") == ["a", "b", "c", "d", "f"]
    assert choose(partition="none") == []
    assert choose(priority="0") == ["a", "b", "c", "d"]
    assert choose(priority="5, 7") == ["e", "f"]
    assert choose(priority="1-6") == ["f"]
    assert choose(priority="1-9", partition="q*,none") == ["e"]
    moment = run(database, "select clock_timestamp() as now")[0]["now"].isoformat()
    push(database, queue, ["g"], partition="p")
    assert choose(startingOffsets=moment) == ["g"]
    assert choose(endingOffsets=moment, priority="5-32767") == ["e", "f"]


def test_messages_that_left_the_log_are_reported_missing(
    spark: SparkSession, database: str
) -> None:
    queue = create_queue(database, "mail")
    push(database, queue, [1, 2, 3])
    lane = run(database, "select lane_id from laneway.lane")[0]["lane_id"]
    run(database, "delete from laneway.message where seq <= 2")
    run(database, "select laneway.advance_lane_base($1, 2)", lane)
    start = json.dumps({lane: 0})
    with pytest.raises(PySparkException, match=r"2 messages of lane .* left the log"):
        read(spark, database, startingOffsets=start).count()
    assert bodies(read(spark, database, startingOffsets=start, failOnDataLoss="false")) == [3]
    assert bodies(read(spark, database)) == [3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "nothing"}, "Use messages or events"),
        ({"startingOffset": "latest"}, "Did you mean startingOffsets"),
        ({"startingOffsets": "yesterday"}, "say earliest, latest"),
        ({"rowsPerPartition": "0"}, "set a number from 1 on"),
        ({"failOnDataLoss": "maybe"}, "set true or false"),
        ({"startingOffsets": '{"1": true}'}, "write lanes and their seqs"),
        ({"startingOffsets": '{"999": 1}'}, "lane 999 never existed"),
        ({"startingOffsets": '{"xid": 1}'}, "messages have offsets by lane"),
        ({"priority": "high"}, "set numbers from 0 to 32767, such as 5, or 0,5, or 1-9"),
        ({"priority": "9-1"}, "set numbers from 0 to 32767"),
        ({"priority": "32768"}, "set numbers from 0 to 32767"),
        ({"priority": ""}, "set numbers from 0 to 32767"),
        ({"table": "events", "partition": "a"}, "the option partition is for messages"),
        ({"foo": "1"}, "unknown option 'foo' for reading"),
        ({"runId": "1"}, "unknown option 'runid' for reading"),
        ({"path": "mail"}, "Name it with the option queue"),
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


@pytest.fixture(params=[False, True], ids=["pushdown off", "pushdown on"])
def pushing(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[bool]:
    """Set whether Spark pushes filters into Python sources, which it may share between queries."""
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting, "false")
    spark.conf.set(setting, str(request.param).lower())
    yield request.param
    spark.conf.set(setting, str(before))


@pytest.mark.usefixtures("pushing")
def test_a_dataframe_is_reused(spark: SparkSession, database: str) -> None:
    """Filters of one query leave no trace in the next, nor in another branch of the same."""
    queue = create_queue(database, "mail")
    push(database, queue, list(range(50)), partition="a")
    push(database, queue, list(range(50, 100)), partition="b", priority=2)
    frame = read(spark, database, queue="mail")
    assert frame.count() == 100
    some = frame.where("partition = 'a'")
    few = frame.where("partition = 'b' and seq <= 10 and body like '5%'")
    assert (some.count(), frame.count(), few.count(), frame.count()) == (50, 100, 10, 100)
    assert bodies(some.union(few)) == list(range(60))
    assert bodies(frame.union(some)) == sorted([*range(100), *range(50)])
    pairs = some.alias("l").join(frame.where("priority = 2").alias("r"), "seq")
    assert sorted(
        (json.loads(row[0]), json.loads(row[1]))
        for row in pairs.select("l.body", "r.body").collect()
    ) == [(number, number + 50) for number in range(50)]
    assert frame.alias("l").join(frame.alias("r"), "id").count() == 100
    frame.createOrReplaceTempView("reused")
    found = spark.sql(
        "select (select count(*) from reused where partition = 'a') as some,"
        " (select count(*) from reused) as whole,"
        " (select max(seq) from reused where partition = 'b' and seq < 7) as newest,"
        " count(*) as few from reused where seq in"
        " (select seq from reused where seq <= 3) and partition = 'b'"
    )
    assert tuple(found.collect()[0]) == (50, 100, 6, 3)
    few.cache()
    assert (few.count(), frame.count(), some.count()) == (10, 100, 50)
    few.unpersist()
    assert frame.limit(5).count() == 5
    assert frame.count() == 100
    settle_events(database)
    events = read(spark, database, table="events")
    counts = [
        events.where("kind = 'pushed'").count(),
        events.count(),
        events.where("lane is null").count(),
    ]
    assert counts == [2, 3, 1]


def test_a_dataframe_reads_one_snapshot(spark: SparkSession, database: str) -> None:
    """That of its first action; what is loaded again has what was pushed meanwhile."""
    queue = create_queue(database, "mail")
    push(database, queue, [1, 2])
    frame = read(spark, database, queue="mail")
    assert frame.count() == 2
    push(database, queue, [3])
    assert (frame.where("seq > 1").count(), frame.count()) == (1, 2)
    assert read(spark, database, queue="mail").count() == 3
