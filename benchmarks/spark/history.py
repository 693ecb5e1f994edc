"""A whole pass of the lake, and how its time grows with the history."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from benchmarks.results import Bound, Figure, Row
from benchmarks.spark.stage import BODY
from laneway.lake.job import run_once
from laneway.lake.tables import open_lake

if TYPE_CHECKING:
    from benchmarks.engine.site import Connection
    from benchmarks.spark.stage import Stage

# Every message is pushed, claimed and acked by itself: three rows of the table event.
_EVENTS_EACH = 3
_AT_ONCE = 1000
_LANES = 8
# Inserts a week of messages and events as the engine writes them.
_HISTORY = """
with lanes as (
  select array_agg(l.lane_id order by l.lane_id) as ids, min(g.group_id) as group_id, min(g.queue_id) as queue_id,
         laneway.current_segment(true) as segment
    from laneway.lane l join laneway.consumer_group g on g.queue_id = l.queue_id
), lives as (
  select i, s.segment, s.queue_id, s.group_id, s.ids[1 + i % cardinality(s.ids)] as lane_id, 2 + i / cardinality(s.ids) as seq,
         clock_timestamp() - interval '7 days' * (1 - i::float8 / $3) as at, gen_random_uuid() as token
    from lanes s, generate_series($1::bigint, $2::bigint) i
), messages as (
  insert into laneway.message (segment, lane_id, seq, created_at, body)
  select l.segment, l.lane_id, l.seq, l.at, $4::json from lives l
)
insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt, token, consumer, since)
select l.segment, l.at + e.after, e.action, l.queue_id, case when e.place > 1 then l.group_id end, l.lane_id, l.segment, l.seq, l.seq,
       case when e.place > 1 then 1 end, case when e.place > 1 then l.token end, case when e.place > 1 then 'bench-' || l.i % 3 end,
       case when e.place > 2 then l.at + interval '2 s' end
  from lives l, (values (1, 'pushed', interval '0'), (2, 'claimed', interval '2 s'), (3, 'acked', interval '3 s')) e (place, action, after)
 order by l.i, e.place
"""


async def measure_history(stage: Stage) -> list[Row]:
    """Run a whole pass of the lake over histories of growing length."""
    seconds: list[tuple[int, float]] = []
    for number, events in enumerate((stage.scale.history[0], *stage.scale.history)):
        async with stage.site.open_database() as database:
            await _write_history(stage, await database.connect(), events // _EVENTS_EACH)
            took = await stage.measure_time(
                functools.partial(_run, stage, database.dsn, f"lake-{number}", events)
            )
        stage.site.progress.say(f"{events:,} events: {took:.1f} s")
        if number:  # the first is a warm-up
            seconds.append((events, took))
    (small, least), (large, most) = seconds[0], seconds[-1]
    growth = (most / least) / (large / small)
    return [
        Row(
            name="lake-run",
            ours=Figure(most / large * 1_000_000, "s", f"per million events, of {large:,}"),
            beside=Figure(least / small * 1_000_000, "s", f"per million events, of {small:,}"),
            ratio=growth,
            rounds=1,
            target=Bound("at most", 1.0),
            series=[{"events": float(events), "seconds": took} for events, took in seconds],
        )
    ]


def _run(stage: Stage, dsn: str, name: str, events: int) -> None:
    lake = open_lake(stage.spark, stage.folder / name)
    run_once(
        stage.spark,
        lake,
        dsn,
        tell=lambda text: stage.site.progress.say(f"{events:,} events: {text}"),
    )


async def _write_history(stage: Stage, connection: Connection, messages: int) -> None:
    queue = await connection.fetchval("select laneway.create_queue('in')")
    for lane in range(_LANES):
        await connection.execute(
            "select laneway.push_many(array[$1::int], array[$2::json], array[$3::text])",
            queue,
            BODY,
            f"lane-{lane}",
        )
    for first in range(0, messages, _AT_ONCE):
        last = min(first + _AT_ONCE, messages) - 1
        await connection.execute(_HISTORY, first, last, messages, BODY)
        stage.site.progress.step("messages written", last + 1, messages)
    await connection.execute("vacuum analyze laneway.message, laneway.event")
