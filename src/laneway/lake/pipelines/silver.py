"""Silver: one row per message and group, with what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DEFAULT_GROUP = "default"
SETTLED = ("acked", "dead", "archived", "removed")

# The state after an event; a move says itself where to, and the rest changes no state.
_STATES = {
    "claimed": "processing",
    "acked": "acked",
    "nacked": "queued",
    "expired": "queued",
    "released": "queued",
    "dead": "dead",
    "timed_out": "dead",
    "deleted": "removed",
    "deleted_many": "removed",
    "dropped": "removed",
}
_RELAY = {
    "acknowledged": "acked",
    "archived": "archived",
    "dead": "dead",
    "processing": "processing",
}
_PLACE = ("at", "xid", "event_id")


def make_silver(messages: DataFrame, events: DataFrame) -> DataFrame:
    """Return the state of each message in each group that its queue had a sign of.

    events: at least all about these messages; those of other messages are left out. Times are in
    seconds; a wait counts from when a message could be taken, work from its last hand-out.
    """
    # By lane: a queue may have been renamed since its messages came.
    lanes = messages.select("lane", "queue").distinct()
    about = events.join(F.broadcast(lanes.select("lane")), "lane", "left_semi")
    told = _spread(about)
    groups = (
        lanes.join(about.where("`group` is not null").select("lane", "group").distinct(), "lane")
        .select("queue", "group")
        .union(lanes.select("queue", F.lit(DEFAULT_GROUP)))
        .distinct()
    )
    rows = (
        messages.join(F.broadcast(groups), "queue")
        .join(_fold(told), ["lane", "seq", "group"], "left")
        .withColumn("state", F.coalesce(F.col("state"), F.lit("queued")))
    )
    return _finish(_purge(rows, events))


def _spread(events: DataFrame) -> DataFrame:
    """Return a row per message an event is about."""
    return events.where("`group` is not null").select(
        "lane",
        F.explode(F.sequence("first_seq", "last_seq")).alias("seq"),
        "group",
        *_PLACE,
        "kind",
        "consumer",
        "reason",
        _state_after().alias("state"),
    )


def _state_after() -> Column:
    states = F.create_map(*[F.lit(text) for pair in _STATES.items() for text in pair])
    goals = F.create_map(*[F.lit(text) for pair in _RELAY.items() for text in pair])
    goal = F.get_json_object("detail", "$.to")
    moved = F.coalesce(goals[goal], F.lit("queued"))
    return F.when(F.col("kind") == "moved", moved).otherwise(states[F.col("kind")])


def _fold(told: DataFrame) -> DataFrame:
    """Return for each message and group what its events come to."""
    place = [F.col(name) for name in _PLACE]
    taken = (F.col("kind") == "claimed") | (
        (F.col("kind") == "moved") & (F.col("state") == "processing")
    )
    last = F.max(F.when(F.col("state").isNotNull(), F.struct(*place, "state", "reason")))
    holder = F.max(F.when(F.col("consumer").isNotNull(), F.struct(*place, "consumer")))
    return (
        told.groupBy("lane", "seq", "group")
        .agg(
            F.min(F.when(taken, F.col("at"))).alias("first_claimed_at"),
            F.max(F.when(taken, F.col("at"))).alias("last_claimed_at"),
            F.count_if(taken).alias("claims"),
            F.count_if(F.col("kind") == "released").alias("releases"),
            F.count_if(F.col("kind").isin("nacked", "expired")).alias("retries"),
            last.alias("last"),
            holder.alias("holder"),
        )
        .select(
            "lane",
            "seq",
            "group",
            "first_claimed_at",
            "last_claimed_at",
            (F.col("claims") - F.col("releases")).cast("int").alias("attempts"),
            F.col("retries").cast("int").alias("retries"),
            F.col("last.state").alias("state"),
            F.col("last.at").alias("state_at"),
            F.col("last.reason").alias("reason"),
            F.col("holder.consumer").alias("consumer"),
        )
    )


def _purge(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Let a purge remove what its group had in the state it named when it came."""
    states = F.create_map(*[F.lit(text) for pair in _RELAY.items() for text in pair])
    status = F.get_json_object("detail", "$.status")
    purges = events.where("kind in ('purged', 'cleared') and `group` is not null").select(
        "queue",
        "group",
        F.col("at").alias("purged_at"),
        F.when(status.isNull(), None)
        .otherwise(F.coalesce(states[status], F.lit("queued")))
        .alias("purged"),
    )
    since = F.coalesce(F.col("state_at"), F.col("created_at"))
    met = (
        rows.select("lane", "seq", "queue", "group", "state", since.alias("since"))
        .join(F.broadcast(purges), ["queue", "group"])
        .where("purged_at > since and (purged is null or purged = state)")
        .groupBy("lane", "seq", "group")
        .agg(F.min("purged_at").alias("purged_at"))
    )
    gone = F.col("purged_at").isNotNull()
    return (
        rows.join(met, ["lane", "seq", "group"], "left")
        .withColumn("state", F.when(gone, F.lit("removed")).otherwise(F.col("state")))
        .withColumn("state_at", F.coalesce(F.col("purged_at"), F.col("state_at")))
    )


def _finish(rows: DataFrame) -> DataFrame:
    settled = F.when(F.col("state").isin(*SETTLED), F.col("state_at"))
    available = F.greatest("created_at", F.coalesce("deliver_at", "created_at"))
    return rows.withColumn("settled_at", settled).select(
        "day",
        "queue",
        "id",
        "group",
        F.col("partition").alias("type"),
        "priority",
        "lane",
        "seq",
        F.col("created_at").alias("enqueued_at"),
        "first_claimed_at",
        "last_claimed_at",
        "settled_at",
        _seconds(F.col("first_claimed_at"), available).alias("wait"),
        F.when(
            F.col("state").isin("acked", "dead"), _seconds(settled, F.col("last_claimed_at"))
        ).alias("work"),
        F.coalesce("attempts", F.lit(0)).alias("attempts"),
        F.coalesce("retries", F.lit(0)).alias("retries"),
        F.col("state").alias("outcome"),
        "consumer",
        "reason",
        "bytes",
        "max_attempts",
    )


def _seconds(later: Column, earlier: Column) -> Column:
    return (F.unix_micros(later) - F.unix_micros(earlier)) / F.lit(1_000_000.0)
