"""Silver: one row per message and group, with its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DEFAULT_GROUP = "default"
SETTLED = ("acked", "dead", "archived", "removed", "skipped")
# Events that concern a whole queue and name no messages.
SWEEPING = ("purged", "cleared", "sought")

# The state after an event. A move names its target state; other events change none.
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
    """Return the state of each message in each group that appears in its queue's events.

    events: at least all about these messages; those of other messages are left out. Times are in
    seconds; a wait starts when a message can be claimed, work at its last claim.
    """
    # By lane: the queue may have been renamed since.
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
    return _finish(_sweep(rows, events))


def _spread(events: DataFrame) -> DataFrame:
    """Return one row per message of an event."""
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
    """Return the outcome of each message's events per group."""
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


def _sweep(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Apply events of a whole queue to its messages, in order."""
    swept = rows.join(F.broadcast(_list_sweeps(events)), ["queue", "group"], "left")
    now = F.struct(
        F.col("state"), F.coalesce(F.col("state_at"), F.col("created_at")).alias("state_at")
    )
    after = F.aggregate("sweeps", now, _change)
    return (
        swept.withColumn("after", F.when(F.col("sweeps").isNotNull(), after))
        .withColumn("state_at", F.coalesce("after.state_at", "state_at"))
        .withColumn("state", F.coalesce("after.state", "state"))
        .drop("sweeps", "after")
    )


def _list_sweeps(events: DataFrame) -> DataFrame:
    """Return the purges and seeks of each queue and group, oldest first."""
    states = F.create_map(*[F.lit(text) for pair in _RELAY.items() for text in pair])

    def read(name: str) -> Column:
        return F.get_json_object("detail", f"$.{name}")

    sweep = F.struct(
        *_PLACE,
        "kind",
        F.when(
            read("status").isNotNull(), F.coalesce(states[read("status")], F.lit("queued"))
        ).alias("state"),
        read("from").cast("timestamp").alias("first"),
        F.when(F.col("kind") != "sought", read("to")).cast("timestamp").alias("last"),
        F.when(F.col("kind") == "sought", read("to")).alias("place"),
        F.coalesce(read("time"), read("kept_since")).cast("timestamp").alias("moment"),
        read("seq").cast("long").alias("seq"),
        read("partition").alias("partition"),
    )
    return (
        events.where(F.col("kind").isin(*SWEEPING) & F.col("group").isNotNull())
        .groupBy("queue", "group")
        .agg(F.sort_array(F.collect_list(sweep)).alias("sweeps"))
    )


def _change(now: Column, sweep: Column) -> Column:
    """Return a message's state after a purge or seek. A seek leaves dead and parked messages."""
    within = sweep["first"].isNull() | F.col("created_at").between(sweep["first"], sweep["last"])
    purged = (
        (sweep["kind"] != "sought")
        & (sweep["state"].isNull() | (sweep["state"] == now["state"]))
        & within
        & (now["state"] != "removed")
    )
    place = sweep["place"]
    # A seek to the earliest message does not change messages that have left the log.
    older = F.col("created_at") < sweep["moment"]
    passed = (
        F.when(place == "latest", F.lit(True))  # noqa: FBT003 - a column
        .when(place == "time", older)
        .when(place == "seq", F.col("seq") < sweep["seq"])
    )
    ahead = F.coalesce(
        F.when(place == "earliest", ~older).otherwise(~passed),
        F.lit(False),  # noqa: FBT003 - a column
    )
    sought = (sweep["kind"] == "sought") & (
        sweep["partition"].isNull() | (sweep["partition"] == F.col("partition"))
    )
    state = (
        F.when(purged, F.lit("removed"))
        .when(sought & passed & now["state"].isin("queued", "processing"), F.lit("skipped"))
        .when(sought & ahead & now["state"].isin("acked", "skipped", "processing"), F.lit("queued"))
    )
    changed = F.struct(state.alias("state"), sweep["at"].alias("state_at"))
    return F.when((sweep["at"] > now["state_at"]) & state.isNotNull(), changed).otherwise(now)


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
