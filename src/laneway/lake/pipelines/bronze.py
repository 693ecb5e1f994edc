"""Bronze: unchanged messages and events by day and queue, and the seqs of each lane per day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Events of queues that no longer exist.
NO_QUEUE = "-"


def day_of(moment: Column) -> Column:
    return F.date_format(moment, "yyyy-MM-dd")


def make_messages(messages: DataFrame) -> DataFrame:
    size = F.octet_length("body")
    return messages.withColumn("bytes", size).withColumn("day", day_of(F.col("created_at")))


def make_events(events: DataFrame) -> DataFrame:
    named = F.coalesce(F.col("queue"), F.lit(NO_QUEUE))
    return events.withColumn("queue", named).withColumn("day", day_of(F.col("at")))


def make_extents(messages: DataFrame) -> DataFrame:
    """Return the seqs of each lane pushed on each day: events name messages by seq."""
    return messages.groupBy("day", "queue", "lane").agg(
        F.min("seq").alias("first_seq"), F.max("seq").alias("last_seq")
    )


def find_touched(events: DataFrame, extents: DataFrame) -> DataFrame:
    """Return the days and queues of the messages that events are about."""
    named = events.where("lane is not null and first_seq is not null").select(
        "lane", F.col("first_seq").alias("from_seq"), F.col("last_seq").alias("to_seq")
    )
    overlap = (F.col("from_seq") <= F.col("last_seq")) & (F.col("to_seq") >= F.col("first_seq"))
    return extents.join(named, "lane").where(overlap).select("day", "queue").distinct()
