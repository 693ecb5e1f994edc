"""Rules find the anomalies put into a history, and none in an ordinary one."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from laneway.lake.pipelines.anomalies import find_anomalies
from laneway.lake.pipelines.baseline import find_unusual
from tests.spark.recorded_history import History

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 3, 2, 12, 0, 0)  # noqa: DTZ001 - Spark's rows have none, and are UTC
WEEKS = 5
TRAFFIC = (
    "grain string, at timestamp, queue string, `group` string, type string, enqueued bigint,"
    " acked bigint, dead bigint, retried bigint, backlog bigint, wait_p95 double, work_p95 double"
)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def live_quietly(past: History, at: datetime) -> None:
    one = past.push(at, "mail")
    past.claim(at + timedelta(seconds=2), "default", one, "ada")
    past.settle(at + timedelta(seconds=4), "acked", "default", one)


def test_every_rule_finds_its_anomaly(spark: SparkSession) -> None:
    past = History()
    for hour in range(20):
        live_quietly(past, NOON - timedelta(hours=hour + 1))
    flash = past.push(after(0), "flash")
    past.claim(after(0.2), "default", flash, "ada")
    past.push(after(0), "large", size=6000)
    long = past.push(after(0), "long")
    past.claim(after(5), "default", long, "bob")
    past.settle(after(25), "acked", "default", long)
    past.settle(after(30), "ack_refused", "default", long)
    failing = past.push(after(0), "failing")
    for attempt in (1, 2):
        past.claim(after(10 * attempt), "default", failing, "bob")
        past.settle(after(10 * attempt + 2), "nacked", "default", failing)
    past.claim(after(30), "default", failing, "bob")
    past.settle(after(32), "dead", "default", failing, reason="over")
    zombie = past.push(after(0), "zombie")
    past.claim(after(5), "default", zombie, "bob")
    past.settle(
        after(200), "expired", "default", zombie, detail=json.dumps({"until": f"{after(35)}+00:00"})
    )
    for number in range(8):
        some = past.push(after(100 + number * 0.1), "burst", 9)
        past.claim(after(120 + number * 0.5), "default", some, "greedy")
    many = past.push(after(300), "bulk", 12)
    past.happen(after(310), "deleted_many", "default", many)
    past.happen(after(320), "moved", "default", many, detail='{"to": "dead"}')
    past.purge(after(400), "default", "bulk")
    found = {row.type: row for row in find_anomalies(*past.frames(spark)).collect()}
    expected = {
        "flash_message": ("flash", "warning", 0.5, 0.2, after(0.2)),
        "large_payload": ("large", "info", 5000, 6000, after(0)),
        "long_processing": ("long", "warning", 10, 20, after(25)),
        "lock_stolen": ("long", "critical", None, None, after(30)),
        "near_dlq": ("failing", "warning", 1, 1, after(22)),
        "dlq_movement": ("failing", "warning", 3, 3, after(32)),
        "zombie_message": ("zombie", "critical", 60, 165, after(200)),
        "burst_dequeue": ("burst", "warning", 50, 72, after(122.5)),
        "bulk_enqueue": ("bulk", "info", 10, 12, after(300)),
        "bulk_delete": ("bulk", "info", 10, 12, after(310)),
        "bulk_move": ("bulk", "info", 10, 12, after(320)),
        "queue_cleared": ("bulk", "warning", None, 5, after(400)),
    }
    assert found.keys() == expected.keys()
    for name, (queue, severity, threshold, actual, at) in expected.items():
        row = found[name]
        assert (row.queue, row.severity, row.threshold, row.at) == (queue, severity, threshold, at)
        assert row.actual == actual
        assert "{}" not in row.description
    assert found["dlq_movement"].description == "moved to the dead letters after 3 attempts"


def test_similar_events_are_one_anomaly(spark: SparkSession) -> None:
    past = History()
    for number in range(5):
        one = past.push(after(number), "mail")
        past.claim(after(number + 0.1 * (number + 1)), "default", one, "ada")
    (row,) = find_anomalies(*past.frames(spark)).collect()
    assert (row.type, row.messages, row.actual) == ("flash_message", 4, 0.1)
    assert (row.at, row.until) == (after(0.1), after(3.4))


def test_ordinary_week_has_no_anomalies(spark: SparkSession) -> None:
    past = History()
    for hour in range(7 * 24):
        live_quietly(past, NOON + timedelta(hours=hour))
    assert find_anomalies(*past.frames(spark)).collect() == []


def make_weeks(spark: SparkSession, change: Callable[[dict[str, Any]], None]) -> DataFrame:
    """Return weeks of a queue with its days and nights, a little different every hour."""
    random = History(7).random
    rows = []
    for hour in range(WEEKS * 7 * 24):
        at = NOON + timedelta(hours=hour)
        usual = 100 if 8 <= at.hour < 20 else 10
        row = {
            "grain": "hour",
            "at": at,
            "queue": "mail",
            "group": "default",
            "type": "",
            "enqueued": usual + random.randint(-4, 4),
            "acked": usual + random.randint(-4, 4),
            "dead": random.choice([0, 0, 1]),
            "retried": random.randint(0, 3),
            "backlog": random.randint(0, 9),
            "wait_p95": 1 + random.random() / 10,
            "work_p95": 2 + random.random() / 10,
        }
        change(row)
        rows.append(row)
    return spark.createDataFrame([tuple(row.values()) for row in rows], TRAFFIC)


END = NOON + timedelta(weeks=WEEKS)


def test_quiet_weeks_are_not_unusual(spark: SparkSession) -> None:
    weeks = make_weeks(spark, lambda _: None)
    assert find_unusual(weeks, until=END).collect() == []


def test_an_hour_that_stands_out_is_found(spark: SparkSession) -> None:
    flood, silence, slow = (END - timedelta(hours=hours) for hours in (2, 4, 20))

    def change(row: dict[str, Any]) -> None:
        row["enqueued"] *= 6 if row["at"] == flood else 1
        row["wait_p95"] *= 30 if row["at"] == slow else 1

    weeks = make_weeks(spark, change)
    rows = find_unusual(weeks.where(weeks.at != silence), until=END).collect()
    found = {(row.type, row.at): row for row in rows}
    assert found.keys() == {
        ("unusual_enqueued", flood),
        ("unusual_enqueued", silence),
        ("unusual_acked", silence),
        ("unusual_wait_p95", slow),
    }
    assert found["unusual_enqueued", flood].score > 6
    assert found["unusual_enqueued", silence].score < -6
    assert found["unusual_enqueued", silence].actual == 0
    assert "usual at this hour of the week" in found["unusual_enqueued", flood].description
    assert found["unusual_enqueued", flood].until == flood + timedelta(hours=1)
