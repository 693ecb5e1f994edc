"""Land new messages and events: one table version records both the rows and how far they reach."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from laneway.lake import events as log_of_events
from laneway.lake.database import open_database
from laneway.lake.lanes import find_ends, list_lanes, parse, render, resolve, share_limit
from laneway.lake.pipelines.bronze import make_events, make_extents, make_messages
from laneway.lake.selection import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from laneway.lake.options import Offset
    from laneway.lake.tables import Lake

_OFFSET = "offset"
_LANDED = "landed"


def land_messages(
    spark: SparkSession,
    lake: Lake,
    dsn: str,
    *,
    at_once: int,
    accept_loss: bool,
    tell: Callable[[str], None],
) -> int:
    """Land the messages that exist at the start, in batches; return their number."""
    goal = _find_goal(dsn)
    total = 0
    while True:
        start: Offset | None = lake.messages.load().state.get(_OFFSET)
        end, rows = _choose_end(dsn, start, goal, at_once)
        if not rows:
            break
        starting = "earliest" if start is None else json.dumps(start)
        frame = _read(
            spark,
            dsn=dsn,
            startingOffsets=starting,
            endingOffsets=json.dumps(end),
            failOnDataLoss="false" if accept_loss else "true",
        )
        lake.messages.append(make_messages(frame), {_OFFSET: end})
        total += rows
        tell(f"landed {total:,} messages")
    _extend(lake)
    return total


def land_events(
    spark: SparkSession,
    lake: Lake,
    dsn: str,
    *,
    at_once: int,
    accept_loss: bool,
    tell: Callable[[str], None],
) -> int:
    """Land events likewise; those of transactions still running are left for the next run."""
    with open_database(dsn) as database:
        goal = log_of_events.find_horizon(database)
    total = 0
    while True:
        state = lake.events.load().state
        start = int(state.get(_OFFSET, {}).get(log_of_events.XID, 0))
        with open_database(dsn) as database:
            end = log_of_events.find_end(database, start, goal, at_once)
        if end <= start:
            return total
        starting, ending = (json.dumps({log_of_events.XID: xid}) for xid in (start, end))
        frame = _read(
            spark,
            dsn=dsn,
            table="events",
            startingOffsets=starting,
            endingOffsets=ending,
            failOnDataLoss="false" if accept_loss else "true",
        )
        before = sum(file.rows for file in lake.events.load().files)
        record = lake.events.append(make_events(frame), {_OFFSET: {log_of_events.XID: end}})
        total += sum(file.rows for file in record.files) - before
        tell(f"landed {total:,} events")


def _find_goal(dsn: str) -> dict[int, int]:
    with open_database(dsn) as database:
        return resolve(database, list_lanes(database, EVERYTHING), "latest")


def _choose_end(
    dsn: str, start: Offset | None, goal: dict[int, int], at_once: int
) -> tuple[Offset, int]:
    with open_database(dsn) as database:
        lanes = [lane for lane in list_lanes(database, EVERYTHING) if lane.lane in goal]
        before = parse(start) if start is not None else resolve(database, lanes, "earliest")
        ends = find_ends(database, lanes, before)
    available = {
        lane: min(end, goal[lane]) - before.get(lane, 0)
        for lane, end in ends.items()
        if min(end, goal[lane]) > before.get(lane, 0)
    }
    chosen = share_limit(available, at_once)
    end = dict(before)
    for lane, rows in chosen.items():
        if rows:
            end[lane] = before.get(lane, 0) + rows
    return render(end), sum(chosen.values())


def _read(spark: SparkSession, **options: str) -> DataFrame:
    return spark.read.format("laneway").options(**options).load()


def _extend(lake: Lake) -> None:
    """Update the extents to cover all landed messages, also after an interrupted run."""
    known = int(lake.extents.load().state.get(_LANDED, 0))
    newest = lake.messages.load().version
    if newest > known:
        rows = lake.messages.read(lambda file: file.landed > known)
        lake.extents.append(make_extents(rows).coalesce(1), {_LANDED: newest})
