"""Rotation and retention: what is still needed is kept, and the rest is dropped."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest

from tests.sql.calls import (
    HOUR,
    Counts,
    ack,
    claim,
    count,
    create_group,
    create_queue,
    edit,
    find_orphans,
    keep_nothing,
    make_due,
    move,
    nack,
    push,
    replay,
    retain,
    rotate,
    seek,
)

if TYPE_CHECKING:
    from tests.postgres import Connect
    from tests.sql.calls import Queue, Session


@pytest.fixture
async def queue(session: Session) -> Queue:
    await keep_nothing(session)
    return await create_queue(session)


async def test_first_segment_is_created_with_the_next_one(session: Session) -> None:
    rows = await session.fetch("select segment, opened_at is not null as open from laneway.segment")
    assert {row["segment"]: row["open"] for row in rows} == {2: True, 4: False}


async def test_rotation_opens_the_next_segment(session: Session, queue: Queue) -> None:
    [first] = await push(session, queue, ["1"])
    assert await rotate(session) == 4
    [second] = await push(session, queue, ["2"])
    assert (first.segment, second.segment) == (2, 4)
    assert (first.lane_id, first.seq + 1) == (second.lane_id, second.seq)
    assert [each.body for each in await claim(session, queue, 5)] == ["1", "2"]


async def test_rotation_waits_for_age_or_size(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"])
    assert await session.fetchval("select laneway.rotate()") == 2
    await session.execute("update laneway.policy set segment_bytes = 1")
    assert await session.fetchval("select laneway.rotate()") == 4
    await session.execute(
        "update laneway.policy set segment_bytes = default, segment_interval = '1 microsecond'"
    )
    await push(session, queue, ["2"])
    assert await session.fetchval("select laneway.rotate()") == 6


@pytest.mark.invariant(9)
async def test_settled_segment_is_dropped_after_its_retention(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2"])
    await ack(session, await claim(session, queue, 2))
    await rotate(session)
    await session.execute("update laneway.policy set retention = '1 hour'")
    assert await retain(session) == []
    await session.execute(
        "update laneway.segment set closed_at = closed_at - interval '1 hour' where segment = 2"
    )
    assert await retain(session) == [2]
    assert await session.fetchval("select to_regclass('laneway.message_2')") is None
    assert await session.fetchval("select to_regclass('laneway.event_2')") is None
    assert await count(session, queue) == Counts()
    [place] = await push(session, queue, ["3"])
    assert place.seq == 3
    assert await count(session, queue) == Counts(queued=1)


@pytest.mark.invariant(9)
async def test_undelivered_message_keeps_its_segment(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"])
    await rotate(session)
    assert await retain(session) == []
    assert [each.body for each in await claim(session, queue, 1)] == ["1"]


async def test_message_undelivered_to_one_group_keeps_its_segment(
    session: Session, queue: Queue
) -> None:
    slow = await create_group(session, queue, "slow")
    await push(session, queue, ["1"])
    await ack(session, await claim(session, queue, 1))
    await rotate(session)
    assert await retain(session) == []
    await ack(session, await claim(session, slow, 1))
    assert await retain(session) == [2]


@pytest.mark.invariant(9)
async def test_claimed_message_keeps_its_segment(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"])
    got = await claim(session, queue, 1)
    await rotate(session)
    assert await retain(session) == []
    assert await ack(session, got) == []
    assert await retain(session) == [2]


async def test_segments_are_dropped_oldest_first(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2"])
    await rotate(session)
    await push(session, queue, ["3"])
    await rotate(session)
    held = await claim(session, queue, 1)
    await ack(session, await claim(session, queue, 2))
    assert await retain(session) == []
    assert await count(session, queue) == Counts(processing=1, acknowledged=2)
    await ack(session, held)
    assert await retain(session) == [2, 4]


async def test_lagging_lane_does_not_keep_the_segments_of_others(
    session: Session, queue: Queue
) -> None:
    other = await create_queue(session, "other")
    await push(session, queue, ["1"])
    await rotate(session)
    await push(session, other, ["2"])
    await ack(session, await claim(session, other, 1))
    await rotate(session)
    assert await retain(session) == [4]
    assert await count(session, queue) == Counts(queued=1)


async def test_reader_continues_behind_a_dropped_segment(session: Session, queue: Queue) -> None:
    places = await push(session, queue, ["1", "2"])
    await rotate(session)
    places += await push(session, queue, ["3", "4"])
    await move(session, queue, places[:3], source="queued", target="acknowledged")
    assert await retain(session) == [2]
    assert await count(session, queue) == Counts(queued=1, acknowledged=1)
    assert [each.body for each in await claim(session, queue, 5)] == ["4"]


@pytest.mark.invariant(9)
async def test_parked_message_is_kept_beyond_its_segment(session: Session, queue: Queue) -> None:
    await push(
        session, queue, ['{"a":"\\u0000"}'], headers=['{"h": 1}'], max_attempts=[9], leases=[HOUR]
    )
    await nack(session, await claim(session, queue, 1), delay=HOUR)
    await rotate(session)
    assert await retain(session) == [2]
    assert await count(session, queue) == Counts(queued=1)
    await make_due(session, queue)
    [again] = await claim(session, queue, 1)
    assert (again.body, again.headers, again.max_attempts, again.lease, again.attempt) == (
        '{"a":"\\u0000"}',
        '{"h": 1}',
        9,
        HOUR,
        2,
    )
    assert await count(session, queue) == Counts(processing=1)
    assert await nack(session, [again]) == ["requeued"]
    [again] = await claim(session, queue, 1)
    assert await ack(session, [again]) == []
    assert await count(session, queue) == Counts()


async def test_delayed_message_is_kept_beyond_its_segment(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"], delays=[HOUR])
    assert await claim(session, queue, 1) == []
    await rotate(session)
    assert await retain(session) == [2]
    await make_due(session, queue)
    assert [each.body for each in await claim(session, queue, 1)] == ["1"]


async def test_edited_message_outlives_its_segment(session: Session, queue: Queue) -> None:
    [place] = await push(session, queue, ["1"])
    await edit(session, queue, place, "queued", body=2)
    await rotate(session)
    assert await retain(session) == [2]
    assert [each.body for each in await claim(session, queue, 1)] == ["2"]


async def test_dead_message_outlives_its_segment_and_can_be_replayed(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2"])
    first, second = await claim(session, queue, 2)
    await nack(session, [first], dead=True, reason="bad")
    await ack(session, [second])
    await rotate(session)
    assert await retain(session) == [2]
    assert await count(session, queue) == Counts(dead=1)
    assert await replay(session, queue) == 1
    [again] = await claim(session, queue, 1)
    assert (again.body, again.attempt) == ("1", 1)
    await nack(session, [again], dead=True, reason="still bad")
    assert await count(session, queue) == Counts(dead=1)
    assert await move(session, queue, [again.place], source="dead", target="acknowledged") == {
        0: None
    }
    assert await count(session, queue) == Counts()


async def test_archived_message_outlives_its_segment(session: Session, queue: Queue) -> None:
    [place] = await push(session, queue, ["1"])
    await move(session, queue, [place], source="queued", target="archived")
    await rotate(session)
    assert await retain(session) == [2]
    assert await count(session, queue) == Counts(archived=1)
    await move(session, queue, [place], source="archived", target="queued")
    assert [each.body for each in await claim(session, queue, 1)] == ["1"]


async def test_seek_to_the_earliest_starts_at_what_is_kept(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"])
    await ack(session, await claim(session, queue, 1))
    await rotate(session)
    await push(session, queue, ["2"])
    await ack(session, await claim(session, queue, 1))
    assert await retain(session) == [2]
    await seek(session, queue, "earliest")
    assert await count(session, queue) == Counts(queued=1)
    assert [each.body for each in await claim(session, queue, 5)] == ["2"]


async def test_events_of_a_dropped_segment_go_with_it(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"])
    [got] = await claim(session, queue, 1)
    await rotate(session)
    await retain(session)
    await ack(session, [got])
    actions = "select action from laneway.message_history($1, $2)"
    rows = await session.fetch(actions, got.lane_id, got.seq)
    assert [row["action"] for row in rows] == ["pushed", "claimed", "acked"]
    await retain(session)
    assert await session.fetch(actions, got.lane_id, got.seq) == []


async def test_queue_with_its_own_retention_is_trimmed_behind_its_readers(
    session: Session,
) -> None:
    queue = await create_queue(session, retention="1 hour")
    slow = await create_group(session, queue, "slow")
    await push(session, queue, ["1", "2", "3", "4"])
    await ack(session, await claim(session, queue, 4))
    [_, second] = await claim(session, slow, 2)
    await ack(session, [second])
    assert await retain(session) == []
    assert await count(session, queue) == Counts(acknowledged=4)
    await session.execute("update laneway.message set created_at = created_at - interval '2 hours'")
    await retain(session)
    assert await count(session, queue) == Counts(acknowledged=4)
    await session.execute("update laneway.claim set until = clock_timestamp()")
    await session.execute("select laneway.expire_claims()")
    await retain(session)
    assert await count(session, slow) == Counts(queued=3, acknowledged=1)
    got = await claim(session, slow, 4)
    assert [each.body for each in got] == ["1", "3", "4"]
    await ack(session, got)
    await retain(session)
    assert await count(session, queue) == Counts()
    assert await count(session, slow) == Counts()
    assert await session.fetchval("select count(*) from laneway.message") == 0
    [place] = await push(session, queue, ["5"])
    assert place.seq == 5
    assert await count(session, slow) == Counts(queued=1)


async def test_queue_that_keeps_longer_than_the_policy_keeps_its_segments(
    session: Session,
) -> None:
    await keep_nothing(session)
    queue = await create_queue(session, retention="1 hour")
    await push(session, queue, ["1"])
    await ack(session, await claim(session, queue, 1))
    await rotate(session)
    assert await retain(session) == []
    assert await count(session, queue) == Counts(acknowledged=1)


@pytest.mark.parametrize("ordered", [False, True])
async def test_unclaimed_message_expires(session: Session, *, ordered: bool) -> None:
    queue = await create_queue(session, message_ttl="1 hour", ordered=ordered)
    await push(session, queue, ["1", "2", "3"])
    held = await claim(session, queue, 1)
    await session.execute("update laneway.message set created_at = created_at - interval '2 hours'")
    await push(session, queue, ["4"])
    await retain(session)
    assert await count(session, queue) == Counts(queued=1, processing=1)
    assert await nack(session, held) == ["requeued"]
    assert [each.body for each in await claim(session, queue, 1)] == ["1"]
    if not ordered:
        assert [each.body for each in await claim(session, queue, 4)] == ["4"]
        assert await count(session, queue) == Counts(processing=2)
    reasons = await session.fetch("select reason from laneway.event where action = 'dropped'")
    assert [row["reason"] for row in reasons] == ["message_ttl"]


async def test_waiting_retry_expires_like_the_rest(session: Session) -> None:
    queue = await create_queue(session, message_ttl="1 hour")
    await push(session, queue, ["1"])
    await nack(session, await claim(session, queue, 1), delay=timedelta(hours=9))
    await session.execute("update laneway.message set created_at = created_at - interval '2 hours'")
    await retain(session)
    assert await count(session, queue) == Counts()


async def test_open_read_delays_retention_without_failing_it(
    session: Session, queue: Queue, connect: Connect
) -> None:
    await push(session, queue, ["1"])
    await ack(session, await claim(session, queue, 1))
    await rotate(session)
    reader = await connect()
    async with reader.transaction():
        await reader.fetch("select body from laneway.message")
        assert await retain(session) == []
    assert await retain(session) == [2]


async def test_long_retention_has_few_long_segments(session: Session, queue: Queue) -> None:
    await session.execute("update laneway.policy set segment_interval = '1 hour'")
    rotations = 0
    for _ in range(500):
        await push(session, queue, ["1"])
        await session.execute(
            "update laneway.segment set opened_at = opened_at - interval '1 hour', "
            "closed_at = closed_at - interval '1 hour'"
        )
        before = await session.fetchval("select laneway.current_segment(true)")
        rotations += before != await session.fetchval("select laneway.rotate()")
    assert 16 < rotations <= 32
    got = await claim(session, queue, 500)
    assert [each.seq for each in got] == list(range(1, 501))


@pytest.mark.parametrize("interval", ["2 hours", "1000 years"])
async def test_rotation_goes_on_however_many_segments_there_are(
    session: Session, queue: Queue, interval: str
) -> None:
    for _ in range(70):
        await rotate(session)
    await push(session, queue, ["1"])
    await session.execute(
        "update laneway.policy set segment_interval = $1::text::interval", interval
    )
    current = await session.fetchval("select laneway.rotate()")
    assert await rotate(session) == current + 2
    [message] = await claim(session, queue, 1)
    assert message.segment == current


async def test_push_that_was_open_during_a_rotation_is_delivered_in_order(
    session: Session, queue: Queue, connect: Connect
) -> None:
    pusher = await connect()
    await push(session, queue, ["0"])
    async with pusher.transaction():
        [early] = await push(pusher, queue, ["1"])
        await rotate(session)
        assert await retain(session) == []
        # Another stripe: the first is still being pushed to.
        [late] = await push(session, queue, ["2"])
    assert (early.segment, late.segment) == (2, 4)
    assert early.lane_id != late.lane_id
    assert [each.body for each in await claim(session, queue, 5)] == ["0", "1", "2"]


async def test_pushes_claims_rotation_and_retention_race(
    session: Session, queue: Queue, connect: Connect
) -> None:
    done = asyncio.Event()
    got: list[str] = []

    async def produce() -> None:
        pusher = await connect()
        for first in range(0, 300, 3):
            await push(pusher, queue, [str(first + n) for n in range(3)])
        done.set()

    async def consume() -> None:
        consumer = await connect()
        while True:
            last = done.is_set()
            try:
                batch = await claim(consumer, queue, 7)
            except asyncpg.PostgresError as error:
                assert error.sqlstate == "LW503"  # noqa: PT017 - one of several answers
                continue
            got.extend(each.body for each in batch)
            assert await ack(consumer, batch) == []
            if last and not batch:
                return

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(produce())
        tasks.create_task(consume())
        while not done.is_set():
            await rotate(session)
            await retain(session)
    assert sorted(map(int, got)) == list(range(300))
    await rotate(session)
    await retain(session)
    assert await count(session, queue) == Counts()
    assert await find_orphans(session) == {}
