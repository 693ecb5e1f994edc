"""Following events: their contents and their cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sql.calls import ack_spans, claim, count_reads, create_queue, push

if TYPE_CHECKING:
    from tests.sql.calls import Session

PUSHES = 40
BATCH = 50
LANES = 12


async def test_following_reads_each_message_once_also_where_it_began_on_an_empty_log(
    session: Session,
) -> None:
    """A plan made for an empty log is kept while the log grows."""
    queue = await create_queue(session)
    seen = await session.fetchval("select pg_current_snapshot()")
    await follow(session, seen)
    for _ in range(PUSHES):
        await push(session, queue, ["1"] * BATCH)
    for _ in range(PUSHES):
        first, *_, last = await claim(session, queue, BATCH)
        assert not await ack_spans(session, [(first.token, first.lane_id, first.seq, last.seq)])
    async with session.transaction():
        before = await count_reads(session, "message_2_place")
        assert await follow(session, seen) == 3 * PUSHES
        read = await count_reads(session, "message_2_place") - before
    # Each message for its size, and each event's first and last one.
    assert read <= PUSHES * BATCH + 6 * PUSHES


@pytest.mark.parametrize(("lanes", "largest", "rows"), [(3, 10, 3), (30, 10, 1), (30, 6000, 30)])
async def test_push_to_many_lanes_is_followed_as_one_unless_it_is_large(
    session: Session, lanes: int, largest: int, rows: int
) -> None:
    queue = await create_queue(session)
    seen = await session.fetchval("select pg_current_snapshot()")
    bodies = ["1"] * (lanes * 2 - 1) + [f'"{"x" * largest}"']
    places = await push(session, queue, bodies, partitions=[str(n) for n in range(lanes)] * 2)
    found = await session.fetch("select * from laneway.follow_events($1, 1000, 5000)", seen)
    assert len(found) == rows
    if rows == 1:
        assert found[0]["lane_id"] is None
        assert found[0]["spread"] == lanes * 2
    else:
        assert {(row["lane_id"], row["first_seq"], row["last_seq"]) for row in found} == {
            (place.lane_id, 1, 2) for place in places
        }
    large = [(row["lane_id"], *row["large_seqs"]) for row in found if row["large_seqs"]]
    assert large == ([(places[-1].lane_id, 2)] if largest > 5000 else [])


async def test_event_with_several_anomalies_is_read_once(session: Session) -> None:
    queue = await create_queue(session)
    for _ in range(2):
        await push(session, queue, ["1"] * LANES, partitions=[f"lane {n}" for n in range(LANES)])
    assert len(await claim(session, queue, 2 * LANES)) == 2 * LANES
    # Two findings about the first message of each lane.
    await session.execute(
        "insert into laneway.anomaly (xid, event_id, at, type, severity, description, kind, queue_id, lane_id, seqs) "
        "select e.xid, e.event_id, e.at, t, 'info', t, 'claimed', e.queue_id, e.lane_id, '{[1,1]}' "
        "from laneway.events e, unnest(array['odd', 'slow']) t where e.action = 'claimed'"
    )
    async with session.transaction():
        before = await count_reads(session, "event_2_order")
        found = await session.fetch("select * from laneway.list_activity(p_anomalous => true)")
        read = await count_reads(session, "event_2_order") - before
    assert [row["seq"] for row in found] == [1] * LANES
    assert len({row["lane_id"] for row in found}) == LANES
    assert {row["total"] for row in found} == {LANES}
    assert read == 1


async def follow(session: Session, seen: str) -> int:
    rows = await session.fetch("select * from laneway.follow_events($1, 1000, 5000)", seen)
    return len(rows)
