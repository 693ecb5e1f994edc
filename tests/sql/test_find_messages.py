"""Messages found by id are those of the view, at the cost of the ids alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sql.calls import (
    HOUR,
    ack,
    claim,
    create_queue,
    edit,
    expire,
    expire_leases,
    keep_nothing,
    make_due,
    move,
    nack,
    push,
    retain,
    rotate,
)

if TYPE_CHECKING:
    from tests.sql.calls import Queue, Session


async def live(session: Session, queue: Queue) -> None:
    """Give a queue messages in every state, with and without a past."""
    places = await push(
        session, queue, [str(n) for n in range(12)], headers=['{"h":1}'], partitions=["a"]
    )
    await push(session, queue, ["13"], delays=[HOUR], keys=["k"], leases=[HOUR], max_attempts=[9])
    got = await claim(session, queue, 4, consumers=["ada"], partition="a")
    await ack(session, got[:1])
    await nack(session, got[1:2], reason="first")
    again = await claim(session, queue, 1, consumers=["bob"], partition="a")
    await nack(session, again, dead=True, reason="poison")
    await expire_leases(session, got[2:])
    await expire(session)
    await make_due(session, queue)
    await ack(session, await claim(session, queue, 1, consumers=["eve"], partition="a"))
    await move(session, queue, [places[8]], source="queued", target="archived", reason="kept")
    await move(session, queue, [places[9]], source="queued", target="deleted")
    await edit(session, queue, places[10], "queued", body={"edited": True}, max_attempts=5)
    await claim(session, queue, 1, consumers=["joe"], partition="a")


async def compare(session: Session, queue: Queue) -> set[str]:
    seen = await session.fetch(
        "select * from laneway.messages where group_id = $1 order by segment, lane_id, seq",
        queue.group_id,
    )
    found = await session.fetch(
        "select * from laneway.find_messages($1, $2, $3, $4)",
        queue.group_id,
        [row["segment"] for row in seen],
        [row["lane_id"] for row in seen],
        [row["seq"] for row in seen],
    )
    assert [dict(row) for row in found] == [dict(row) for row in seen]
    return {row["status"] for row in seen}


@pytest.mark.parametrize("ordered", [False, True])
async def test_found_messages_are_as_the_view_shows_them(
    session: Session, *, ordered: bool
) -> None:
    queue = await create_queue(session, ordered=ordered, max_attempts=4)
    await live(session, queue)
    states = await compare(session, queue)
    assert {"queued", "processing", "acknowledged", "dead", "archived"} <= states


async def test_messages_are_found_after_their_segment_is_gone(session: Session) -> None:
    queue = await create_queue(session)
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 3)
    await nack(session, got[:1], delay=HOUR)
    await nack(session, got[1:2], dead=True, reason="poison")
    await ack(session, got[2:])
    await rotate(session)
    await keep_nothing(session)
    assert await retain(session)
    assert await compare(session, queue) == {"queued", "dead"}


async def test_unknown_and_deleted_messages_are_not_found(session: Session) -> None:
    queue = await create_queue(session)
    (place,) = await push(session, queue, ["1"])
    await move(session, queue, [place], source="queued", target="deleted")
    found = await session.fetch(
        "select * from laneway.find_messages($1, $2, $3, $4)",
        queue.group_id,
        [place.segment, 2, 999],
        [place.lane_id, 999, 1],
        [place.seq, 1, 1],
    )
    assert found == []
