"""Drop segments from PostgreSQL once the lake has them, and replay messages from the lake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from laneway.domain.errors import LanewayError
from laneway.lake.database import format_array, open_database
from laneway.lake.errors import OptionInvalid, QueueMissing, VerificationFailed
from laneway.lake.ingestion import land_messages
from laneway.lake.job import AT_ONCE
from laneway.lake.older_files import FORM
from laneway.lake.options import WriteOptions, check_run_id
from laneway.lake.sink import check_goal, find_published
from laneway.lake.source_database import check_origin
from laneway.lake.store import lock_lake
from laneway.lake.translation import shorten, translating_spark

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from pyspark.sql import Column, DataFrame, SparkSession

    from laneway.lake.tables import Lake


@dataclass(frozen=True, slots=True)
class Offloaded:
    """The outcome for one segment.

    dropped: no longer in PostgreSQL; else in the lake, and dropped once every group has settled it.
    failure: why it was kept in PostgreSQL, None where the lake has all of it.
    """

    segment: int
    messages: int = 0
    dropped: bool = False
    failure: LanewayError | None = None


@translating_spark()
def offload(
    spark: SparkSession,
    lake: Lake,
    dsn: str,
    *,
    older_than: timedelta,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Offloaded]:
    """Land the closed segments, compare each with the lake, and drop those that match.

    A segment that fails does not stop the others: look at each one's `failure`.
    """
    with open_database(dsn) as database:
        rows = database.fetch(
            "select s.segment from laneway.segment s where s.closed_at <= clock_timestamp()"
            f" - make_interval(secs => {older_than.total_seconds()})"
            " and to_regclass('laneway.message_' || s.segment) is not null order by s.segment"
        )
    segments = [int(row["segment"]) for row in rows]
    if not segments:
        return []
    with lock_lake(lake.folder):
        check_origin(lake.folder, dsn)
        land_messages(spark, lake, dsn, at_once=AT_ONCE, accept_loss=False, tell=tell)
    done = []
    for segment in segments:
        tell(f"comparing segment {segment}")
        try:
            done.append(_drop(lake, dsn, segment))
        except LanewayError as error:
            done.append(Offloaded(segment, failure=error))
    return done


@translating_spark()
def _drop(lake: Lake, dsn: str, segment: int) -> Offloaded:
    """Compare a segment lane by lane, and drop it from PostgreSQL if all its messages are settled."""
    with open_database(dsn) as database:
        stored = database.fetch(
            "select d.lane_id, d.first_seq, d.last_seq, d.messages, d.checksum::text as checksum"
            f" from laneway.segment_digest({segment}) d order by d.lane_id"
        )
    try:
        verify(lake.messages.read(), segment, stored)
    except VerificationFailed as error:
        if all(file.form == FORM for file in lake.messages.load().files):
            raise
        raise VerificationFailed(
            f"{error}. The lake has messages that an earlier version landed, which did not keep headers"
            " as they were sent: land what PostgreSQL still has into a new directory, and offload there"
        ) from error
    lanes = format_array([row["lane_id"] for row in stored], "int")
    last = format_array([row["last_seq"] for row in stored], "bigint")
    with open_database(dsn) as database:
        answer = database.fetch(
            f"select laneway.drop_offloaded({segment}, {lanes}, {last}) as dropped"
        )
        database.commit()
    return Offloaded(segment, sum(row["messages"] for row in stored), bool(answer[0]["dropped"]))


def verify(messages: DataFrame, segment: int, stored: list[dict[str, Any]]) -> None:
    """Raise unless the lake has exactly the segment's messages, lane by lane."""
    kept = messages.where(F.col("segment") == segment)
    ranges = kept.sparkSession.createDataFrame(
        [(row["lane_id"], row["first_seq"], row["last_seq"]) for row in stored],
        "lane int, first_seq bigint, last_seq bigint",
    )
    # The lake may still have messages that the log has trimmed.
    inside = kept.join(F.broadcast(ranges), "lane").where("seq between first_seq and last_seq")
    found = {
        row.lane: row
        for row in inside.groupBy("lane")
        .agg(F.count("*").alias("messages"), F.sum(digest()).cast("string").alias("checksum"))
        .collect()
    }
    for row in stored:
        lane, other = row["lane_id"], found.get(row["lane_id"])
        count = 0 if other is None else other.messages
        if count != row["messages"]:
            raise VerificationFailed(
                f"the lake has {count} of {row['messages']} messages of lane {lane} in segment {segment};"
                " nothing was dropped"
            )
        if other is None or other.checksum != row["checksum"]:
            raise VerificationFailed(
                f"the lake's messages of lane {lane} in segment {segment} differ from the log's;"
                " nothing was dropped"
            )


def digest() -> Column:
    """Return the digest of a message in the lake as laneway.segment_digest computes it."""
    text = F.concat_ws(
        "|",
        F.col("seq").cast("string"),
        F.unix_micros("created_at").cast("string"),
        F.coalesce("key", F.lit("")),
        F.coalesce("headers", F.lit("")),
        F.col("body"),
    )
    return F.conv(F.substring(F.md5(text), 1, 15), 16, 10).cast("decimal(38,0)")


def choose_history(lake: Lake, queue: str, where: str | None) -> DataFrame:
    """Return the messages of a queue that match an SQL condition, oldest first."""
    kept = {file.queue for file in lake.messages.load().files}
    if queue not in kept:
        raise QueueMissing(
            f'the lake has no messages of queue "{queue}": it has {", ".join(sorted(kept)) or "none"}'
        )
    rows = lake.messages.read(lambda file: file.queue == queue)
    if where is not None:
        try:
            rows = rows.where(where)
        except (AnalysisException, ParseException) as error:
            raise OptionInvalid(f"invalid condition {where!r}: {shorten(str(error))}") from error
    return rows.orderBy("created_at", "lane", "seq")


@translating_spark()
def count_history(rows: DataFrame) -> int:
    return rows.count()


def check_replay(dsn: str, *, to: str, run_id: str) -> None:
    """Check the target queue and the run before anything is read."""
    check_run_id(run_id)
    check_goal(WriteOptions(dsn=dsn, queue=to, run_id=_name_run(run_id)))


@translating_spark()
def replay(rows: DataFrame, dsn: str, *, to: str, run_id: str) -> int | None:
    """Push messages as new ones, once; return how many, or None if this run did so before.

    Keys stay behind: within their window they would make duplicates of the messages themselves.
    """
    run = _name_run(run_id)
    before = find_published(dsn, run)
    (
        rows.select("partition", "priority", "headers", "body")
        .write.format("laneway")
        .mode("append")
        .options(dsn=dsn, queue=to, runId=run)
        .save()
    )
    return find_published(dsn, run) if before is None else None


def _name_run(run_id: str) -> str:
    return f"replay-{run_id}"
