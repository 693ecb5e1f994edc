"""Lists of acked messages name their consumers, at a bounded cost."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.sql.calls import (
    ack,
    claim,
    create_queue,
    keep_nothing,
    nack,
    push,
    retain,
    rotate,
)
from tests.sql.test_maintenance_cost import count_pages

if TYPE_CHECKING:
    from tests.sql.calls import Queue, Session

LANES, EACH = 6, 4
FEW, MANY = 100, 2000


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
            "from unnest(array['laneway.last_ack', 'laneway.message_history']) f"
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
async def test_acknowledgement_is_looked_up_only_where_needed(
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


async def test_count_stops_at_its_limit(session: Session, queue: Queue) -> None:
    counted = await session.fetchval(
        "select laneway.count_messages(array[$1::int], 'acknowledged', p_from => '2020-01-01', p_most => 5)",
        queue.group_id,
    )
    assert counted == 5


@pytest.mark.parametrize("descending", [True, False], ids=["newest first", "oldest first"])
async def test_page_reads_no_more_beside_many_parked_messages_than_beside_few(
    session: Session, *, descending: bool
) -> None:
    queue = await create_queue(session)
    calls = {
        f"laneway.list_messages(array[{queue.group_id}], 'queued', p_descending => {descending}, "
        f"p_limit => 10, p_offset => {offset}{filters})": offset
        for offset in (0, 30)
        for filters in ("", ", p_types => array['']", ", p_min_attempts => 1", ", p_search => '1'")
    }
    pages = []
    for messages in (FEW, MANY):
        await push(session, queue, ["1"] * messages)
        got = await claim(session, queue, messages)
        assert len(got) == messages
        # Later, so that the claims that follow do not get them again.
        await nack(session, got, delay=timedelta(hours=1))
        pages.append({call: await count_pages(session, call) for call in calls})
    few, many = pages
    assert {
        call: (few[call], many[call]) for call in calls if many[call] > 1.5 * few[call] + 20
    } == {}


@pytest.mark.parametrize("gone", [True, False], ids=["gone from the log", "in the log"])
async def test_parked_messages_are_found_by_time_as_the_view_shows_them(
    session: Session, *, gone: bool
) -> None:
    """What is parked is older than the log where that has gone on, and has its place all the same."""
    queue = await create_queue(session)
    for batch in range(3):
        await push(session, queue, [str(batch)] * 4)
        got = await claim(session, queue, 4)
        await nack(session, got[:3], delay=timedelta(hours=1))
        await ack(session, got[3:])
        if gone and batch < 2:
            await rotate(session)
    if gone:
        await keep_nothing(session)
        assert await retain(session) != []
    await push(session, queue, ["3"] * 4)
    seen = await session.fetch(
        "select id, created_at from laneway.messages where group_id = $1 and status = 'queued' "
        "order by created_at desc, lane_id, seq desc",
        queue.group_id,
    )
    assert len(seen) == 13
    times = [row["created_at"] for row in seen]
    for since in (None, *times):
        for until in (None, *times):
            listed = await session.fetch(
                "select id from laneway.list_messages(array[$1::int], 'queued', "
                "p_from => $2, p_to => $3)",
                queue.group_id,
                since,
                until,
            )
            assert [row["id"] for row in listed] == [
                row["id"]
                for row in seen
                if (since is None or row["created_at"] >= since)
                and (until is None or row["created_at"] <= until)
            ]


async def test_no_claim_is_looked_up_for_parked_messages(session: Session) -> None:
    """Who holds a message is the dearest question of a list of those that were acknowledged."""
    queue = await create_queue(session)
    await push(session, queue, ["1"] * FEW)
    got = await claim(session, queue, FEW)
    assert await ack(session, got[:5]) == []
    await nack(session, got[5:], delay=timedelta(hours=1))
    async with session.transaction():
        await session.execute("set local track_functions = 'all'")
        listed = await session.fetch(
            "select seq from laneway.list_messages(array[$1::int], 'acknowledged')", queue.group_id
        )
        calls = await session.fetchval(
            "select pg_stat_get_xact_function_calls('laneway.find_claim'::regproc)"
        )
    assert [row["seq"] for row in listed] == [each.seq for each in reversed(got[:5])]
    assert calls == len(listed)
