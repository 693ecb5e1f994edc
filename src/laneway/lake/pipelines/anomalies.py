"""Anomalies by rule: the rules of the live detectors, as far as the history can decide them."""

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
# Events that are checked together with their message, and events that are checked alone.
_BY_MESSAGE = ("claimed", "nacked", "expired", "dead", "timed_out")
_BY_THEMSELVES = ("acked", "ack_refused", "purged", "cleared")
_BULK = {"pushed": "enqueued", "deleted": "deleted", "deleted_many": "deleted", "moved": "moved"}


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds of the rules, the same as those of the live detectors. Times in seconds."""

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
    """Return one finding per rule, queue, group, consumer and hour: first time, count, worst value.

    messages: those that the events are about; what left the lake is judged without them.
    """
    found = _judge(
        _add_facts(events, messages),
        _flash_message(thresholds),
        _near_dlq(thresholds),
        _dlq_movement(),
        _zombie_message(thresholds),
    )
    for part in (
        _judge(
            events.where(F.col("kind").isin(*_BY_THEMSELVES)),
            _long_processing(thresholds),
            _lock_stolen(),
            _queue_cleared(),
        ),
        _judge(_list_payloads(messages), _large_payload(thresholds)),
        _judge(_add_taken(events, thresholds), _burst_dequeue(thresholds)),
        _judge(_add_up(events), *_bulk(thresholds)),
    ):
        found = found.unionByName(part)
    return _gather(found)


def _judge(rows: DataFrame, *rules: Column) -> DataFrame:
    """Return the findings of several rules in one pass; a rule yields a finding or null."""
    said = F.array_compact(F.array(*rules))
    place = ("queue", "group", "consumer", "at")
    return rows.select(*place, F.inline(said))


def _add_facts(events: DataFrame, messages: DataFrame) -> DataFrame:
    """Add the message of an event: the youngest of a claim, the first of a failure."""
    place = F.when(F.col("kind") == "claimed", F.col("last_seq")).otherwise(F.col("first_seq"))
    facts = messages.select(
        "lane",
        F.col("seq").alias("of"),
        "max_attempts",
        "lease",
        F.col("created_at").alias("created"),
    )
    return (
        events.where(F.col("kind").isin(*_BY_MESSAGE))
        .withColumn("of", place)
        .join(facts, ["lane", "of"], "left")
    )


def _flash_message(limits: Thresholds) -> Column:
    young = _seconds(F.col("at"), F.col("created"))
    return _find(
        (F.col("kind") == "claimed") & (young < limits.flash_message),
        "flash_message",
        "warning",
        actual=F.greatest(young, F.lit(0.0)),
        threshold=F.lit(limits.flash_message),
        digits=3,
        words="dequeued {} s after it was enqueued",
        least_is_worst=True,
    )


def _list_payloads(messages: DataFrame) -> DataFrame:
    none = F.lit(None).cast("string")
    return messages.select(
        "queue",
        F.col("created_at").alias("at"),
        none.alias("group"),
        none.alias("consumer"),
        F.lit(1).alias("first_seq"),
        F.lit(1).alias("last_seq"),
        "bytes",
    )


def _large_payload(limits: Thresholds) -> Column:
    size = F.col("bytes").cast("double")
    return _find(
        size > limits.large_payload,
        "large_payload",
        "info",
        actual=size,
        threshold=F.lit(limits.large_payload),
        words="payload of {} bytes",
    )


def _long_processing(limits: Thresholds) -> Column:
    duration = _seconds(F.col("at"), F.col("since"))
    return _find(
        (F.col("kind") == "acked") & (duration > limits.long_processing),
        "long_processing",
        "warning",
        actual=duration,
        threshold=F.lit(limits.long_processing),
        digits=1,
        words="acknowledged {} s after it was dequeued",
    )


def _lock_stolen() -> Column:
    return _find(
        F.col("kind") == "ack_refused",
        "lock_stolen",
        "critical",
        words="acked with a token that does not lease the message",
    )


def _near_dlq(limits: Thresholds) -> Column:
    left = (F.col("max_attempts") - F.col("attempt")).cast("double")
    return _find(
        F.col("kind").isin("nacked", "expired") & (left <= limits.near_dlq),
        "near_dlq",
        "warning",
        actual=F.greatest(left, F.lit(0.0)),
        threshold=F.lit(limits.near_dlq),
        words="failed, with {} attempts left",
        least_is_worst=True,
    )


def _dlq_movement() -> Column:
    return _find(
        F.col("kind").isin("dead", "timed_out"),
        "dlq_movement",
        "warning",
        actual=F.col("attempt"),
        threshold=F.col("max_attempts"),
        words="moved to the dead letters after {} attempts",
    )


def _zombie_message(limits: Thresholds) -> Column:
    until = F.get_json_object("detail", "$.until").cast("timestamp")
    overdue = _seconds(F.col("at"), until)
    limit = F.col("lease") * limits.zombie_factor
    return _find(
        F.col("kind").isin("expired", "timed_out") & (overdue > limit),
        "zombie_message",
        "critical",
        actual=overdue,
        threshold=limit,
        digits=1,
        words="in processing {} s beyond its lock",
    )


def _add_taken(events: DataFrame, limits: Thresholds) -> DataFrame:
    """Add how many messages a consumer claimed shortly before: its running total less an earlier one.

    And the most that this comes to within the next such time: a burst goes on beyond the limit.
    """
    micros = int(limits.burst_within * 1_000_000)
    by_time = Window.partitionBy("consumer").orderBy(F.unix_micros("at"))
    before = by_time.rangeBetween(Window.unboundedPreceding, -micros - 1)
    until_now = by_time.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        events.where("kind = 'claimed' and consumer is not null")
        .withColumn(
            "taken",
            F.sum(_run()).over(until_now) - F.coalesce(F.sum(_run()).over(before), F.lit(0)),
        )
        .withColumn("most", F.max("taken").over(by_time.rangeBetween(Window.currentRow, micros)))
    )


def _burst_dequeue(limits: Thresholds) -> Column:
    """Report each burst once, at the event that exceeds the limit, with its final size."""
    taken = F.col("taken")
    return _find(
        (taken >= limits.burst_count) & (taken - _run() < limits.burst_count),
        "burst_dequeue",
        "warning",
        actual=F.col("most"),
        threshold=F.lit(limits.burst_count),
        words=f"{{}} messages in {limits.burst_within:g} s by one consumer",
    )


def _add_up(events: DataFrame) -> DataFrame:
    """Count all changes of one transaction to one queue as one."""
    names = F.create_map(*[F.lit(text) for pair in _BULK.items() for text in pair])
    return (
        events.where(F.col("kind").isin(*_BULK) & F.col("first_seq").isNotNull())
        .groupBy("xid", "queue", names[F.col("kind")].alias("bulk"))
        .agg(
            F.min("at").alias("at"),
            F.sum(_run()).alias("last_seq"),
            F.first("group", ignorenulls=True).alias("group"),
            F.first("consumer", ignorenulls=True).alias("consumer"),
        )
        .withColumn("first_seq", F.lit(1))
    )


def _bulk(limits: Thresholds) -> list[Column]:
    return [
        _find(
            (F.col("bulk") == verb) & (_run() >= limits.bulk_operation),
            name,
            "info",
            actual=_run(),
            threshold=F.lit(limits.bulk_operation),
            words=f"{{}} messages {verb} at once",
        )
        for name, verb in (
            ("bulk_enqueue", "enqueued"),
            ("bulk_delete", "deleted"),
            ("bulk_move", "moved"),
        )
    ]


def _queue_cleared() -> Column:
    count = F.coalesce(F.get_json_object("detail", "$.count").cast("double"), F.lit(0.0))
    return _find(
        F.col("kind").isin("purged", "cleared"),
        "queue_cleared",
        "warning",
        actual=count,
        messages=count,
        words="queue cleared: {} messages",
    )


def _find(
    condition: Column,
    name: str,
    severity: str,
    *,
    words: str,
    actual: Column | None = None,
    threshold: Column | None = None,
    messages: Column | None = None,
    digits: int = 0,
    least_is_worst: bool = False,
) -> Column:
    nothing = F.lit(None)
    many = F.coalesce(_run(), F.lit(1)) if messages is None else messages
    finding = F.struct(
        F.lit(name).alias("type"),
        F.lit(severity).alias("severity"),
        many.cast("long").alias("messages"),
        (nothing if threshold is None else threshold).cast("double").alias("threshold"),
        (nothing if actual is None else actual).cast("double").alias("actual"),
        F.lit(words).alias("words"),
        F.lit(digits).alias("digits"),
        F.lit(least_is_worst).alias("least_is_worst"),
    )
    return F.when(condition, finding)


def _run() -> Column:
    return F.col("last_seq") - F.col("first_seq") + 1


def _gather(found: DataFrame) -> DataFrame:
    """Merge findings of one kind within an hour into one, with the worst value."""
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
