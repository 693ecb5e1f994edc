"""Views: messages with their states, history, queues and lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sql.calls import (
    HOUR,
    ack,
    claim,
    create_group,
    create_queue,
    expire_leases,
    extend,
    move,
    nack,
    push,
)

if TYPE_CHECKING:
    from tests.sql.calls import Queue, Session


@pytest.fixture
async def queue(session: Session) -> Queue:
    return await create_queue(session)


async def test_messages_show_their_state(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3", "4", "5", "6", "7"], delays=[None] * 6 + [HOUR])
    got = await claim(session, queue, 5, consumers=["worker"])
    await ack(session, got[:1])
    await nack(session, got[1:2], dead=True, reason="bad")
    await nack(session, got[2:3], delay=HOUR, reason="later")
    await move(session, queue, [got[3].place], source="processing", target="archived")
    rows = await session.fetch(
        "select seq, status, attempt_count, consumer_id, last_error, lock_token is not null "
        "from laneway.messages where queue_name = 'work' order by seq"
    )
    assert [tuple(row) for row in rows] == [
        (1, "acknowledged", 1, "worker", None, False),
        (2, "dead", 1, "worker", "bad", False),
        (3, "queued", 1, None, "later", False),
        (4, "archived", 1, None, None, False),
        (5, "processing", 1, "worker", None, True),
        (6, "queued", 0, None, None, False),
        (7, "queued", 0, None, None, False),
    ]


async def test_acked_message_shows_time_and_consumer(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"])
    got = await claim(session, queue, 1, consumers=["worker"])
    await ack(session, got)
    row = await session.fetchrow("select * from laneway.messages")
    assert row is not None
    assert row["consumer_id"] == "worker"
    assert row["created_at"] <= row["dequeued_at"] <= row["acknowledged_at"]
    assert row["id"] == f"{got[0].segment}-{got[0].lane_id}-1"


async def test_each_group_has_its_own_view(session: Session, queue: Queue) -> None:
    await create_group(session, queue, "other")
    await push(session, queue, ["1"])
    await ack(session, await claim(session, queue, 1))
    rows = await session.fetch("select group_name, status from laneway.messages order by 1")
    assert [tuple(row) for row in rows] == [("default", "acknowledged"), ("other", "queued")]


async def test_messages_are_found_by_address(session: Session, queue: Queue) -> None:
    places = await push(session, queue, ["1", "2", "3"], partitions=["a", "b", "a"])
    rows = await session.fetch(
        "select payload from laneway.find_messages($1, $2, $3, $4)",
        queue.group_id,
        [2, 2, 2],
        [places[2].lane_id, 99, places[1].lane_id],
        [places[2].seq, 1, places[1].seq],
    )
    assert [row["payload"] for row in rows] == ["3", "2"]


async def test_history_lists_events_in_order(session: Session, queue: Queue) -> None:
    [place, *_] = await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 3, consumers=["first"])
    await nack(session, got[:1], reason="no")
    again = await claim(session, queue, 1, consumers=["second"])
    await expire_leases(session, again)
    await session.execute("select laneway.expire_claims()")
    last = await claim(session, queue, 1, consumers=["third"])
    await ack(session, last)
    rows = await session.fetch(
        "select action, attempt, consumer, reason from laneway.message_history($1, $2)",
        place.lane_id,
        place.seq,
    )
    assert [tuple(row) for row in rows] == [
        ("pushed", None, None, None),
        ("claimed", 1, "first", None),
        ("nacked", 1, "first", "no"),
        ("claimed", 2, "second", None),
        ("expired", 2, "second", "Timeout - requeued"),
        ("claimed", 3, "third", None),
        ("acked", 3, "third", None),
    ]


async def test_history_includes_a_push_to_several_partitions(
    session: Session, queue: Queue
) -> None:
    parts = ["a", "b", "a"]
    actions = "select action, messages from laneway.message_history($1, $2)"
    places = [
        place for _ in range(3) for place in await push(session, queue, ["1"] * 3, partitions=parts)
    ]
    expected = [("pushed", 2 if part == "a" else 1) for part in parts * 3]
    for place, pushed in zip(places, expected, strict=True):
        rows = await session.fetch(actions, place.lane_id, place.seq)
        assert [tuple(row) for row in rows] == [pushed]
    while got := await claim(session, queue, 9):
        await ack(session, got)
    # The log may have it no more.
    await session.execute("delete from laneway.message")
    for place, pushed in zip(places, expected, strict=True):
        first, *rest = await session.fetch(actions, place.lane_id, place.seq)
        assert tuple(first) == pushed
        assert [row["action"] for row in rest] == ["claimed", "acked"]


async def test_history_includes_a_claim_of_several_partitions(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1"] * 6, partitions=["a", "b", "c"] * 2)
    await claim(session, queue, 6, consumers=["first"])
    rows = await session.fetch("select part_lane from laneway.event where action = 'claimed'")
    assert [len(row["part_lane"]) for row in rows] == [3]
    got = await session.fetch("select lane_id, first_seq as seq, token from laneway.claim")
    seen = "select action, consumer, token from laneway.message_history($1, $2) where action = 'claimed'"
    for held in got:
        rows = await session.fetch(seen, held["lane_id"], held["seq"])
        assert [tuple(row) for row in rows] == [("claimed", "first", held["token"])]


async def test_history_includes_every_claim_of_several_partitions(
    session: Session, queue: Queue
) -> None:
    places = await push(session, queue, ["1"] * 6, partitions=["a", "b", "c"] * 2)
    await nack(session, await claim(session, queue, 6, consumers=["first"]), reason="no")
    await ack(session, await claim(session, queue, 6, consumers=["second"]))
    for place in places:
        rows = await session.fetch(
            "select action, consumer, messages from laneway.message_history($1, $2) where group_id is not null",
            place.lane_id,
            place.seq,
        )
        assert [(row["action"], row["consumer"]) for row in rows] == [
            ("claimed", "first"),
            ("nacked", "first"),
            ("claimed", "second"),
            ("acked", "second"),
        ]
        assert rows[0]["messages"] == 2


async def test_history_of_one_message_in_a_shared_claim_names_its_own_consumer(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 1, 1, 1, consumers=["a", "b", "c"])
    await ack(session, got)
    for seq, consumer in enumerate("abc", start=1):
        rows = await session.fetch(
            "select action, consumer from laneway.message_history($1, $2) where group_id is not null",
            got[0].lane_id,
            seq,
        )
        assert [tuple(row) for row in rows] == [("claimed", consumer), ("acked", consumer)]


async def test_history_survives_a_split_claim(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 3)
    await extend(session, [got[1]], HOUR)
    await ack(session, got)
    for seq in (1, 2, 3):
        rows = await session.fetch(
            "select action from laneway.message_history($1, $2)", got[0].lane_id, seq
        )
        assert [row["action"] for row in rows] == ["pushed", "claimed", "acked"]


async def test_lag_is_what_the_group_has_not_settled(session: Session, queue: Queue) -> None:
    await create_group(session, queue, "new", start="new")
    await push(session, queue, ["1", "2", "3"])
    await session.execute("update laneway.message set created_at = created_at - interval '1 hour'")
    await ack(session, await claim(session, queue, 2))
    rows = await session.fetch(
        "select group_name, queued, lag > interval '59 minutes' as behind "
        "from laneway.consumer_lag order by 1"
    )
    assert [tuple(row) for row in rows] == [("default", 1, True), ("new", 3, True)]


async def test_ready_groups_are_those_with_ready_messages(session: Session, queue: Queue) -> None:
    idle = await create_group(session, queue, "idle", start="new")
    groups = [queue.group_id, idle, 99]

    async def ready() -> list[int]:
        rows = await session.fetch("select laneway.ready_groups($1)", groups)
        return sorted(row[0] for row in rows)

    assert await ready() == []
    await push(session, queue, ["1"])
    assert await ready() == [queue.group_id, idle]
    got = await claim(session, queue, 1)
    assert await ready() == [idle]
    await nack(session, got, delay=HOUR)
    assert await ready() == [idle]
