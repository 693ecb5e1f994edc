"""Ordered groups: one lease per lane, and strict order after any failure."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

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
    expire,
    expire_leases,
    extend,
    find_orphans,
    keep_nothing,
    make_due,
    move,
    nack,
    purge,
    push,
    release,
    replay,
    retain,
    rotate,
    seek,
    sweep_idle,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.postgres import Connect
    from tests.sql.calls import Delivery, Queue, Session


@pytest.fixture
async def queue(session: Session) -> Queue:
    return await create_queue(session, ordered=True, max_attempts=3)


def bodies(deliveries: Iterable[Delivery]) -> list[str]:
    return [each.body for each in deliveries]


async def test_messages_of_a_lane_come_in_order(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2"])
    await push(session, queue, ["3"])
    assert bodies(await claim(session, queue, 10)) == ["1", "2", "3"]


@pytest.mark.invariant(5)
async def test_leased_lane_is_skipped(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"], partitions=["a", "a", "b"])
    assert bodies(await claim(session, queue, 1)) == ["1"]
    assert bodies(await claim(session, queue, 1)) == ["3"]
    assert await claim(session, queue, 1) == []


async def test_each_waiter_gets_a_lane_of_its_own(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3", "4"], partitions=["a", "b", "a", "b"])
    got = await claim(session, queue, 0, 5, 5, 5)
    assert [(each.waiter, each.body) for each in got] == [(1, "1"), (1, "3"), (2, "2"), (2, "4")]
    assert len({each.token for each in got}) == 2


async def test_lanes_with_and_without_message_leases_are_claimed_together(
    session: Session, queue: Queue
) -> None:
    day = timedelta(days=1)
    await push(
        session, queue, ["1", "2", "3"], partitions=["a", "b", "c"], leases=[None, day, None]
    )
    got = await claim(session, queue, 5, 5, 5)
    assert [(each.waiter, each.body) for each in got] == [(0, "1"), (1, "2"), (2, "3")]
    by_body = {each.body: each for each in got}
    assert by_body["2"].until - by_body["1"].until > day / 2
    assert await ack(session, got) == []
    assert await claim(session, queue, 5) == []


async def test_lane_continues_when_every_message_is_acked(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"])
    first = await claim(session, queue, 2)
    assert await ack(session, first[:1]) == []
    assert await claim(session, queue, 1) == []
    assert await ack(session, first[1:]) == []
    assert bodies(await claim(session, queue, 1)) == ["3"]


async def test_lane_with_the_oldest_message_comes_first(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"], partitions=["b"])
    await push(session, queue, ["2"], partitions=["a"])
    assert bodies(await claim(session, queue, 1)) == ["1"]
    assert bodies(await claim(session, queue, 1)) == ["2"]


async def test_higher_priority_lane_comes_first(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2"], priorities=[0, 5])
    assert bodies(await claim(session, queue, 1, 1)) == ["2", "1"]


@pytest.mark.invariant(5)
async def test_nacked_message_and_those_behind_it_are_redelivered(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3", "4"])
    got = await claim(session, queue, 3)
    assert await nack(session, [got[1]], reason="no") == ["requeued"]
    assert await claim(session, queue, 4) == []
    assert await ack(session, got[:1]) == []
    assert await ack(session, got[2:]) == [0]
    again = await claim(session, queue, 4)
    assert [(each.body, each.attempt) for each in again] == [("2", 2), ("3", 1), ("4", 1)]
    assert await count(session, queue) == Counts(processing=3, acknowledged=1)


async def test_messages_nacked_in_one_call_are_redelivered(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3", "4", "5"])
    got = await claim(session, queue, 5)
    assert await nack(session, [got[1], got[3]]) == ["requeued", "requeued"]
    assert await ack(session, got[:1]) == []
    again = await claim(session, queue, 5)
    assert [(each.body, each.attempt) for each in again] == [
        ("2", 2),
        ("3", 1),
        ("4", 2),
        ("5", 1),
    ]


async def test_acked_message_behind_a_nacked_one_is_not_redelivered(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3", "4"])
    got = await claim(session, queue, 4)
    assert await ack(session, [got[0], got[2]]) == []
    assert await nack(session, [got[1]]) == ["requeued"]
    assert await count(session, queue) == Counts(queued=2, acknowledged=2)
    first = await claim(session, queue, 4)
    assert bodies(first) == ["2"]
    assert await ack(session, first) == []
    rest = await claim(session, queue, 4)
    assert bodies(rest) == ["4"]
    assert await ack(session, rest) == []
    assert await count(session, queue) == Counts(acknowledged=4)


async def test_retry_delay_blocks_the_lane(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"], partitions=["a", "a", "b"])
    await nack(session, await claim(session, queue, 1), delay=HOUR)
    assert bodies(await claim(session, queue, 1)) == ["3"]
    assert await claim(session, queue, 1) == []
    await make_due(session, queue)
    assert bodies(await claim(session, queue, 2)) == ["1", "2"]


async def test_backoff_of_the_queue_blocks_the_lane(session: Session) -> None:
    queue = await create_queue(session, ordered=True, backoff="1 hour")
    await push(session, queue, ["1"])
    await nack(session, await claim(session, queue, 1))
    assert await claim(session, queue, 1) == []
    due = await session.fetchval("select laneway.next_due($1)", queue.group_id)
    now = await session.fetchval("select clock_timestamp()")
    assert 0.89 * HOUR < due - now <= 1.1 * HOUR
    await make_due(session, queue)
    assert [each.attempt for each in await claim(session, queue, 1)] == [2]


async def test_lane_continues_behind_a_dead_letter(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2"])
    for _ in range(2):
        assert await nack(session, await claim(session, queue, 1)) == ["requeued"]
    assert await nack(session, await claim(session, queue, 1), reason="bad") == ["dead"]
    assert bodies(await claim(session, queue, 1)) == ["2"]
    assert await count(session, queue) == Counts(processing=1, dead=1)


async def test_message_dead_lettered_at_once_leaves_the_rest_in_flight(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 3)
    assert await nack(session, [got[1]], dead=True, reason="bad") == ["dead"]
    assert await claim(session, queue, 1) == []
    assert await ack(session, [got[0], got[2]]) == []
    assert await count(session, queue) == Counts(acknowledged=2, dead=1)


async def test_dead_and_retried_in_one_claim_keep_their_order(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3"], max_attempts=[2, 1, 2])
    got = await claim(session, queue, 3)
    assert await nack(session, got) == ["requeued", "dead", "requeued"]
    first = await claim(session, queue, 3)
    assert bodies(first) == ["1"]
    await ack(session, first)
    assert bodies(await claim(session, queue, 3)) == ["3"]
    assert await count(session, queue) == Counts(processing=1, acknowledged=1, dead=1)


async def test_released_messages_are_redelivered_without_counting_an_attempt(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 3)
    assert await release(session, got[1:]) == []
    assert await ack(session, got[:1]) == []
    again = await claim(session, queue, 3)
    assert [(each.body, each.attempt) for each in again] == [("2", 1), ("3", 1)]


async def test_expired_lane_restarts_at_its_first_unsettled_message(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 2)
    await ack(session, got[:1])
    await expire_leases(session, got)
    assert await ack(session, got[1:]) == [0]
    assert await expire(session) == 1
    again = await claim(session, queue, 3)
    assert [(each.body, each.attempt) for each in again] == [("2", 2), ("3", 1)]


async def test_next_claim_takes_over_a_lane_with_an_expired_lease(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2"])
    late = await claim(session, queue, 1)
    await expire_leases(session, late)
    again = await claim(session, queue, 2)
    assert [(each.body, each.attempt) for each in again] == [("1", 2), ("2", 1)]
    assert await ack(session, late) == [0]
    assert await nack(session, late) == ["lost"]
    assert await ack(session, again) == []


async def test_expired_claim_that_is_being_settled_still_blocks_its_lane(
    session: Session, queue: Queue, connect: Connect
) -> None:
    await push(session, queue, ["1", "2", "3"])
    late = await claim(session, queue, 2)
    await expire_leases(session, late)
    settler = await connect()
    async with settler.transaction():
        await settler.execute(
            "select from laneway.claim where token = $1 for update", late[0].token
        )
        assert await claim(session, queue, 3) == []
    assert bodies(await claim(session, queue, 3)) == ["1", "2", "3"]


async def test_lane_is_blocked_while_any_part_of_its_claim_is_leased(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3", "4"])
    got = await claim(session, queue, 3)
    await extend(session, [got[1]], HOUR)
    await session.execute(
        "update laneway.claim set until = clock_timestamp() - interval '1 second' where part = 0"
    )
    await expire(session)
    assert await claim(session, queue, 4) == []
    assert await ack(session, [got[1]]) == []
    again = await claim(session, queue, 4)
    assert [(each.body, each.attempt) for each in again] == [("1", 2)]
    assert await ack(session, again) == []
    assert bodies(await claim(session, queue, 4)) == ["3", "4"]


async def test_parts_of_an_expired_claim_return_together(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3", "4"])
    got = await claim(session, queue, 3)
    await extend(session, [got[1]], HOUR)
    await expire_leases(session, got)
    assert await expire(session) == 3
    again = await claim(session, queue, 4)
    assert [(each.body, each.attempt) for each in again] == [
        ("1", 2),
        ("2", 2),
        ("3", 2),
        ("4", 1),
    ]


async def test_nack_of_one_part_returns_the_parts_behind_it(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3", "4"])
    got = await claim(session, queue, 4)
    await extend(session, [got[1]], HOUR)
    await extend(session, [got[2]], HOUR)
    assert await nack(session, [got[1]]) == ["requeued"]
    assert await ack(session, got) == [1, 2, 3]
    again = await claim(session, queue, 4)
    assert [(each.body, each.attempt) for each in again] == [("2", 2), ("3", 1), ("4", 1)]


async def test_nack_of_the_last_part_leaves_what_was_acked_settled(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3", "4"])
    got = await claim(session, queue, 4)
    await extend(session, [got[1]], HOUR)
    assert await ack(session, [got[0], got[2], got[3]]) == []
    assert await nack(session, [got[1]]) == ["requeued"]
    assert bodies(await claim(session, queue, 4)) == ["2"]
    assert await count(session, queue) == Counts(processing=1, acknowledged=3)


async def test_nack_after_a_purge_returns_no_purged_message(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3", "4", "5"])
    got = await claim(session, queue, 2)
    assert await purge(session, queue, "queued") == 3
    assert await nack(session, got[:1]) == ["requeued"]
    assert await count(session, queue) == Counts(queued=2)
    assert bodies(await claim(session, queue, 5)) == ["1", "2"]
    await push(session, queue, ["6"])
    assert await count(session, queue) == Counts(queued=1, processing=2)


async def test_idle_lane_becomes_ready_when_its_messages_return(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1"])
    got = await claim(session, queue, 1)
    await session.execute(
        "select laneway.mark_reader_idle(r.reader_id, r.lane_id) from laneway.reader r"
    )
    assert await nack(session, got) == ["requeued"]
    assert bodies(await claim(session, queue, 1)) == ["1"]


async def test_empty_lane_becomes_idle_and_ready_after_a_push(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1"])
    got = await claim(session, queue, 1)
    assert await sweep_idle(session) == 0
    await ack(session, got)
    assert await sweep_idle(session) == 1
    await push(session, queue, ["2"])
    assert bodies(await claim(session, queue, 1)) == ["2"]


async def test_delayed_message_blocks_its_lane_until_due(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"], delays=[None, HOUR, None])
    got = await claim(session, queue, 3)
    assert bodies(got) == ["1"]
    await ack(session, got)
    assert await claim(session, queue, 3) == []
    await session.execute("update laneway.message set deliver_at = created_at")
    assert bodies(await claim(session, queue, 3)) == ["2", "3"]


async def test_messages_own_lease_counts_where_the_pop_names_none(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2"], leases=[HOUR, None])
    [one] = await claim(session, queue, 1)
    now = await session.fetchval("select clock_timestamp()")
    assert timedelta(minutes=59) < one.until - now <= HOUR
    await release(session, [one])
    [one] = await claim(session, queue, 1, leases=[timedelta(minutes=5)])
    assert timedelta(minutes=4) < one.until - now <= timedelta(minutes=6)


@pytest.mark.invariant(2)
async def test_edited_message_keeps_its_position(session: Session, queue: Queue) -> None:
    places = await push(session, queue, ["1", "2", "3"])
    assert await edit(session, queue, places[1], "queued", body={"new": True})
    assert await purge(session, queue, "dead") == 0
    assert bodies(await claim(session, queue, 3)) == ["1", '{"new": true}', "3"]


async def test_redriven_message_is_delivered_before_the_lane_continues(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2"])
    await nack(session, await claim(session, queue, 1), dead=True)
    assert await replay(session, queue) == 1
    [first] = await claim(session, queue, 2)
    assert (first.body, first.attempt) == ("1", 1)
    assert await claim(session, queue, 1) == []
    assert await ack(session, [first]) == []
    assert bodies(await claim(session, queue, 2)) == ["2"]


async def test_redriven_message_with_an_expired_lease_is_delivered_before_the_lane_continues(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2"])
    await nack(session, await claim(session, queue, 1), dead=True)
    await replay(session, queue)
    await expire_leases(session, await claim(session, queue, 1))
    assert [(each.body, each.attempt) for each in await claim(session, queue, 1)] == [("1", 2)]


async def test_attempts_are_counted_up_to_the_maximum(session: Session) -> None:
    queue = await create_queue(session, ordered=True, max_attempts=None)
    await push(session, queue, ["1", "2"])
    await nack(session, await claim(session, queue, 1))
    await session.execute("update laneway.retry set attempt = 32766")
    for _ in range(2):
        one, two = await claim(session, queue, 2)
        assert (one.attempt, two.attempt) == (32767, 1)
        assert await nack(session, [one]) == ["requeued"]
    [one] = await claim(session, queue, 1)
    await move(session, queue, [one.place], source="processing", target="dead")
    assert await session.fetchval("select attempt from laneway.dead_letter") == 32767
    await replay(session, queue)
    await session.execute("update laneway.parked set attempt = 32767")
    assert [each.attempt for each in await claim(session, queue, 1)] == [32767]


async def test_redriven_message_does_not_overtake_a_higher_priority(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1"], priorities=[0])
    await nack(session, await claim(session, queue, 1), dead=True)
    await replay(session, queue)
    await push(session, queue, ["2"], priorities=[5])
    got = await claim(session, queue, 0, 1, 0, 1)
    assert [(each.waiter, each.body) for each in got] == [(1, "2"), (3, "1")]


async def test_message_moved_back_to_the_queue_keeps_order(session: Session, queue: Queue) -> None:
    places = await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 3)
    assert await move(session, queue, [places[1]], source="processing", target="queued") == {
        0: None
    }
    assert await ack(session, got) == [1, 2]
    assert bodies(await claim(session, queue, 3)) == ["2", "3"]


async def test_shared_group_of_an_ordered_queue_competes_by_message(
    session: Session, queue: Queue
) -> None:
    shared = await create_group(session, queue, "shared", ordered=False)
    await push(session, queue, ["1", "2"])
    assert bodies(await claim(session, shared, 1)) == ["1"]
    assert bodies(await claim(session, shared, 1)) == ["2"]
    assert bodies(await claim(session, queue, 2)) == ["1", "2"]


async def test_order_is_kept_over_segments(session: Session, queue: Queue) -> None:
    await keep_nothing(session)
    await push(session, queue, ["1", "2"])
    await rotate(session)
    await push(session, queue, ["3"])
    first = await claim(session, queue, 3)
    assert bodies(first) == ["1", "2"]
    await nack(session, first[1:])
    await ack(session, first[:1])
    assert await retain(session) == []
    for expected in ("2", "3"):
        got = await claim(session, queue, 1)
        assert bodies(got) == [expected]
        assert await ack(session, got) == []
    assert len(await retain(session)) == 1
    assert await count(session, queue) == Counts(acknowledged=1)


async def test_seek_restarts_the_lane_and_voids_the_token(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 2)
    assert await seek(session, queue, "earliest") == 1
    assert await ack(session, got) == [0, 1]
    assert [(each.body, each.attempt) for each in await claim(session, queue, 3)] == [
        ("1", 1),
        ("2", 1),
        ("3", 1),
    ]
    assert await find_orphans(session) == {}


@pytest.mark.invariant(4, 5)
async def test_two_sessions_never_lease_one_lane(
    session: Session, queue: Queue, connect: Connect
) -> None:
    await push(session, queue, ["1", "2", "3"], partitions=["a", "a", "b"])
    other = await connect()
    async with session.transaction():
        assert bodies(await claim(session, queue, 1)) == ["1"]
        waiting = asyncio.create_task(claim(other, queue, 1))
    assert bodies(await waiting) == ["3"]
    assert await claim(other, queue, 1) == []


async def test_expired_claim_of_a_redriven_message_is_taken_over_at_once(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1"])
    await nack(session, await claim(session, queue, 1), dead=True)
    await replay(session, queue)
    first = await claim(session, queue, 1)
    await expire_leases(session, first)
    assert bodies(await claim(session, queue, 1)) == ["1"]


async def test_events_tell_each_message_s_own_attempt(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 3)
    assert await nack(session, got[1:2], reason="no") == ["requeued"]
    assert await ack(session, got[:1]) == []
    again = await claim(session, queue, 2)
    assert [(each.seq, each.attempt) for each in again] == [(2, 2), (3, 1)]
    assert len({each.token for each in again}) == 1
    listed = await session.fetch(
        "select seq, attempt_count, last_error from laneway.list_messages($1, 'processing') "
        "order by seq",
        [queue.group_id],
    )
    assert [tuple(row) for row in listed] == [(2, 2, "no"), (3, 1, None)]
    await expire_leases(session, again)
    assert await expire(session) == 2
    assert await ack(session, await claim(session, queue, 2)) == []
    for seq, told in {
        2: [
            ("claimed", 1, None),
            ("nacked", 1, "no"),
            ("claimed", 2, None),
            ("expired", 2, "Timeout - requeued"),
            ("claimed", 3, None),
            ("acked", 3, None),
        ],
        3: [
            ("claimed", 1, None),
            ("released", 1, "an earlier message is delivered again"),
            ("claimed", 1, None),
            ("expired", 1, "Timeout - requeued"),
            ("claimed", 2, None),
            ("acked", 2, None),
        ],
    }.items():
        history = await session.fetch(
            "select action, attempt, reason from laneway.message_history($1, $2)",
            got[0].lane_id,
            seq,
        )
        assert [tuple(row) for row in history if row["action"] != "pushed"] == told
