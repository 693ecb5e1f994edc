"""Other deployments of Spark: executors in processes, Spark Connect, and the command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from laneway.lake.tables import open_lake
from tests.spark.broker import create_queue, push, run, settle_events
from tests.spark.conftest import SMALL

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]

CLUSTER = """
import sys
from tests.spark.conftest import SMALL
from laneway.lake.session import open_session
from pyspark.sql import functions as F
dsn = sys.argv[1]
spark = open_session("local-cluster[2,1,1024]", settings=SMALL | {"spark.driver.memory": "512m",
    "spark.executor.memory": "512m", "spark.executorEnv.PYTHONPATH": sys.argv[2],
    "spark.executor.extraJavaOptions": SMALL["spark.driver.extraJavaOptions"]})
frame = spark.read.format("laneway").options(dsn=dsn, queue="in", rowsPerPartition=50).load()
hosts = frame.rdd.mapPartitions(lambda rows: [(__import__("os").getppid(), len(list(rows)))]).collect()
frame.select("body").write.format("laneway").mode("append").options(dsn=dsn, queue="out").save()
print("RESULT", len({pid for pid, _ in hosts}), sum(count for _, count in hosts))
spark.stop()
"""

CONNECT = """
import os, sys
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from tests.spark.conftest import SMALL
builder = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false")
for name, value in (SMALL | {"spark.driver.memory": "512m"}).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
frame = spark.read.format("laneway").options(dsn=sys.argv[1], queue="in").load()
print("RESULT", type(frame).__module__, frame.where("seq > 90").count())
frame.where("seq <= 3").select("body").write.format("laneway").mode("append").options(dsn=sys.argv[1], queue="out").save()
stream = spark.readStream.format("laneway").options(dsn=sys.argv[1], queue="in", maxMessagesPerTrigger=60).load()
query = (stream.where("seq > 95").select("body").writeStream.format("laneway").trigger(availableNow=True)
    .options(dsn=sys.argv[1], queue="out", checkpointLocation=sys.argv[2]).start())
query.awaitTermination()
spark.stop()
"""


def execute(program: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=ROOT,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert lines, done.stderr[-3000:]
    return lines[0].split()[1:]


def prepare(dsn: str) -> None:
    push(dsn, create_queue(dsn, "in"), list(range(100)))
    create_queue(dsn, "out")


def count_out(dsn: str) -> int:
    rows = run(
        dsn,
        "select count(*) as n from laneway.message m join laneway.lane l using (lane_id)"
        " join laneway.queue q using (queue_id) where q.name = 'out'",
    )
    return int(rows[0]["n"])


def test_executors_in_other_processes_read_and_write(database: str) -> None:
    prepare(database)
    processes, rows = execute(CLUSTER, database, str(ROOT / "src"))
    assert (int(processes), int(rows)) == (2, 100)
    assert count_out(database) == 100


def test_spark_connect_finds_the_source(database: str, tmp_path: Path) -> None:
    """For a batch, three messages of which are written; and for a stream, that of five."""
    prepare(database)
    module, rows = execute(CONNECT, database, str(tmp_path))
    assert module.startswith("pyspark.sql.connect")
    assert int(rows) == 10
    assert count_out(database) == 3 + 5


def test_the_command_runs_the_lake(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And another program finds what it landed."""
    push(database, create_queue(database, "mail"), [1, 2, 3])
    settle_events(database)
    monkeypatch.setenv("DATABASE_URL", database)

    command = [str(Path(sys.executable).with_name("laneway")), "lake", "run"]
    command += ["--lake", str(tmp_path / "lake"), "--master", "local[1]"]
    for name, value in (SMALL | {"spark.driver.memory": "512m"}).items():
        command += ["--conf", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "3 messages" in done.stdout
    assert open_lake(spark, tmp_path / "lake").messages.read().count() == 3
