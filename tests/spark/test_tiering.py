"""Offloading drops only what the lake has, and replay pushes once."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from laneway.lake.errors import (
    DatabaseFailed,
    LakeBroken,
    LakeForeign,
    OptionInvalid,
    QueueMissing,
    VerificationFailed,
    WriteRefused,
)
from laneway.lake.ingestion import land_messages
from laneway.lake.job import run_once
from laneway.lake.offload import choose_history, offload, replay
from laneway.lake.queries import ask_lake
from laneway.lake.report import make_report
from laneway.lake.tables import open_lake
from tests.spark.broker import create_queue, push, rotate, run, settle_events
from tests.spark.test_landing import ack, claim

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NOW = timedelta(0)


def list_bodies(dsn: str, queue: str) -> list[Any]:
    rows = run(
        dsn,
        "select m.body from laneway.message m join laneway.lane l using (lane_id)"
        " join laneway.queue q using (queue_id) where q.name = $1",
        queue,
    )
    return sorted(json.loads(row["body"]) for row in rows)


def count_segments(dsn: str) -> int:
    return len(run(dsn, "select distinct segment from laneway.message"))


def test_offload_drops_what_the_lake_has(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    mail, bills = create_queue(database, "mail"), create_queue(database, "bills")
    push(database, mail, [1, "ä|b", {"n": None}], headers=[None, {"b": "2", "a": "ü"}, {}])
    push(database, mail, [4], partition="x", keys=["k"])
    push(database, bills, [5])
    ack(database, claim(database, "mail", 10) + claim(database, "bills", 10))
    rotate(database)
    push(database, mail, [6])
    lake = open_lake(spark, tmp_path / "lake")
    assert offload(spark, lake, database, older_than=timedelta(hours=1)) == []
    (done,) = offload(spark, lake, database, older_than=NOW)
    assert (done.messages, done.dropped) == (5, True)
    assert list_bodies(database, "mail") == [6]
    assert lake.messages.read().count() == 6
    # The stream of landings goes on behind what was dropped.
    push(database, mail, [7])
    settle_events(database)
    assert run_once(spark, lake, database).messages == 1
    # Lanes and seqs of another database would be taken for those of this one.
    run(database, "update laneway.identity set id = gen_random_uuid()")
    with pytest.raises(LakeForeign, match="belongs to another database"):
        run_once(spark, lake, database)
    rotate(database)
    with pytest.raises(LakeForeign, match="belongs to another database"):
        offload(spark, lake, database, older_than=NOW)


def test_unsettled_or_unverified_segments_stay(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    mail = create_queue(database, "mail")
    push(database, mail, [1, 2])
    rotate(database)
    lake = open_lake(spark, tmp_path / "lake")
    (done,) = offload(spark, lake, database, older_than=NOW)
    assert not done.dropped
    assert list_bodies(database, "mail") == [1, 2]
    ack(database, claim(database, "mail", 10))
    # A change in the log after it was landed is found, by content and by number.
    run(database, "update laneway.message set body = '9' where seq = 2")
    (done,) = offload(spark, lake, database, older_than=NOW)
    assert isinstance(done.failure, VerificationFailed)
    assert re.search(r"lane .* differ from the log's; nothing was dropped", str(done.failure))
    run(database, "update laneway.message set body = '2' where seq = 2")
    segment = run(database, "select min(segment) as s from laneway.message")[0]["s"]
    with pytest.raises(Exception, match="they were compared up to 1"):
        run(
            database,
            "select laneway.drop_offloaded($1, array[l.lane_id], array[1::bigint]) from laneway.lane l",
            segment,
        )
    assert list_bodies(database, "mail") == [1, 2]
    for path in (lake.folder / "messages").glob("day=*/queue=*/*.parquet"):
        path.unlink()
    (done,) = offload(spark, lake, database, older_than=NOW)
    assert isinstance(done.failure, LakeBroken)
    assert list_bodies(database, "mail") == [1, 2]


def test_a_segment_that_fails_does_not_stop_the_others(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    """Neither one that the lake has otherwise, nor one that the database refuses to drop."""
    for number in range(4):
        queue = create_queue(database, f"mail-{number}")
        push(database, queue, [number], headers=[{"sqs": {"attributes": {"n": number}}}])
        ack(database, claim(database, f"mail-{number}", 1))
        rotate(database)
    segments = [
        row["segment"]
        for row in run(database, "select distinct segment from laneway.message order by segment")
    ]
    lake = open_lake(spark, tmp_path / "lake")
    land_messages(spark, lake, database, at_once=100, accept_loss=False, tell=lambda _: None)
    run(
        database,
        """update laneway.message set headers = '{"sqs":{"attributes":{"n":0}}}' where segment = $1""",
        segments[0],
    )
    run(
        database,
        f"alter table laneway.offloaded add constraint stays check (segment <> {segments[2]})",
    )
    done = offload(spark, lake, database, older_than=NOW)
    assert [each.segment for each in done] == segments
    assert [each.dropped for each in done] == [False, True, False, True]
    assert [type(each.failure) for each in done] == [
        VerificationFailed,
        type(None),
        DatabaseFailed,
        type(None),
    ]
    assert 'violates check constraint "stays"' in str(done[2].failure)
    left = run(database, "select body from laneway.message order by segment")
    assert [row["body"] for row in left] == ["0", "2"]


def test_log_waits_for_the_lake_where_configured(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    mail = create_queue(database, "mail")
    push(database, mail, [1])
    push(database, create_queue(database, "brief", retention="0"), [2, 3])
    ack(database, claim(database, "mail", 1) + claim(database, "brief", 1))
    rotate(database)
    run(database, "update laneway.policy set retention = '0', wait_for_lake = true")
    assert run(database, "select laneway.retain()") == []
    assert (list_bodies(database, "mail"), list_bodies(database, "brief")) == ([1], [2, 3])
    lake = open_lake(spark, tmp_path / "lake")
    (done,) = offload(spark, lake, database, older_than=NOW)
    assert not done.dropped
    # What is in the lake may go, as far as it is settled.
    run(database, "select laneway.retain()")
    assert (list_bodies(database, "mail"), list_bodies(database, "brief")) == ([1], [3])
    ack(database, claim(database, "brief", 1))
    (done,) = offload(spark, lake, database, older_than=NOW)
    assert done.dropped
    assert count_segments(database) == 0


def test_replay_pushes_history_once(spark: SparkSession, database: str, tmp_path: Path) -> None:
    mail = create_queue(database, "mail")
    create_queue(database, "again")
    push(database, mail, list(range(10)), partition="p", keys=[f"k{n}" for n in range(10)])
    lake = open_lake(spark, tmp_path / "lake")
    settle_events(database)
    run_once(spark, lake, database)
    rows = choose_history(lake, "mail", "cast(body as int) >= 7")
    assert rows.count() == 3
    assert replay(rows, database, to="again", run_id="monday") == 3
    assert replay(rows, database, to="again", run_id="monday") is None
    with pytest.raises(WriteRefused, match='published to queue "again" before'):
        replay(rows, database, to="mail", run_id="monday")
    with pytest.raises(QueueMissing, match='queue "nowhere" not found'):
        replay(rows, database, to="nowhere", run_id="wednesday")
    assert list_bodies(database, "again") == [7, 8, 9]
    replay(rows, database, to="mail", run_id="tuesday")
    assert list_bodies(database, "mail") == sorted([*range(10), 7, 8, 9])
    with pytest.raises(OptionInvalid, match="invalid condition"):
        choose_history(lake, "mail", "nothing > 1")


def test_lake_is_queried_and_reported(spark: SparkSession, database: str, tmp_path: Path) -> None:
    mail = create_queue(database, "<mail>")
    push(database, mail, list(range(12)))
    ack(database, claim(database, "<mail>", 5, consumer="<ada>"))
    settle_events(database)
    lake = open_lake(spark, tmp_path / "lake")
    run_once(spark, lake, database)
    query = "select outcome, count(*) as n from silver group by outcome order by outcome"
    assert ask_lake(spark, lake, query, form="csv", limit=9) == "outcome,n\nacked,5\nqueued,7"
    assert ask_lake(spark, lake, "select 1 as one", form="json", limit=9) == '{"one": 1}'
    assert "acked" in ask_lake(spark, lake, query, form="table", limit=9)
    nested = "with one as (select 1 as n) select n from one order by n; \n"
    assert ask_lake(spark, lake, nested, form="json", limit=9) == '{"n": 1}'
    commented = "values (1), (2) -- the last line is a comment"
    assert ask_lake(spark, lake, commented, form="csv", limit=9) == "col1\n1\n2"
    for statement in ("create view v as select 1", "reset", "show tables", "select 1) (set x = 1"):
        with pytest.raises(OptionInvalid, match="queries only"):
            ask_lake(spark, lake, statement, form="csv", limit=9)
    # What messages say is neither markup nor an order to the terminal.
    evil = "select '[b]' || char(27) || ']0;pwned' as said"
    assert r"[b]\x1b]0;pwned" in ask_lake(spark, lake, evil, form="table", limit=9)
    with pytest.raises(OptionInvalid, match="the query failed"):
        ask_lake(spark, lake, "select nothing from nowhere", form="csv", limit=9)
    now = datetime.now(UTC) + timedelta(minutes=1)
    page = make_report(lake, timedelta(hours=6), now=now)
    seen = Page()
    seen.feed(page)
    assert seen.charts == [
        "Enqueued, by queue",
        "Throughput",
        "Wait",
        "Work",
        "Backlog",
        "Dead letters",
    ]
    assert seen.outside == []
    assert "<mail>" not in page.replace("&lt;mail&gt;", "")
    assert "bulk_enqueue" in page
    assert "&lt;ada&gt;" in page
    assert "nothing in this time" in make_report(
        lake, timedelta(days=7), now=now - timedelta(days=30)
    )


class Page(HTMLParser):
    """Which charts a page has, and what it would load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.charts: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "svg":
            self.charts.append(values.get("aria-label") or "")
        self.outside += [text for name, text in attrs if name in {"src", "href"} and text]


def test_missing_schema_is_reported(
    blank_database: str, tmp_path: Path, spark: SparkSession
) -> None:
    lake = open_lake(spark, tmp_path / "lake")
    with pytest.raises(DatabaseFailed, match="laneway admin install"):
        run_once(spark, lake, blank_database)
