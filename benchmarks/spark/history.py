"""A whole run of the lake, and how its time grows with the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.results import Bound, Figure, Row
from benchmarks.spark.stage import BODY
from laneway.lake.running import run_once
from laneway.lake.tables import open_lake

if TYPE_CHECKING:
    from benchmarks.engine.site import Connection
    from benchmarks.spark.stage import Stage

# Every message is pushed, claimed and acknowledged by itself: three rows of the events' table.
_EVENTS_EACH = 3
_AT_ONCE = 1000
_LANES = 8
_LIVES = """
do $$
declare
  v_group int := (select g.group_id from laneway.consumer_group g);
  v_queue int := (select g.queue_id from laneway.consumer_group g);
  v_claim record;
begin
  for i in {first}..{last} loop
    perform laneway.push_many(array[v_queue], array[{body}::json], array['lane-' || i % {lanes}]);
    for v_claim in select c.token, c.lane_id, c.seq from laneway.claim_many(v_group, array[1], null, array['bench-' || i % 3]) c loop
      perform laneway.ack_many(array[v_claim.token], array[v_claim.lane_id], array[v_claim.seq], array[v_claim.seq]);
    end loop;
    if i % 20 = 0 then
      commit;
    end if;
  end loop;
end $$
"""


async def measure_history(stage: Stage) -> list[Row]:
    """Land, refine and judge histories of growing length; seconds per million events."""
    seconds: list[tuple[int, float]] = []
    for number, events in enumerate((stage.scale.history[0], *stage.scale.history)):
        async with stage.site.open_database() as database:
            await _live(await database.connect(), events // _EVENTS_EACH)
            lake = open_lake(stage.spark, stage.folder / f"lake-{number}")
            took = await stage.take_time(
                lambda dsn=database.dsn, lake=lake: run_once(stage.spark, lake, dsn)  # type: ignore[misc]
            )
        if number:  # the first is for getting warm
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


async def _live(connection: Connection, messages: int) -> None:
    await connection.execute("select laneway.create_queue('in')")
    body = "'" + BODY + "'"
    for first in range(1, messages + 1, _AT_ONCE):
        last = min(first + _AT_ONCE - 1, messages)
        await connection.execute(_LIVES.format(first=first, last=last, body=body, lanes=_LANES))
    await connection.execute("vacuum analyze laneway.message, laneway.event")
