"""Gold: traffic and consumers per minute and hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from laneway.lake.pipelines.bronze import day_of
from laneway.lake.pipelines.silver import SETTLED

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

GRAINS = {"minute": 60, "hour": 3600}

_KEY = ("at", "queue", "group", "type")
_LANE = ("queue", "group", "type")
_POINTS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_SETTLING = {
    "claimed": ("claimed",),
    "acked": ("acked",),
    "dead": ("dead", "timed_out"),
    "retried": ("nacked", "expired"),
}


def make_traffic(
    silver: DataFrame, events: DataFrame, opening: DataFrame, *, since: datetime | None = None
) -> DataFrame:
    """Return the traffic of each queue, group and type from a moment on.

    opening: the backlog there was before (queue, group, type, backlog). Percentiles are exact. A wait
    counts where a message was first claimed, work where it was settled, both in seconds.
    """
    minutes = _count(silver, "enqueued_at", since, F.count("*").alias("enqueued"))
    waits = _count(
        silver.where("wait is not null"),
        "first_claimed_at",
        since,
        F.collect_list("wait").alias("wait"),
    )
    settled = _count(
        silver.where(F.col("outcome").isin(*SETTLED)),
        "settled_at",
        since,
        F.count("*").alias("settled"),
        F.count_if(F.col("outcome").isin("removed", "archived", "skipped")).alias("removed"),
        F.collect_list("work").alias("work"),
    )
    happened = _count(_name_type(events), "at", since, *_sums())
    for part in (waits, settled, happened):
        minutes = minutes.join(part, list(_KEY), "full")
    counts = ("enqueued", "settled", "removed", *_SETTLING)
    rows = _add_hours(minutes.fillna(0, list(counts)), counts, ("wait", "work"))
    rows = _add_percentiles(rows.where(_busy(*counts)), "wait", "work")
    return _close(rows, opening).withColumn("day", day_of(F.col("at")))


def make_consumers(
    silver: DataFrame, events: DataFrame, *, since: datetime | None = None
) -> DataFrame:
    """Return the activity of each consumer from a moment on."""
    named = events.where("consumer is not null")
    happened = _count(_name_type(named), "at", since, *_sums(), extra=("consumer",))
    work = _count(
        silver.where("work is not null and consumer is not null"),
        "settled_at",
        since,
        F.collect_list("work").alias("work"),
        extra=("consumer",),
    )
    minutes = happened.join(work, [*_KEY, "consumer"], "full").fillna(0, list(_SETTLING))
    rows = _add_hours(minutes, tuple(_SETTLING), ("work",), extra=("consumer",))
    rows = _add_percentiles(rows.where(_busy(*_SETTLING)), "work")
    return rows.withColumn("rate", _rate(F.col("acked") + F.col("dead"))).withColumn(
        "day", day_of(F.col("at"))
    )


def find_opening(traffic: DataFrame) -> DataFrame:
    """Return the last known backlog of each queue, group and type."""
    return (
        traffic.where("grain = 'minute'")
        .groupBy("queue", "group", "type")
        .agg(F.max_by("backlog", "at").alias("backlog"))
    )


def sum_backlog(traffic: DataFrame, opening: DataFrame) -> DataFrame:
    """Return the backlog of a queue and group over all types, at each time that one of them has a row.

    traffic: of one grain. A type without a row then has what it had before.
    """
    by_type = Window.partitionBy(*_LANE).orderBy("at")
    so_far = Window.partitionBy("queue", "group").orderBy("at")
    before = opening.select(*_LANE, F.col("backlog").alias("opening"))
    at_first = F.sum("opening").alias("opening")
    began = before.groupBy("queue", "group").agg(at_first)
    started = F.coalesce(F.lag("backlog").over(by_type), F.col("opening"), F.lit(0))
    return (
        traffic.join(F.broadcast(before), list(_LANE), "left")
        .withColumn("change", F.col("backlog") - started)
        .groupBy("queue", "group", "at")
        .agg(F.sum("change").alias("change"))
        .join(F.broadcast(began), ["queue", "group"], "left")
        .select(
            "queue",
            "group",
            "at",
            (F.sum("change").over(so_far) + F.coalesce("opening", F.lit(0))).alias("backlog"),
        )
    )


def _close(rows: DataFrame, opening: DataFrame) -> DataFrame:
    """Add rates, and the backlog at the end of each interval."""
    so_far = (
        Window.partitionBy("grain", *_LANE).orderBy("at").rowsBetween(Window.unboundedPreceding, 0)
    )
    left = F.sum(F.col("enqueued") - F.col("settled")).over(so_far)
    before = opening.select(*_LANE, F.col("backlog").alias("opening"))
    ended = F.col("acked") + F.col("dead")
    return (
        rows.join(F.broadcast(before), list(_LANE), "left")
        .withColumn("backlog", left + F.coalesce("opening", F.lit(0)))
        .withColumn("rate", _rate(ended))
        .withColumn("retry_rate", _share(F.col("retried"), F.col("claimed")))
        .withColumn("dead_rate", _share(F.col("dead"), ended))
        .drop("opening", "settled")
    )


def _count(
    rows: DataFrame,
    moment: str,
    since: datetime | None,
    *values: Column,
    extra: tuple[str, ...] = (),
) -> DataFrame:
    """Aggregate by minute."""
    met = rows.where(F.col(moment).isNotNull())
    if since is not None:
        met = met.where(F.col(moment) >= F.lit(since))
    minute = F.date_trunc("minute", moment)
    return (
        met.withColumn("at_", minute).groupBy(F.col("at_").alias("at"), *_LANE, *extra).agg(*values)
    )


def _add_hours(
    minutes: DataFrame,
    counts: tuple[str, ...],
    values: tuple[str, ...],
    *,
    extra: tuple[str, ...] = (),
) -> DataFrame:
    """Add the hours that the minutes make up, from all their values."""
    hours = (
        minutes.withColumn("at_", F.date_trunc("hour", "at"))
        .groupBy(F.col("at_").alias("at"), *_LANE, *extra)
        .agg(
            *[F.sum(name).alias(name) for name in counts],
            *[F.flatten(F.collect_list(name)).alias(name) for name in values],
        )
    )
    parts = {"minute": minutes, "hour": hours}
    told = [part.withColumn("grain", F.lit(grain)) for grain, part in parts.items()]
    return told[0].unionByName(told[1])


def _add_percentiles(rows: DataFrame, *values: str) -> DataFrame:
    """Replace lists of values by their percentiles, interpolated between two values."""
    for name in values:
        rows = rows.withColumn(name, F.sort_array(name))
        last = F.size(name) - 1
        for suffix, point in _POINTS.items():
            place = last * point
            low = F.floor(place).cast("int")
            below, above = F.get(name, low), F.get(name, F.least(low + 1, last))
            rows = rows.withColumn(f"{name}_{suffix}", below + (above - below) * (place - low))
        rows = rows.drop(name)
    return rows


def _name_type(events: DataFrame) -> DataFrame:
    return events.where("`group` is not null and first_seq is not null").withColumnRenamed(
        "partition", "type"
    )


def _sums() -> list[Column]:
    run = F.col("last_seq") - F.col("first_seq") + 1
    return [
        F.coalesce(F.sum(F.when(F.col("kind").isin(*kinds), run)), F.lit(0)).alias(name)
        for name, kinds in _SETTLING.items()
    ]


def _busy(*counts: str) -> Column:
    busy = F.lit(False)  # noqa: FBT003 - a column
    for name in counts:
        busy = busy | (F.col(name) > 0)
    return busy


def _rate(messages: Column) -> Column:
    seconds = F.create_map(*[F.lit(each) for pair in GRAINS.items() for each in pair])
    return messages / seconds[F.col("grain")]


def _share(part: Column, whole: Column) -> Column:
    return F.when(whole > 0, part / whole)
