"""A lake of an earlier version, with headers as a map of strings, is read and continued."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from laneway.lake.errors import VerificationFailed
from laneway.lake.ingestion import land_messages
from laneway.lake.job import run_once
from laneway.lake.offload import choose_history, offload, replay
from laneway.lake.tables import open_lake
from tests.spark.broker import create_queue, push, rotate, run, settle_events
from tests.spark.test_landing import ack, claim

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from laneway.lake.tables import Lake

HEADERS = {
    "sqs": {"attributes": {"n": {"DataType": "String", "StringValue": 'x"{'}}},
    "list": [1, {"a": None}],
    "n": "1",
    "text": '{not "json"',
    "yes": True,
    "none": None,
    'ä"\n': "ü\\",
}


def test_lake_of_an_earlier_version_is_continued(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    mail, bills = create_queue(database, "mail"), create_queue(database, "bills")
    create_queue(database, "again")
    push(database, mail, [1, 2], headers=[HEADERS, None])
    rotate(database)
    push(database, bills, [3])
    rotate(database)
    ack(database, claim(database, "mail", 10) + claim(database, "bills", 10))
    lake = open_lake(spark, tmp_path / "lake")
    land_messages(spark, lake, database, at_once=100, accept_loss=False, tell=lambda _: None)
    age_files(spark, lake, tmp_path)
    for number in (4, 5):
        push(database, mail, [number], headers=[{"n": number}])
        land_messages(spark, lake, database, at_once=100, accept_loss=False, tell=lambda _: None)
    assert lake.messages.compact(landed_until=9, files_at_most=1) == 2
    settle_events(database)
    assert run_once(spark, lake, database).days == 1

    assert sorted(file.form for file in lake.messages.load().files) == [1, 1, 2]
    found = {row.body: row.headers for row in lake.messages.read().collect()}
    assert len(found) == 5
    assert json.loads(found["1"]) == HEADERS
    assert (found["2"], found["3"], found["5"]) == (None, None, '{"n": 5}')
    # What cannot be compared as it was sent stays in PostgreSQL; what had no headers need not.
    first, second = offload(spark, lake, database, older_than=timedelta(0))
    assert isinstance(first.failure, VerificationFailed)
    assert "differ from the log's; nothing was dropped. The lake has messages that" in str(
        first.failure
    )
    assert (second.failure, second.dropped) == (None, True)
    rows = choose_history(lake, "mail", "seq = 1")
    assert replay(rows, database, to="again", run_id="r") == 1
    (replayed,) = run(
        database,
        "select m.headers from laneway.message m join laneway.lane l using (lane_id)"
        " join laneway.queue q using (queue_id) where q.name = 'again'",
    )
    assert json.loads(replayed["headers"]) == HEADERS
    rotate(database)
    fresh = open_lake(spark, tmp_path / "fresh")
    kept, _ = offload(spark, fresh, database, older_than=timedelta(0))
    assert (kept.segment, kept.dropped, kept.failure) == (first.segment, True, None)


def age_files(spark: SparkSession, lake: Lake, folder: Path) -> None:
    """Turn the files of messages into what they were once, and their record too."""
    place = lake.folder / "messages"
    record = max((place / "_record").glob("[0-9]*.json"))
    content: dict[str, Any] = json.loads(record.read_text())
    for number, file in enumerate(content["files"]):
        path = place / file["path"]
        draft = folder / f"draft-{number}"
        (
            spark.read.parquet(str(path))
            .selectExpr("* except (headers)", "from_json(headers, 'map<string,string>') as headers")
            .coalesce(1)
            .write.parquet(str(draft))
        )
        (made,) = draft.glob("*.parquet")
        made.replace(path)
        file["bytes"] = path.stat().st_size
        del file["form"]
    record.write_text(json.dumps(content))
