"""What was remarkable: the rules of the live detectors, as far as history can decide them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from laneway.lake.pipelines.bronze import day_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMNS = (
    "day",
    "queue",
    "at",
    "until",
    "type",
    "severity",
    "group",
    "consumer",
    "messages",
    "threshold",
    "actual",
    "score",
    "description",
)
_KEY = ("queue", "type", "group", "consumer")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From where on something is remarkable; the live detectors have the same. Times in seconds."""

    flash_message: float = 0.5
    large_payload: int = 5000
    long_processing: float = 10.0
    near_dlq: int = 1
    zombie_factor: float = 2.0
    burst_count: int = 50
    burst_within: float = 5.0
    bulk_operation: int = 10


DEFAULTS = Thresholds()


def find_anomalies(
    messages: DataFrame, events: DataFrame, thresholds: Thresholds = DEFAULTS
) -> DataFrame:
    """Return a finding per rule, queue, group, consumer and hour: when first, how often, how bad.

    messages: those that the events are about; what left the lake is judged without them.
    """
    facts = messages.select(
        "lane",
        F.col("seq").alias("first_seq"),
        F.col("max_attempts"),
        F.col("lease"),
        F.col("created_at").alias("first_created"),
    )
    known = events.join(facts, ["lane", "first_seq"], "left")
    last = messages.select(
        "lane", F.col("seq").alias("last_seq"), F.col("created_at").alias("last_created")
    )
    found = _flash_message(known.join(last, ["lane", "last_seq"], "left"), thresholds)
    for part in (
        _large_payload(messages, thresholds),
        _long_processing(events, thresholds),
        _lock_stolen(events),
        _near_dlq(known, thresholds),
        _dlq_movement(known),
        _zombie_message(known, thresholds),
        _burst_dequeue(events, thresholds),
        _bulk(events, thresholds, "bulk_enqueue", ("pushed",), "enqueued"),
        _bulk(events, thresholds, "bulk_delete", ("deleted", "deleted_many"), "deleted"),
        _bulk(events, thresholds, "bulk_move", ("moved",), "moved"),
        _queue_cleared(events),
    ):
        found = found.unionByName(part)
    return _gather(found)


def _flash_message(events: DataFrame, limits: Thresholds) -> DataFrame:
    young = _seconds(F.col("at"), F.col("last_created"))
    return _find(
        events.where(F.col("kind") == "claimed").where(young < limits.flash_message),
        "flash_message",
        "warning",
        actual=F.greatest(young, F.lit(0.0)),
        threshold=F.lit(limits.flash_message),
        digits=3,
        words="dequeued {} s after it was enqueued",
        least_is_worst=True,
    )


def _large_payload(messages: DataFrame, limits: Thresholds) -> DataFrame:
    size = F.col("bytes").cast("double")
    rows = messages.where(size > limits.large_payload).select(
        "queue",
        F.col("created_at").alias("at"),
        F.lit(None).cast("string").alias("group"),
        F.lit(None).cast("string").alias("consumer"),
        F.col("seq").alias("first_seq"),
        F.col("seq").alias("last_seq"),
        "bytes",
    )
    return _find(
        rows,
        "large_payload",
        "info",
        actual=size,
        threshold=F.lit(limits.large_payload),
        words="payload of {} bytes",
    )


def _long_processing(events: DataFrame, limits: Thresholds) -> DataFrame:
    held = _seconds(F.col("at"), F.col("since"))
    return _find(
        events.where(F.col("kind") == "acked").where(held > limits.long_processing),
        "long_processing",
        "warning",
        actual=held,
        threshold=F.lit(limits.long_processing),
        digits=1,
        words="acknowledged {} s after it was dequeued",
    )


def _lock_stolen(events: DataFrame) -> DataFrame:
    return _find(
        events.where("kind = 'ack_refused'"),
        "lock_stolen",
        "critical",
        words="acknowledged with a token that does not hold the message",
    )


def _near_dlq(events: DataFrame, limits: Thresholds) -> DataFrame:
    left = (F.col("max_attempts") - F.col("attempt")).cast("double")
    return _find(
        events.where("kind in ('nacked', 'expired')").where(left <= limits.near_dlq),
        "near_dlq",
        "warning",
        actual=F.greatest(left, F.lit(0.0)),
        threshold=F.lit(limits.near_dlq),
        words="failed, with {} attempts left",
        least_is_worst=True,
    )


def _dlq_movement(events: DataFrame) -> DataFrame:
    return _find(
        events.where("kind in ('dead', 'timed_out')"),
        "dlq_movement",
        "warning",
        actual=F.col("attempt"),
        threshold=F.col("max_attempts"),
        words="moved to the dead letters after {} attempts",
    )


def _zombie_message(events: DataFrame, limits: Thresholds) -> DataFrame:
    until = F.get_json_object("detail", "$.until").cast("timestamp")
    overdue = _seconds(F.col("at"), until)
    limit = F.col("lease") * limits.zombie_factor
    return _find(
        events.where("kind in ('expired', 'timed_out')").where(overdue > limit),
        "zombie_message",
        "critical",
        actual=overdue,
        threshold=limit,
        digits=1,
        words="in processing {} s beyond its lock",
    )


def _burst_dequeue(events: DataFrame, limits: Thresholds) -> DataFrame:
    """Told once per burst: by the event that brings it over the limit."""
    micros = int(limits.burst_within * 1_000_000)
    lately = (
        Window.partitionBy("consumer")
        .orderBy(F.unix_micros("at"))
        .rangeBetween(-micros, Window.currentRow)
    )
    run = F.col("last_seq") - F.col("first_seq") + 1
    rows = (
        events.where("kind = 'claimed' and consumer is not null")
        .withColumn("taken", F.sum(run).over(lately))
        .where((F.col("taken") >= limits.burst_count) & (F.col("taken") - run < limits.burst_count))
    )
    return _find(
        rows,
        "burst_dequeue",
        "warning",
        actual=F.col("taken"),
        threshold=F.lit(limits.burst_count),
        words=f"{{}} messages in {limits.burst_within:g} s by one consumer",
    )


def _bulk(
    events: DataFrame, limits: Thresholds, name: str, kinds: tuple[str, ...], verb: str
) -> DataFrame:
    """Count what one transaction did to one queue as one."""
    rows = (
        events.where(F.col("kind").isin(*kinds) & F.col("first_seq").isNotNull())
        .groupBy("xid", "queue")
        .agg(
            F.min("at").alias("at"),
            F.sum(F.col("last_seq") - F.col("first_seq") + 1).alias("many"),
            F.first("group", ignorenulls=True).alias("group"),
            F.first("consumer", ignorenulls=True).alias("consumer"),
        )
        .where(F.col("many") >= limits.bulk_operation)
        .withColumn("first_seq", F.lit(1))
        .withColumn("last_seq", F.col("many"))
    )
    return _find(
        rows,
        name,
        "info",
        actual=F.col("many"),
        threshold=F.lit(limits.bulk_operation),
        words=f"{{}} messages {verb} at once",
    )


def _queue_cleared(events: DataFrame) -> DataFrame:
    count = F.coalesce(F.get_json_object("detail", "$.count").cast("double"), F.lit(0.0))
    rows = events.where("kind in ('purged', 'cleared')")
    return _find(
        rows.withColumn("first_seq", F.lit(1)).withColumn("last_seq", count),
        "queue_cleared",
        "warning",
        actual=count,
        words="queue cleared: {} messages",
    )


def _find(
    rows: DataFrame,
    name: str,
    severity: str,
    *,
    words: str,
    actual: Column | None = None,
    threshold: Column | None = None,
    digits: int = 0,
    least_is_worst: bool = False,
) -> DataFrame:
    nothing = F.lit(None)
    return rows.select(
        "queue",
        F.lit(name).alias("type"),
        F.lit(severity).alias("severity"),
        "group",
        "consumer",
        "at",
        F.coalesce(F.col("last_seq") - F.col("first_seq") + 1, F.lit(1))
        .cast("long")
        .alias("messages"),
        (nothing if threshold is None else threshold).cast("double").alias("threshold"),
        (nothing if actual is None else actual).cast("double").alias("actual"),
        F.lit(words).alias("words"),
        F.lit(digits).alias("digits"),
        F.lit(least_is_worst).alias("least_is_worst"),
    )


def _gather(found: DataFrame) -> DataFrame:
    """Return one finding for what is alike within an hour, with the worst of it."""
    kind = (*_KEY, "severity", "words", "digits", "least_is_worst")
    worst = F.when(F.col("least_is_worst"), F.col("least")).otherwise(F.col("most"))
    said = F.replace("words", F.lit("{}"), F.expr("format_number(actual, digits)"))
    return (
        found.groupBy(*kind, F.date_trunc("hour", "at").alias("hour"))
        .agg(
            F.min("at").alias("at"),
            F.max("at").alias("until"),
            F.sum("messages").alias("messages"),
            F.max("threshold").alias("threshold"),
            F.min("actual").alias("least"),
            F.max("actual").alias("most"),
        )
        .withColumn("actual", worst)
        .withColumn("score", F.lit(None).cast("double"))
        .withColumn("description", F.coalesce(said, F.col("words")))
        .withColumn("day", day_of(F.col("at")))
        .select(*COLUMNS)
    )


def _seconds(later: Column, earlier: Column) -> Column:
    return (F.unix_micros(later) - F.unix_micros(earlier)) / F.lit(1_000_000.0)
