"""Writing: every row becomes one message, whatever fails."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import asyncpg
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from laneway.lake import sink
from laneway.lake.errors import QueueMissing, WriteRefused
from laneway.lake.options import WriteOptions
from laneway.lake.rows import convert
from tests.spark.broker import create_queue, push, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

COPIER = Path(__file__).parent / "copier.py"


def write(frame: DataFrame, dsn: str, queue: str = "out", **options: Any) -> None:
    frame.write.format("laneway").mode("append").options(dsn=dsn, queue=queue, **options).save()


def read_bodies(dsn: str, queue: str = "out") -> list[Any]:
    rows = run(
        dsn,
        "select m.body from laneway.message m join laneway.lane l using (lane_id)"
        " join laneway.queue q using (queue_id) where q.name = $1",
        queue,
    )
    return sorted(json.loads(row["body"]) for row in rows)


def count_staged(dsn: str) -> int:
    return int(run(dsn, "select count(*) as n from laneway.staged")[0]["n"])


def test_every_column_is_written(spark: SparkSession, database: str) -> None:
    create_queue(database, "out")
    frame = spark.sql(
        "select named_struct('n', id, 'at', timestamp'2026-01-02 03:04:05', 'none', null) as body,"
        " 'p' as partition, 3 as priority, map('a', 'b') as headers, concat('k', id % 2) as key,"
        " interval '90' second as delay from range(4)"
    )
    write(frame, database)
    rows = run(
        database,
        "select m.body, m.key, m.headers, l.partition, l.priority,"
        " m.deliver_at - m.created_at < interval '91 s' as soon,"
        " m.deliver_at - m.created_at > interval '80 s' as late"
        " from laneway.message m join laneway.lane l using (lane_id)",
    )
    assert sorted(row["key"] for row in rows) == ["k0", "k1"]
    for row in rows:
        body = json.loads(row["body"])
        assert set(body) == {"n", "at", "none"}
        assert body["none"] is None
        assert json.loads(row["headers"]) == {"a": "b"}
        assert (row["partition"], row["priority"]) == ("p", 3)
        assert row["soon"]
        assert row["late"]
    assert count_staged(database) == 0


def test_read_rows_can_be_written(spark: SparkSession, database: str) -> None:
    create_queue(database, "out")
    push(database, create_queue(database, "in"), [{"n": 1}, "text", None], partition="a")
    frame = spark.read.format("laneway").options(dsn=database, queue="in").load()
    write(frame.select("partition", "priority", "headers", "body"), database)
    rows = run(
        database,
        "select body, count(*) as n from (select body::text from laneway.message) m group by 1",
    )
    assert {row["body"]: row["n"] for row in rows} == {'{"n": 1}': 2, '"text"': 2, "null": 2}


def test_a_task_that_fails_once_writes_once(spark: SparkSession, database: str) -> None:
    create_queue(database, "out")

    def fail_at_first(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext  # noqa: PLC0415 - runs in a worker

        task = TaskContext.get()
        yield from batches
        if task is not None and task.attemptNumber() == 0 and task.partitionId() == 1:
            raise RuntimeError("injected")

    frame = spark.range(0, 1000, numPartitions=2).select(F.col("id").cast("string").alias("body"))
    write(frame.mapInArrow(fail_at_first, frame.schema), database)
    assert read_bodies(database) == list(range(1000))
    assert count_staged(database) == 0


def test_a_write_that_fails_leaves_nothing(spark: SparkSession, database: str) -> None:
    create_queue(database, "out")
    rows = [("1",), ("not json",)]
    with pytest.raises(PySparkException, match=r"WriteRefused: row . of partition .*invalid input"):
        write(spark.createDataFrame(rows, "body string"), database)
    with pytest.raises(PySparkException, match='QueueMissing: queue "nowhere" not found'):
        write(spark.createDataFrame([("1",)], "body string"), database, "nowhere")
    assert read_bodies(database) == []
    assert count_staged(database) == 0


def test_named_write_is_published_once(spark: SparkSession, database: str) -> None:
    create_queue(database, "out")
    frame = spark.createDataFrame([("1",), ("2",)], "body string")
    write(frame, database, runId="monday")
    write(frame, database, runId="monday")
    assert read_bodies(database) == [1, 2]
    write(frame, database, runId="tuesday")
    assert read_bodies(database) == [1, 1, 2, 2]
    # Under a name that is used already, other rows would be lost without a word.
    create_queue(database, "other")
    with pytest.raises(PySparkException, match='run "monday" was published to queue "out" before'):
        write(frame, database, "other", runId="monday")
    with pytest.raises(PySparkException, match=r"pushed 2 messages .* before, and now has 1"):
        write(frame.limit(1), database, runId="monday")
    assert (read_bodies(database), read_bodies(database, "other")) == ([1, 1, 2, 2], [])
    assert count_staged(database) == 0


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("1 as n", "column body not found"),
        ("'1' as body, 2 as nothing", "a message has no column 'nothing'"),
        ("1.5 as body", "the column body cannot be decimal"),
        ("'1' as body, 'high' as priority", "the column priority cannot be string"),
    ],
)
def test_invalid_rows_are_refused(
    spark: SparkSession, database: str, columns: str, message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        write(spark.sql(f"select {columns}"), database)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"body": [None]}, "its body is null"),
        ({"body": [{"n": math.nan}]}, "its body is not JSON: Out of range float"),
        ({"body": [{"n": math.inf, "d": Decimal(1)}]}, "its body is not JSON: it has inf"),
        ({"priority": [-1]}, "its priority is -1: give a whole number from 0 to 32767"),
        ({"priority": [32768]}, "its priority is 32768"),
        ({"priority": [1.5]}, r"its priority is 1\.5"),
        ({"priority": [math.nan]}, "its priority is nan"),
        ({"headers": ["[1]"]}, r"its headers are '\[1\]': give an object"),
        ({"delay": [-1]}, "its delay is -1: give 0 to 315360000 seconds"),
        ({"delay": [timedelta(seconds=-1)]}, "its delay is -1 day"),
        ({"delay": [math.inf]}, "its delay is inf"),
        ({"partition": ["p" * 5000]}, r"its partition is 'ppp.*\(5000 characters\): at most 255"),
        ({"key": [""]}, "its key is '': give 1 to 512"),
    ],
)
def test_invalid_row_is_named(columns: dict[str, list[Any]], problem: str) -> None:
    (name,) = columns
    good = {"body": {"n": 1.0} if isinstance(columns.get("body", [""])[0], dict) else "1"}
    rows = {"body": ["1"] * 2} | {name: [good.get(name), *columns[name]]}
    with pytest.raises(WriteRefused, match=f"row 12 of partition 3 cannot .*: {problem}"):
        convert(pa.RecordBatch.from_pydict(rows), attempt="a", first=10, task=3)


def test_row_refused_by_the_database_is_named(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what is no JSON, the row; of what the queue does not take, why; and a queue that has gone."""
    create_queue(database, "out", max_bytes=100)
    task = SimpleNamespace(partitionId=lambda: 3)
    monkeypatch.setattr(sink, "_find_task", lambda: task)
    options = WriteOptions(dsn=database, queue="out", run_id="r")

    def stage(*bodies: str) -> sink.Staged:
        writer = sink.BatchWriter(options)
        return writer.write(iter([pa.RecordBatch.from_pydict({"body": bodies})]))

    with pytest.raises(WriteRefused, match=r"(?m)row 2 of partition 3 cannot .* type json$"):
        stage("1", "not json")
    with pytest.raises(WriteRefused, match=r"(?m)row 1 of partition 3 cannot .* 0x00$"):
        stage("1\0")
    writer = sink.BatchWriter(options)
    with pytest.raises(
        WriteRefused, match=r'^nothing was pushed: message 0 is 102 bytes, queue "out"'
    ):
        writer.commit([stage(f'"{"x" * 100}"')])
    run(database, "select laneway.delete_queue('out', true)")
    with pytest.raises(QueueMissing, match=r'(?m)^nothing was pushed: queue "out" does not exist$'):
        writer.commit([stage("1")])
    assert read_bodies(database) == []


def test_numbers_keep_their_digits() -> None:
    digits = "12345678901234567890123456789012345.678"
    row = {"n": Decimal(digits), "at": date(2026, 1, 2), "list": [{"n": Decimal("0.100")}]}
    batch = pa.RecordBatch.from_pydict({"body": [row], "priority": [Decimal(7)], "delay": [0.5]})
    (staged,) = convert(batch, attempt="a", first=0, task=0).to_pylist()
    assert staged["body"] == f'{{"n":{digits},"at":"2026-01-02","list":[{{"n":0.100}}]}}'
    assert (staged["priority"], staged["delay"]) == (7, 0.5)


def test_only_committed_task_attempts_are_published(database: str) -> None:
    create_queue(database, "out")
    for attempt, count in (("r/0/0/a", 3), ("r/0/0/b", 3), ("r/0/1/c", 2)):
        run(
            database,
            "insert into laneway.staged (attempt, place, body)"
            " select $1, n, to_json(n) from generate_series(0, $2 - 1) n",
            attempt,
            count,
        )
    publish = "select laneway.publish_staged('r', 0, 'out', $1, $2) as n"
    with pytest.raises(asyncpg.PostgresError, match="only 3 of 4 rows"):
        run(database, publish, ["r/0/0/b"], [4])
    assert run(database, publish, ["r/0/0/b", "r/0/1/c"], [3, 2])[0]["n"] == 5
    assert read_bodies(database) == [0, 0, 1, 1, 2]
    assert run(database, publish, ["r/0/0/b", "r/0/1/c"], [3, 2])[0]["n"] is None
    assert len(read_bodies(database)) == 5
    assert count_staged(database) == 0
    create_queue(database, "other")
    with pytest.raises(asyncpg.PostgresError, match='run "r" was published to queue "out" before'):
        run(database, "select laneway.publish_staged('r', 0, 'other', array['r/0/0/b'], array[3])")


def test_a_killed_driver_neither_loses_nor_doubles(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    """It dies when all is staged and its publishing is under way; another takes the checkpoint up."""
    from tests.spark.copier import copy_stream  # noqa: PLC0415 - also a program of its own

    create_queue(database, "out")
    source = create_queue(database, "in")
    push(database, source, list(range(100)))

    async def kill_while_publishing() -> None:
        connection = await asyncpg.connect(database)
        held = connection.transaction()
        await held.start()
        await connection.execute("lock table laneway.published in exclusive mode")
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        driver = subprocess.Popen(
            [sys.executable, str(COPIER), database, str(tmp_path)],
            env=environment,
            start_new_session=True,
        )
        try:
            while not await connection.fetchval(
                "select exists (select from pg_locks where not granted"
                " and relation = 'laneway.published'::regclass)"
            ):
                assert driver.poll() is None, "the driver ended by itself"
                await asyncio.sleep(0.05)
            assert await connection.fetchval("select count(*) from laneway.staged") == 100
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
            await held.rollback()
            await connection.close()

    asyncio.run(kill_while_publishing())
    push(database, source, [100, 101])
    copy_stream(spark, database, str(tmp_path))
    assert read_bodies(database) == list(range(102))
    assert count_staged(database) == 0

    # A driver that dies between its publishing and its own record of that repeats the epoch.
    commits = sorted(
        (tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda at: int(at.name)
    )
    commits[-1].unlink()
    for checksum in (tmp_path / "checkpoint" / "commits").glob(".*.crc"):
        checksum.unlink()
    copy_stream(spark, database, str(tmp_path))
    assert read_bodies(database) == list(range(102))
