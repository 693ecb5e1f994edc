"""`laneway lake` in this process, with the Spark session of the other tests."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from laneway.cli.main import app
from laneway.lake import session
from laneway.lake.errors import SparkUnavailable
from laneway.lake.job import run_once
from laneway.lake.session import open_session
from laneway.lake.tables import open_lake
from tests.spark.broker import create_queue, push, rotate, run, settle_events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Call = Callable[..., tuple[int, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a name that Spark could take for a pattern."""
    return tmp_path / "my[lake] {x},y"


@pytest.fixture
def call(spark: SparkSession, database: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return the command: it answers its code, and what it prints there."""
    monkeypatch.setenv("DATABASE_URL", database)

    def find_session(*_: object, **__: object) -> SparkSession:
        # The command runs in a thread of its own, which would not find the sink.
        spark.createDataFrame([], "n int")
        return spark

    monkeypatch.setattr(session, "open_session", find_session)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    monkeypatch.setattr(spark.sparkContext, "setLogLevel", lambda _: None)

    def run_command(*arguments: str, lake: Path = folder) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["lake", *arguments, "--lake", str(lake)])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stderr if done.exit_code else done.stdout

    return run_command


def count(database: str, queue: str) -> int:
    rows = run(
        database,
        "select count(*) as n from laneway.message m join laneway.lane l using (lane_id)"
        " join laneway.queue q using (queue_id) where q.name = $1",
        queue,
    )
    return int(rows[0]["n"])


def test_lake_commands_replay_query_and_report_corruption(
    spark: SparkSession, database: str, folder: Path, tmp_path: Path, call: Call
) -> None:
    for name in ("mail", "bills", "again"):
        queue = create_queue(database, name)
        if name != "again":
            push(database, queue, [f"{n} " * 200 for n in range(6)])
    settle_events(database)
    assert run_once(spark, open_lake(spark, folder), database).days == 1

    first = ("replay", "--queue", "mail", "--where", "seq <= 2", "--run-id", "X1")
    assert call(*first, "--to", "again") == (0, '2 messages enqueued to "again" by replay X1\n')
    assert call(*first, "--to", "again") == (
        0,
        'nothing enqueued: replay X1 to "again" was already done\n',
    )
    code, text = call(*first, "--to", "bills")
    assert (code, 'was published to queue "again" before' in text) == (1, True)
    code, text = call("replay", "--queue", "mail", "--to", "again", "--run-id", "X1")
    assert (code, "pushed 2 messages" in text, "now has 6" in text) == (1, True, True)
    assert (count(database, "again"), count(database, "bills")) == (2, 6)
    code, text = call("replay", "--queue", "nosuch", "--dry-run", "--to", "again")
    assert (code, text) == (
        3,
        'laneway: the lake has no messages of queue "nosuch": it has bills, mail\n',
    )
    code, text = call("replay", "--queue", "mail", "--to", "nosuch", "--dry-run")
    assert (code, text) == (
        3,
        'laneway: queue "nosuch" not found. Create it with: laneway queue create nosuch\n',
    )
    code, text = call("replay", "--queue", "mail", "--where", "nothing > 1")
    assert (code, text.count("\n"), "nothing" in text) == (1, 1, True)

    code, text = call("sql", "select '[/x]' as a, '[red]b\\u001b[31m' as `[i]c`")
    assert code == 0
    assert "[/x]" in text
    assert "[red]b\\x1b[31m" in text
    assert "[i]c" in text
    code, text = call("sql", "select count(*) as n from messages", "--format", "json")
    assert (code, json.loads(text)) == (0, {"n": 12})
    for statement in (
        "drop table messages",
        "create table t (n int)",
        "select nothing from silver",
    ):
        code, text = call("sql", statement)
        assert (code, text.count("\n")) == (1, 1), text
        assert text.startswith("laneway: the query failed: [")

    assert call("report", "--output", str(tmp_path / "x.html"))[0] == 0
    corrupt(folder)
    rotate(database)
    corrupted = f"the lake's file {folder}/messages/day="
    for command in (
        ("replay", "--queue", "mail", "--to", "again"),
        ("sql", "select sum(length(body)) from messages"),
    ):
        code, text = call(*command)
        error = text.splitlines()[-1]
        assert code == 1
        assert error.startswith(f"laneway: {corrupted}")
        assert error.endswith(".parquet is corrupt. Restore it")
    code, text = call("offload", "--older-than", "0m")
    *_, reason, last = text.splitlines()
    assert (code, last) == (1, "laneway: 1 of 1 segments could not be offloaded")
    assert re.fullmatch(
        rf"laneway: segment \d+ stays in PostgreSQL: {re.escape(corrupted)}.*", reason
    )


def corrupt(folder: Path) -> None:
    """Turn bytes around in the pages of every file of messages; size and footer stay."""
    for path in (folder / "messages").glob("day=*/queue=*/*.parquet"):
        content = bytearray(path.read_bytes())
        end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        content[4:end] = bytes(255 - byte for byte in content[4:end])
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("report", "--since", "99999999999w"), 2, "is too long: use 36500d at most"),
        (("report", "--since", "999999d"), 2, "is too long"),
        (("report", "--output", "/nonexistent/x.html"), 2, "cannot write"),
        (("sql", "select 1", "--format", "xml"), 2, "xml"),
        (("replay", "--queue", "a", "--run-id", "a/b"), 2, "must not contain a slash"),
        (("report",), 3, "no lake found in"),
        (("sql", "select 1"), 3, "no lake found in"),
        (("replay", "--queue", "a"), 3, "no lake found in"),
    ],
)
def test_invalid_call_is_refused_before_spark_starts(
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    monkeypatch.setattr(session, "open_session", lambda *_, **__: pytest.fail("Spark was started"))
    found, text = call(*arguments)
    assert found == code
    assert message in " ".join(text.split())


def test_invalid_master_is_reported(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java says it: where Spark runs already, by another call that it refuses."""
    java = spark._jvm
    assert java is not None
    monkeypatch.setattr(
        SparkSession.Builder, "getOrCreate", lambda _: java.java.util.ArrayList().get(7)
    )
    with pytest.raises(
        SparkUnavailable, match=r"^Spark failed to start on local: java\.lang\.[^\n]*\n?"
    ):
        open_session("local")
    with pytest.raises(SparkUnavailable, match="invalid Spark master 'bogus': use yarn"):
        open_session("bogus")
