"""Following what happens: what it may cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sql.calls import ack, claim, count_reads, create_queue, push

if TYPE_CHECKING:
    from tests.sql.calls import Session

PUSHES = 40
BATCH = 50


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
        assert await ack(session, await claim(session, queue, BATCH)) == []
    async with session.transaction():
        before = await count_reads(session, "message_2_place")
        assert await follow(session, seen) == 3 * PUSHES
        read = await count_reads(session, "message_2_place") - before
    # Each message for its size, and each event's first and last one.
    assert read <= PUSHES * BATCH + 6 * PUSHES


async def follow(session: Session, seen: str) -> int:
    rows = await session.fetch("select * from laneway.follow_events($1, 1000, 5000)", seen)
    return len(rows)
