"""Silver and gold compared with the same computed in plain Python."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions

from laneway.lake.pipelines.gold import find_opening, make_consumers, make_traffic, sum_backlog
from laneway.lake.pipelines.silver import make_silver
from tests.spark.recorded_history import Fate, make_days

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.recorded_history import History

GROUPS = {"mail": ("default", "audit"), "bills": ("default",)}


@pytest.fixture(scope="module")
def past() -> History:
    return make_days()


@pytest.fixture(scope="module")
def silver(spark: SparkSession, past: History) -> DataFrame:
    return make_silver(*past.frames(spark)).cache()


@pytest.fixture(scope="module")
def traffic(spark: SparkSession, silver: DataFrame, past: History) -> DataFrame:
    _, events = past.frames(spark)
    return make_traffic(silver, events, open_nothing(spark)).cache()


def test_silver_has_the_outcome_of_each_message(silver: DataFrame, past: History) -> None:
    rows = {(row.lane, row.seq, row.group): row for row in silver.collect()}
    assert len(rows) == sum(len(GROUPS[message["queue"]]) for message in past.messages)
    for message, group in each_pair(past):
        row = rows[message["lane"], message["seq"], group]
        fate = past.fates.get((message["lane"], message["seq"], group), Fate())
        assert row.outcome == fate.outcome
        assert row.enqueued_at == message["created_at"]
        assert row.first_claimed_at == (fate.claims[0] if fate.claims else None)
        assert row.settled_at == fate.settled_at
        assert row.attempts == len(fate.claims) - fate.releases
        assert row.retries == fate.retries
        assert row.consumer == fate.consumer
        assert row.reason == fate.reason
        assert row.wait == find_wait(message, fate)
        assert row.work == find_work(fate)
        assert row.day == message["created_at"].date().isoformat()


def test_purges_and_seeks_change_outcomes(spark: SparkSession) -> None:
    """Each meets what the ones before have left, and nothing that came or happened later."""
    past = make_days(seed=2)
    start = past.messages[0]["created_at"]
    late = start + timedelta(days=4)
    past.delete_between(
        late, "default", "mail", start + timedelta(hours=1), start + timedelta(hours=2)
    )
    past.seek(late + timedelta(hours=1), "default", "mail", "time", time=start + timedelta(hours=3))
    past.push(late + timedelta(hours=2), "mail", 3)
    past.seek(late + timedelta(hours=3), "default", "mail", "latest", partition="urgent")
    past.seek(late + timedelta(hours=4), "audit", "mail", "latest")
    past.seek(
        late + timedelta(hours=5),
        "audit",
        "mail",
        "earliest",
        kept_since=start + timedelta(hours=4),
    )
    past.purge(late + timedelta(hours=6), "audit", "mail")
    past.seek(late + timedelta(hours=7), "default", "bills", "seq", seq=5)
    rows = {
        (row.lane, row.seq, row.group): row for row in make_silver(*past.frames(spark)).collect()
    }
    outcomes = set()
    for message, group in each_pair(past):
        row = rows[message["lane"], message["seq"], group]
        fate = past.fates.get((message["lane"], message["seq"], group), Fate())
        assert (row.outcome, row.settled_at) == (fate.outcome, fate.settled_at), message["id"]
        outcomes.add(row.outcome)
    assert outcomes == {"acked", "dead", "queued", "removed", "skipped"}


def test_traffic_counts_messages(traffic: DataFrame, past: History) -> None:
    rows = {traffic_key(row): row for row in traffic.collect()}
    expected = count_traffic(past)
    assert rows.keys() == expected.keys()
    for key, want in expected.items():
        row = rows[key]
        for name, value in want.items():
            found = getattr(row, name)
            assert found == (value if value is None else pytest.approx(value)), (key, name)


def test_traffic_of_later_days_continues_the_backlog(
    spark: SparkSession, silver: DataFrame, traffic: DataFrame, past: History
) -> None:
    _, events = past.frames(spark)
    since = datetime(2026, 3, 3)  # noqa: DTZ001 - as Spark's rows
    before = traffic.where(traffic.day < "2026-03-03")
    later = make_traffic(silver, events, find_opening(before), since=since).collect()
    expected = traffic.where(traffic.day >= "2026-03-03").collect()
    assert later
    assert sorted(later, key=traffic_key) == sorted(expected, key=traffic_key)


def test_a_type_without_traffic_still_has_its_backlog(
    spark: SparkSession, traffic: DataFrame, past: History
) -> None:
    """What is left of a queue is what is left of all its types, at any hour."""
    hours = traffic.where("grain = 'hour'")
    day = "2026-03-03"
    opening = find_opening(
        hours.where(hours.day < day).withColumn("grain", functions.lit("minute"))
    )
    none = open_nothing(spark)
    for part, before in ((hours, none), (hours.where(hours.day >= day), opening)):
        rows = sum_backlog(part, before).collect()
        assert rows
        for row in rows:
            end = row.at + timedelta(hours=1)
            left = 0
            for message, group in each_pair(past):
                fate = past.fates.get((message["lane"], message["seq"], group), Fate())
                here = (message["queue"], group) == (row.queue, row.group)
                open_ = fate.settled_at is None or fate.settled_at >= end
                left += here and message["created_at"] < end and open_
            assert row.backlog == left, row


def test_consumers_are_counted_separately(
    spark: SparkSession, silver: DataFrame, past: History
) -> None:
    _, events = past.frames(spark)
    rows = make_consumers(silver, events).collect()
    found = {(*traffic_key(row), row.consumer): row for row in rows}
    wanted: dict[Any, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COUNTED, 0))
    for (*key, kind), count in past.counts.items():
        if key[5] is not None and NAMES.get(kind):
            wanted[tuple(key)][NAMES[kind]] += count
    assert found.keys() == wanted.keys()
    for key, counts in wanted.items():
        assert {name: getattr(found[key], name) for name in COUNTED} == counts
    works: dict[Any, list[float]] = defaultdict(list)
    for message, group in each_pair(past):
        fate = past.fates.get((message["lane"], message["seq"], group), Fate())
        work = find_work(fate)
        if work is not None and fate.settled_at is not None and fate.consumer is not None:
            start = fate.settled_at.replace(minute=0, second=0, microsecond=0)
            works[
                "hour", start, message["queue"], group, message["partition"], fate.consumer
            ].append(work)
    for key, values in works.items():
        if key in found:
            assert found[key].work_p95 == pytest.approx(percentile(values, 0.95))


COUNTED = ("claimed", "acked", "dead", "retried")
NAMES = {
    "claimed": "claimed",
    "acked": "acked",
    "dead": "dead",
    "timed_out": "dead",
    "nacked": "retried",
    "expired": "retried",
}


def count_traffic(past: History) -> dict[Any, dict[str, Any]]:
    found: dict[Any, dict[str, Any]] = defaultdict(
        lambda: (
            dict.fromkeys(("enqueued", "settled", "removed", *COUNTED), 0)
            | {"wait": [], "work": []}
        )
    )
    for grain in ("minute", "hour"):
        for message, group in each_pair(past):
            count_message(found, past, message, (grain, group))
    for (*key, kind), count in past.counts.items():
        if key[5] is None and kind in NAMES:
            found[tuple(key[:5])][NAMES[kind]] += count
    backlog: dict[Any, int] = defaultdict(int)
    for key in sorted(found):
        row = found[key]
        lane = (key[0], *key[2:])
        backlog[lane] += row["enqueued"] - row.pop("settled")
        ended = row["acked"] + row["dead"]
        row["backlog"] = backlog[lane]
        row["rate"] = ended / (60 if key[0] == "minute" else 3600)
        row["retry_rate"] = row["retried"] / row["claimed"] if row["claimed"] else None
        row["dead_rate"] = row["dead"] / ended if ended else None
        for name in ("wait", "work"):
            values = row.pop(name)
            for point in (50, 95, 99):
                row[f"{name}_p{point}"] = percentile(values, point / 100)
    return dict(found)


def count_message(
    found: dict[Any, dict[str, Any]], past: History, message: dict[str, Any], way: tuple[str, str]
) -> None:
    grain, group = way
    fate = past.fates.get((message["lane"], message["seq"], group), Fate())

    def place(at: datetime) -> dict[str, Any]:
        start = at.replace(second=0, microsecond=0)
        start = start if grain == "minute" else start.replace(minute=0)
        return found[grain, start, message["queue"], group, message["partition"]]

    place(message["created_at"])["enqueued"] += 1
    wait, work = find_wait(message, fate), find_work(fate)
    if wait is not None:
        place(fate.claims[0])["wait"].append(wait)
    if fate.settled_at is not None:
        place(fate.settled_at)["settled"] += 1
        place(fate.settled_at)["removed"] += fate.outcome == "removed"
    if fate.settled_at is not None and work is not None:
        place(fate.settled_at)["work"].append(work)


def each_pair(past: History) -> list[tuple[dict[str, Any], str]]:
    return [(message, group) for message in past.messages for group in GROUPS[message["queue"]]]


def find_wait(message: dict[str, Any], fate: Fate) -> float | None:
    if not fate.claims:
        return None
    created: datetime = message["created_at"]
    return (fate.claims[0] - created) / timedelta(seconds=1)


def find_work(fate: Fate) -> float | None:
    if fate.outcome not in {"acked", "dead"} or fate.settled_at is None:
        return None
    return (fate.settled_at - fate.claims[-1]) / timedelta(seconds=1)


def percentile(values: list[float], point: float) -> float | None:
    """Between two values, as far from the one to the other as the place between them."""
    if not values:
        return None
    ordered = sorted(values)
    place = point * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def traffic_key(row: Any) -> Any:
    return (row.grain, row.at, row.queue, row.group, row.type)


def open_nothing(spark: SparkSession) -> DataFrame:
    schema = "grain string, at timestamp, queue string, `group` string, type string, backlog bigint"
    return find_opening(spark.createDataFrame([], schema))
