"""Anomalies by baseline: deviations from the median of the same hour in earlier weeks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from laneway.lake.pipelines.anomalies import COLUMNS
from laneway.lake.pipelines.bronze import day_of
from laneway.lake.pipelines.gold import find_opening, sum_backlog

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True)
class Baseline:
    """score: how many deviations from the median make an anomaly. weeks: how far to look back.

    samples: how many hours of earlier weeks there must be to say what is usual. stray: a deviation
    counts as at least this share of the median, so that a steady queue may move a little.
    """

    score: float = 6.0
    weeks: int = 8
    samples: int = 3
    stray: float = 0.1


DEFAULTS = Baseline()

# The values compared, the smallest deviation that counts, and the text.
_MEASURES = {
    "enqueued": (5.0, "messages enqueued in an hour"),
    "acked": (5.0, "messages acknowledged in an hour"),
    "dead": (1.0, "dead letters in an hour"),
    "retried": (2.0, "retries in an hour"),
    "backlog": (10.0, "messages left at the end of an hour"),
    "wait_p95": (0.5, "s until 95 of 100 messages were claimed"),
    "work_p95": (0.5, "s until 95 of 100 messages were done"),
}
# Half of a normal distribution lies within 1 / 1.4826 standard deviations.
_NORMAL = 1.4826
_HOUR = 3600


def find_unusual(
    hours: DataFrame, *, until: datetime, since: datetime | None = None, rule: Baseline = DEFAULTS
) -> DataFrame:
    """Return the hours of a queue and group that deviate from the same hours of earlier weeks.

    hours: traffic by the hour. until: the end of the last whole hour. An hour without a row had no
    traffic, from the queue's first to its last, and counts as such.
    """
    hour_of_week = (F.unix_timestamp("at") / _HOUR).cast("long") % (7 * 24)
    told = _melt(_fill(_sum_up(hours), until)).withColumn("hour_of_week", hour_of_week)
    now = told if since is None else told.where(F.col("at") >= F.lit(since))
    earlier = told.select(
        "queue",
        "group",
        "measure",
        "hour_of_week",
        F.col("at").alias("then"),
        F.col("value").alias("usual"),
    )
    apart = F.unix_timestamp("at") - F.unix_timestamp("then")
    week = 7 * 24 * _HOUR
    pairs = now.join(earlier, ["queue", "group", "measure", "hour_of_week"]).where(
        (apart > 0) & (apart <= rule.weeks * week)
    )
    key = ("queue", "group", "measure", "at")
    middle = pairs.groupBy(*key).agg(
        F.first("value").alias("value"),
        F.median("usual").alias("median"),
        F.collect_list("usual").alias("all"),
    )
    away = F.transform("all", lambda usual: F.abs(usual - F.col("median")))
    strays = (
        middle.where(F.size("all") >= rule.samples)
        .withColumn("each", F.explode(away))
        .groupBy(*key)
        .agg(
            F.first("value").alias("value"),
            F.first("median").alias("median"),
            F.median("each").alias("mad"),
        )
    )
    return _report(strays, rule)


def _sum_up(hours: DataFrame) -> DataFrame:
    counts = ("enqueued", "acked", "dead", "retried")
    slowest = ("wait_p95", "work_p95")
    whole = hours.where("grain = 'hour'")
    key = ["queue", "group", "at"]
    # The first row of an hour shows the backlog before it.
    backlog = sum_backlog(whole, find_opening(whole.where("false")))
    return (
        whole.groupBy(*key)
        .agg(
            *[F.sum(name).alias(name) for name in counts],
            *[F.max(name).alias(name) for name in slowest],
        )
        .join(backlog, key)
    )


def _fill(hours: DataFrame, until: datetime) -> DataFrame:
    """Add rows for hours without traffic; their backlog is that of the hour before."""
    last = F.lit(until) - F.expr("interval 1 hour")
    grid = (
        hours.groupBy("queue", "group")
        .agg(F.min("at").alias("from"))
        .where(F.col("from") <= last)
        .select(
            "queue",
            "group",
            F.explode(F.sequence("from", last, F.expr("interval 1 hour"))).alias("at"),
        )
    )
    return grid.join(hours, ["queue", "group", "at"], "left").fillna(
        0, ["enqueued", "acked", "dead", "retried"]
    )


def _melt(hours: DataFrame) -> DataFrame:
    return hours.unpivot(
        ["queue", "group", "at"],
        [F.col(name).cast("double").alias(name) for name in _MEASURES],
        "measure",
        "value",
    ).where("value is not null")


def _report(strays: DataFrame, rule: Baseline) -> DataFrame:
    least = _choose({name: F.lit(floor) for name, (floor, _) in _MEASURES.items()})
    words = _choose({name: F.lit(text) for name, (_, text) in _MEASURES.items()})
    deviation = F.greatest(F.col("mad") * _NORMAL, F.abs("median") * rule.stray, least)
    score = (F.col("value") - F.col("median")) / deviation
    return (
        strays.withColumn("score", score)
        .where(F.abs("score") >= rule.score)
        .withColumn("until", F.col("at") + F.expr("interval 1 hour"))
        .withColumn("type", F.concat(F.lit("unusual_"), "measure"))
        .withColumn("severity", F.lit("warning"))
        .withColumn("consumer", F.lit(None).cast("string"))
        .withColumn("messages", F.lit(None).cast("long"))
        .withColumn("threshold", F.col("median") + F.signum("score") * rule.score * deviation)
        .withColumn("actual", F.col("value"))
        .withColumn(
            "description",
            F.concat(
                F.format_number("value", 1),
                F.lit(" "),
                words,
                F.lit(", usual at this hour of the week: "),
                F.format_number("median", 1),
            ),
        )
        .withColumn("day", day_of(F.col("at")))
        .select(*COLUMNS)
    )


def _choose(values: dict[str, Column]) -> Column:
    chosen = F.when(F.lit(False), next(iter(values.values())))  # noqa: FBT003 - a column
    for name, value in values.items():
        chosen = chosen.when(F.col("measure") == name, value)
    return chosen
