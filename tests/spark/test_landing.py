"""Landing from a real broker: each pass continues where the last one ended."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions

from laneway.lake import refinement
from laneway.lake.errors import LakeBroken, LakeBusy
from laneway.lake.ingestion import land_events, land_messages
from laneway.lake.job import run_once
from laneway.lake.store import lock_lake
from laneway.lake.tables import open_lake
from tests.spark.broker import create_queue, push, rotate, run, settle_events

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from laneway.lake.tables import Lake


def claim(dsn: str, queue: str, count: int, consumer: str = "ada") -> list[Any]:
    return run(
        dsn,
        "select c.* from laneway.consumer_group g join laneway.queue q using (queue_id)"
        " cross join lateral laneway.claim_many(g.group_id, array[$2::int], null, array[$3::text]) c"
        " where q.name = $1 and g.name = 'default'",
        queue,
        count,
        consumer,
    )


def ack(dsn: str, claimed: list[Any]) -> None:
    run(
        dsn,
        "select laneway.ack_many($1::uuid[], $2::int[], $3::bigint[], $3::bigint[])",
        [row["token"] for row in claimed],
        [row["lane_id"] for row in claimed],
        [row["seq"] for row in claimed],
    )


def age(dsn: str, days: int) -> str:
    """Let everything have happened about noon some days before, and return that day."""
    now = datetime.now(UTC)
    noon = now.replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=days)
    shift = f"interval '{(now - noon).total_seconds()} seconds'"
    run(dsn, f"update laneway.message set created_at = created_at - {shift}")
    run(dsn, f"update laneway.event set at = at - {shift}, since = since - {shift}")
    return noon.date().isoformat()


def list_silver(lake: Lake) -> list[tuple[Any, ...]]:
    rows = (
        lake.silver.read()
        .select("queue", "seq", "outcome", "attempts", "consumer", "day")
        .collect()
    )
    return sorted(tuple(row) for row in rows)


def compare(lake: Lake, fresh: Lake) -> None:
    for name in ("messages", "events", "silver", "traffic", "consumers"):
        one, other = (list_rows(getattr(each, name).read()) for each in (lake, fresh))
        assert one == other, name


def list_rows(table: DataFrame) -> list[str]:
    """Return the rows as text: maps cannot be compared otherwise."""
    columns = sorted(table.columns)
    rows = table.select(functions.to_json(functions.struct(*columns))).collect()
    return sorted(row[0] for row in rows)


def test_several_passes_equal_one_pass(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """Late events change days long past, and a pass in parts makes the same lake as one whole."""
    mail = create_queue(database, "mail", lease="1 hour")
    bills = create_queue(database, "bills 7/8")
    push(database, mail, [1, 2, 3])
    push(database, bills, [1], partition="x")
    first = claim(database, "mail", 2)
    ack(database, first[:1])
    old = age(database, 2)
    settle_events(database)
    lake = open_lake(spark, tmp_path / "lake")
    now = datetime.now(UTC) + timedelta(hours=1)
    done = run_once(spark, lake, database, now=now)
    assert (done.messages, done.days) == (4, 1)
    assert list_silver(lake) == [
        ("bills 7/8", 1, "queued", 0, None, old),
        ("mail", 1, "acked", 1, "ada", old),
        ("mail", 2, "processing", 1, "ada", old),
        ("mail", 3, "queued", 0, None, old),
    ]
    rotate(database)
    ack(database, first[1:])
    push(database, mail, [4, 5], partition="new")
    settle_events(database)
    done = run_once(spark, lake, database, at_once=2, now=now)
    assert done.messages == 2
    assert [row[2] for row in list_silver(lake)].count("acked") == 2
    settle_events(database)
    assert run_once(spark, lake, database, now=now).messages == 0
    fresh = open_lake(spark, tmp_path / "fresh")
    run_once(spark, fresh, database, now=now)
    compare(lake, fresh)
    history = run(
        database,
        "select sum(enqueued)::int as enqueued, sum(acked)::int as acked, count(*)::int as n"
        " from laneway.history_traffic where grain = 'hour'",
    )[0]
    assert (history["enqueued"], history["acked"]) == (6, 2)
    assert history["n"] == fresh.traffic.read().where("grain = 'hour'").count()
    run(database, "update laneway.policy set history_retention = '1 day'")
    settle_events(database)
    run_once(spark, lake, database, now=now)
    kept = run(
        database, "select sum(enqueued)::int as n from laneway.history_traffic where grain = 'hour'"
    )
    assert kept[0]["n"] == 2


def test_failed_pass_is_repaired_by_the_next(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail = create_queue(database, "mail")
    push(database, mail, [1, 2])
    ack(database, claim(database, "mail", 1))
    settle_events(database)
    lake = open_lake(spark, tmp_path / "lake")
    with monkeypatch.context() as patch:
        patch.setattr("laneway.lake.ingestion._extend", fail)
        with pytest.raises(ZeroDivisionError):
            run_once(spark, lake, database)
    with monkeypatch.context() as patch:
        patch.setattr(refinement, "make_traffic", fail)
        with pytest.raises(ZeroDivisionError):
            run_once(spark, lake, database)
    left = lake.folder / "messages" / "day=2000-01-01" / "queue=mail" / "left.parquet"
    left.parent.mkdir(parents=True)
    left.write_text("half of something")
    run_once(spark, lake, database)
    assert not left.exists()
    assert [row[2] for row in list_silver(lake)] == ["acked", "queued"]
    assert lake.traffic.read().where("grain = 'hour'").agg({"acked": "sum"}).collect()[0][0] == 1


def fail(*_arguments: Any, **_more: Any) -> Any:
    raise ZeroDivisionError


def test_deletions_and_seeks_appear_in_silver(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    """The broker's own deletions and seeks, with the messages they met already in the lake."""
    mail = create_queue(database, "mail", lease="1 hour")
    for number in range(1, 9):
        push(database, mail, [number])
    ack(database, claim(database, "mail", 5))
    lake = open_lake(spark, tmp_path / "lake")
    acked = dict.fromkeys(range(1, 6), "acked")
    assert land_outcomes(spark, lake, database) == acked | dict.fromkeys((6, 7, 8), "queued")
    run(
        database,
        "select d.* from laneway.message m cross join laneway.consumer_group g"
        " cross join lateral laneway.delete_between(g.group_id, m.created_at, m.created_at) d where m.seq = 7",
    )
    seek(database, "seq", 4)
    again = {1: "acked", 2: "acked", 3: "acked", 7: "removed"}
    waiting = (4, 5, 6, 8)
    assert land_outcomes(spark, lake, database) == again | dict.fromkeys(waiting, "queued")
    assert [row["seq"] for row in claim(database, "mail", 10)] == list(waiting)
    seek(database, "latest")
    assert land_outcomes(spark, lake, database) == again | dict.fromkeys(waiting, "skipped")
    assert claim(database, "mail", 10) == []


def seek(dsn: str, to: str, seq: int | None = None) -> None:
    run(
        dsn,
        "select laneway.seek(g.group_id, $1, p_seq => $2) from laneway.consumer_group g",
        to,
        seq,
    )


def land_outcomes(spark: SparkSession, lake: Lake, dsn: str) -> dict[int, str]:
    settle_events(dsn)
    for land in (land_events, land_messages):
        land(spark, lake, dsn, at_once=100, accept_loss=False, tell=lambda _: None)
    refinement.refine_silver(lake)
    return {row[1]: row[2] for row in list_silver(lake)}


def test_small_files_are_compacted(spark: SparkSession, database: str, tmp_path: Path) -> None:
    mail = create_queue(database, "mail")
    lake = open_lake(spark, tmp_path / "lake")
    push(database, mail, list(range(5)))
    land_messages(spark, lake, database, at_once=1, accept_loss=False, tell=lambda _: None)
    assert len(lake.messages.load().files) == 5
    settle_events(database)
    run_once(spark, lake, database)
    assert len(lake.messages.load().files) == 1
    assert sorted(json.loads(row.body) for row in lake.messages.read().collect()) == list(range(5))
    settle_events(database)
    done = run_once(spark, lake, database)
    assert (done.messages, done.days) == (0, 0)


def test_broken_files_are_named(spark: SparkSession, database: str, tmp_path: Path) -> None:
    push(database, create_queue(database, "mail"), [1])
    settle_events(database)
    lake = open_lake(spark, tmp_path / "lake")
    run_once(spark, lake, database)
    path = lake.folder / "messages" / lake.messages.load().files[0].path
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with pytest.raises(LakeBroken, match=rf"{path.name} .* is corrupt"):
        lake.messages.read()
    path.unlink()
    with pytest.raises(LakeBroken, match=rf"{path.name} .* is missing"):
        lake.messages.read()
    path.write_bytes(whole)
    assert lake.messages.read().count() == 1
    record = max((lake.folder / "messages" / "_record").glob("*.json"))
    record.write_text("{")
    with pytest.raises(LakeBroken, match="cannot be read"):
        lake.messages.read()


def test_one_run_writes_at_a_time(spark: SparkSession, tmp_path: Path) -> None:
    lake = open_lake(spark, tmp_path)
    with lock_lake(tmp_path), pytest.raises(LakeBusy, match="another run is writing"):
        run_once(spark, lake, "postgresql://nowhere")
