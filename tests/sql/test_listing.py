"""Lists of acknowledged messages say who acknowledged them, and look for it no farther than they must."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sql.calls import ack, claim, create_queue, push

if TYPE_CHECKING:
    from tests.sql.calls import Queue, Session

LANES, EACH = 6, 4


@pytest.fixture
async def queue(session: Session) -> Queue:
    """Make a queue of several lanes whose messages two consumers have acknowledged, in turn."""
    queue = await create_queue(session)
    lanes = [f"lane {lane}" for lane in range(LANES)]
    for _ in range(EACH):
        await push(session, queue, ["1"] * LANES, partitions=lanes)
    while got := await claim(session, queue, 3, 1, consumers=["ada", "bob"]):
        assert await ack(session, got) == []
    return queue


async def count_calls(session: Session, statement: str, group_id: int) -> tuple[int, ...]:
    """Return how often the statement calls last_ack, and history."""
    async with session.transaction():
        await session.execute("set local track_functions = 'all'")
        await session.fetch(statement, group_id)
        calls = await session.fetch(
            "select coalesce(pg_stat_get_xact_function_calls(f::regproc), 0) "
            "from unnest(array['laneway.last_ack', 'laneway.history']) f"
        )
    return tuple(row[0] for row in calls)


@pytest.mark.parametrize(
    ("call", "lookups"),
    [
        ("list_messages(array[$1::int], 'acknowledged', p_limit => 3, p_offset => 1)", 3),
        ("list_messages(array[$1::int], 'acknowledged', p_sort => 'priority', p_limit => 3)", 3),
        ("list_messages(array[$1::int], 'acknowledged', p_sort => 'consumer_id')", LANES * EACH),
        ("list_messages(array[$1::int], 'acknowledged', p_min_attempts => 1)", LANES * EACH),
        ("count_messages(array[$1::int], 'acknowledged', p_from => '2020-01-01')", 0),
        ("count_messages(array[$1::int], 'acknowledged', p_min_attempts => 1)", LANES * EACH),
    ],
)
async def test_acknowledgement_is_looked_up_only_where_it_is_shown_or_decides(
    session: Session, queue: Queue, call: str, lookups: int
) -> None:
    statement = f"select * from laneway.{call}"
    assert await count_calls(session, statement, queue.group_id) == (lookups, 0)


@pytest.mark.parametrize("sort", ["created_at", "acknowledged_at", "consumer_id", "type"])
async def test_acknowledged_messages_are_listed_as_the_view_shows_them(
    session: Session, queue: Queue, sort: str
) -> None:
    seen = await session.fetch(
        f"select * from laneway.messages where group_id = $1 order by {sort} desc, created_at desc, lane_id, seq desc",
        queue.group_id,
    )
    assert {row["consumer_id"] for row in seen} == {"ada", "bob"}
    listed = await session.fetch(
        "select * from laneway.list_messages(array[$1::int], 'acknowledged', p_sort => $2)",
        queue.group_id,
        sort,
    )
    assert [tuple(row) for row in listed] == [tuple(row) for row in seen]


async def test_count_stops_where_it_is_told(session: Session, queue: Queue) -> None:
    counted = await session.fetchval(
        "select laneway.count_messages(array[$1::int], 'acknowledged', p_from => '2020-01-01', p_most => 5)",
        queue.group_id,
    )
    assert counted == 5
