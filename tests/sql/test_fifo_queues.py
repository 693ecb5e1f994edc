"""FIFO queues: each lease of a lane ends by itself, and claims take the lanes in turn."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.sql import calls
from tests.sql.calls import (
    HOUR,
    Counts,
    ack,
    claim,
    count,
    create_group,
    create_queue,
    expire,
    extend,
    find_orphans,
    make_due,
    move,
    nack,
    purge,
    release,
    start_and_block,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta

    from tests.postgres import Connect
    from tests.sql.calls import Delivery, Queue, Session


@pytest.fixture
async def queue(session: Session) -> Queue:
    return await create_queue(session, "work.fifo", ordered=True, max_attempts=3)


@pytest.fixture
async def other(connect: Connect) -> Session:
    return await connect()


async def push(
    session: Session,
    queue: Queue,
    texts: Sequence[str],
    *,
    partitions: Sequence[str] | None = None,
    delays: Sequence[timedelta | None] | None = None,
) -> None:
    bodies = [json.dumps(text) for text in texts]
    await calls.push(session, queue, bodies, partitions=partitions, delays=delays)


def show(deliveries: Iterable[Delivery]) -> list[tuple[str, int]]:
    return [(json.loads(each.body), each.attempt) for each in deliveries]


async def end_leases(session: Session, *deliveries: Delivery) -> None:
    """Let the time of these messages be up; they have parts of their own."""
    await session.execute(
        "update laneway.claim set until = clock_timestamp() - interval '1 second' "
        "from unnest($1::uuid[], $2::bigint[]) u (token, seq) "
        "where claim.token = u.token and claim.pending @> u.seq",
        [each.token for each in deliveries],
        [each.seq for each in deliveries],
    )


async def fill(session: Session, queue: Queue, *wants: int) -> list[list[str]]:
    """Claim, each waiter messages of several lanes. Return the bodies of each span."""
    rows = await session.fetch(
        "select (c.span).* from laneway.claim_lanes($1, $2, null, null, null, null, true, true) c",
        queue.group_id,
        wants,
    )
    assert len({row["token"] for row in rows}) == len(rows)
    assert [row["waiter"] for row in rows] == sorted(row["waiter"] for row in rows)
    for waiter, want in enumerate(wants):
        assert sum(len(row["bodies"]) for row in rows if row["waiter"] == waiter) <= want
    return [list(map(json.loads, row["bodies"])) for row in rows]


@pytest.mark.invariant(4, 5, 7)
async def test_nacked_message_is_claimed_while_those_behind_it_are_leased(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 2)
    assert await nack(session, got[:1]) == ["requeued"]
    assert await count(session, queue) == Counts(queued=2, processing=1)
    again = await claim(session, queue, 5)
    assert show(again) == [("1", 2)]
    assert await claim(session, queue, 5) == []
    assert await ack(session, [*again, got[1]]) == []
    assert show(await claim(session, queue, 5)) == [("3", 1)]
    assert await count(session, queue) == Counts(processing=1, acknowledged=2)


@pytest.mark.invariant(5)
async def test_nacked_message_waits_for_those_before_it(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3", "4"])
    got = await claim(session, queue, 3)
    assert await nack(session, [got[1]]) == ["requeued"]
    assert await claim(session, queue, 5) == []
    assert await ack(session, [got[0]]) == []
    again = await claim(session, queue, 5)
    assert show(again) == [("2", 2)]
    assert await ack(session, again) == []
    assert await claim(session, queue, 5) == []
    assert await ack(session, [got[2]]) == []
    assert show(await claim(session, queue, 5)) == [("4", 1)]


async def test_messages_returned_one_by_one_are_claimed_together_in_order(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3", "4"])
    got = await claim(session, queue, 4)
    for at in (2, 0, 3, 1):
        assert await nack(session, [got[at]]) == ["requeued"]
    assert show(await claim(session, queue, 5)) == [("1", 2), ("2", 2), ("3", 2), ("4", 2)]


@pytest.mark.invariant(7)
async def test_released_message_leaves_the_others_leased(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 3)
    assert await release(session, [got[0]]) == []
    assert show(await claim(session, queue, 5)) == [("1", 1)]
    assert await ack(session, got[1:]) == []


@pytest.mark.invariant(7)
async def test_lease_of_each_message_ends_by_itself(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 3)
    await extend(session, [got[1]], HOUR)
    await end_leases(session, got[0])
    assert await expire(session) == 2
    assert await count(session, queue) == Counts(queued=2, processing=1)
    again = await claim(session, queue, 5)
    assert show(again) == [("1", 2)]
    assert await ack(session, [got[1]]) == []
    assert await ack(session, again) == []
    assert show(await claim(session, queue, 5)) == [("3", 2)]


async def test_claim_ends_expired_leases_of_its_lane(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 3)
    assert await nack(session, got[:1]) == ["requeued"]
    await extend(session, [got[2]], HOUR)
    await end_leases(session, got[1])
    again = await claim(session, queue, 5)
    assert show(again) == [("1", 2), ("2", 2)]
    assert await ack(session, [*again, got[2]]) == []
    assert await count(session, queue) == Counts(acknowledged=3)


@pytest.mark.parametrize(("before", "after"), [("work", "work.fifo"), ("work.fifo", "work")])
async def test_renamed_queue_is_read_as_its_new_name_says(
    session: Session, before: str, after: str
) -> None:
    queue = await create_queue(session, before, ordered=True)
    await session.execute("select laneway.rename_queue($1, $2)", before, after)
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 2)
    assert await nack(session, got[:1]) == ["requeued"]
    assert await ack(session, got[1:]) == ([] if after == "work.fifo" else [0])


async def test_messages_returned_after_their_queue_was_renamed_are_claimed_in_order(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 3)
    assert await nack(session, got[:1]) == ["requeued"]
    await session.execute("select laneway.rename_queue($1, 'work')", queue.name)
    assert await nack(session, got[2:]) == ["requeued"]
    assert await ack(session, got[1:2]) == []
    [first] = await claim(session, queue, 5)
    assert show([first]) == [("1", 2)]
    assert await ack(session, [first]) == []
    assert show(await claim(session, queue, 5)) == [("3", 2)]


async def test_message_out_of_attempts_is_dead_lettered_alone(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 3)
    assert await nack(session, [got[1]], dead=True) == ["dead"]
    assert await nack(session, [got[0]]) == ["requeued"]
    assert show(await claim(session, queue, 5)) == [("1", 2)]
    assert await ack(session, [got[2]]) == []
    assert await count(session, queue) == Counts(processing=1, acknowledged=1, dead=1)


async def test_redriven_message_waits_for_every_lease_of_its_lane(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 3)
    assert await nack(session, [got[1]], dead=True) == ["dead"]
    await move(session, queue, [got[1].place], source="dead", target="queued")
    assert await nack(session, [got[0]]) == ["requeued"]
    first = await claim(session, queue, 5)
    assert show(first) == [("1", 2)]
    assert await ack(session, first) == []
    assert await claim(session, queue, 5) == []
    assert await ack(session, [got[2]]) == []
    assert show(await claim(session, queue, 5)) == [("2", 1)]


async def test_purge_of_queued_messages_keeps_the_order_behind_leased_ones(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 2)
    assert await nack(session, got[:1]) == ["requeued"]
    assert await purge(session, queue, "queued") == 2
    await push(session, queue, ["4"])
    assert await claim(session, queue, 5) == []
    assert await nack(session, got[1:]) == ["requeued"]
    assert show(await claim(session, queue, 5)) == [("2", 2)]
    assert await find_orphans(session) == {}


async def test_nacked_message_with_a_delay_delays_its_lane(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 2)
    assert await nack(session, got[:1], delay=HOUR) == ["requeued"]
    assert await claim(session, queue, 5) == []
    assert await nack(session, got[1:]) == ["requeued"]
    assert await claim(session, queue, 5) == []
    await make_due(session, queue)
    assert show(await claim(session, queue, 5)) == [("1", 2), ("2", 2), ("3", 1)]


@pytest.mark.parametrize("name", ["work", "work.fifo.old"])
async def test_other_ordered_queues_return_messages_together(session: Session, name: str) -> None:
    queue = await create_queue(session, name, ordered=True)
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 2)
    assert await nack(session, got[:1]) == ["requeued"]
    assert await ack(session, got[1:]) == [0]
    assert show(await claim(session, queue, 5)) == [("1", 2), ("2", 1), ("3", 1)]


async def test_other_groups_of_a_fifo_queue_return_messages_together(
    session: Session, queue: Queue
) -> None:
    group = await create_group(session, queue, "second")
    await push(session, queue, ["1", "2"])
    got = await claim(session, group, 2)
    assert await nack(session, got[:1]) == ["requeued"]
    assert await ack(session, got[1:]) == [0]


# Turns.


async def test_lane_that_was_claimed_from_goes_behind_the_others(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["a1", "a2", "b1", "b2", "c1"], partitions=["a", "a", "b", "b", "c"])
    got = []
    for _ in range(5):
        [message] = await claim(session, queue, 1)
        assert await ack(session, [message]) == []
        got.append(json.loads(message.body))
    assert got == ["a1", "b1", "c1", "a2", "b2"]


async def test_lane_with_a_returned_message_keeps_its_turn(session: Session, queue: Queue) -> None:
    await push(session, queue, ["a1", "b1", "b2", "c1"], partitions=["a", "b", "b", "c"])
    [first] = await claim(session, queue, 1)
    assert await nack(session, [first]) == ["requeued"]
    [second] = await claim(session, queue, 1)
    assert await ack(session, [second]) == []
    assert show(await claim(session, queue, 1, 1, 1)) == [("c1", 1), ("a1", 2), ("b2", 1)]


async def test_lanes_beyond_32_are_all_claimed(session: Session, queue: Queue) -> None:
    lanes = [f"{number:02}" for number in range(50)]
    await push(
        session, queue, [f"{at} {lane}" for at in (1, 2) for lane in lanes], partitions=lanes * 2
    )
    got: list[Delivery] = []
    for _ in range(20):
        some = await claim(session, queue, *[1] * 5)
        # A lane is not claimed twice in one call.
        assert len({each.partition for each in some}) == 5
        assert await ack(session, some) == []
        got += some
    for lane in lanes:
        assert [json.loads(each.body) for each in got if each.partition == lane] == [
            f"1 {lane}",
            f"2 {lane}",
        ]


# Messages of several lanes for one waiter.


async def test_waiter_gets_messages_of_several_lanes(session: Session, queue: Queue) -> None:
    await push(session, queue, ["a1", "b1", "a2", "c1", "c2", "d1"], partitions=list("abaccd"))
    assert await fill(session, queue, 4, 1) == [["a1", "a2"], ["b1"], ["c1"], ["d1"]]
    assert await fill(session, queue, 4) == []


async def test_waiter_gets_messages_of_several_lanes_past_exceptions(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["a1", "a2", "a3", "b1", "c1"], partitions=list("aaabc"))
    got = await claim(session, queue, 2)
    assert await nack(session, got[:1]) == ["requeued"]
    assert await fill(session, queue, 2, 2) == [["b1"], ["c1"], ["a1"]]


async def test_delayed_messages_end_what_a_waiter_gets_of_a_lane(
    session: Session, queue: Queue
) -> None:
    await push(
        session, queue, ["a1", "a2", "b1"], partitions=list("aab"), delays=[None, HOUR, None]
    )
    assert sorted(await fill(session, queue, 3)) == [["a1"], ["b1"]]


async def test_waiter_gets_one_lane_in_other_queues(session: Session) -> None:
    queue = await create_queue(session, ordered=True)
    await push(session, queue, ["a1", "b1"], partitions=list("ab"))
    assert await fill(session, queue, 5) == [["a1"]]


async def test_waiter_with_many_lanes_is_filled(session: Session, queue: Queue) -> None:
    lanes = [f"{number:02}" for number in range(50)]
    await push(session, queue, lanes, partitions=lanes)
    assert sum(map(len, await fill(session, queue, 10, 10, 10))) == 30
    assert sum(map(len, await fill(session, queue, 10, 10, 10))) == 20


# Two sessions.


@pytest.mark.invariant(4, 5)
async def test_lane_that_another_session_claims_is_left_to_it(
    session: Session, other: Session, queue: Queue
) -> None:
    await push(session, queue, ["a1", "a2", "b1"], partitions=list("aab"))
    got = await claim(session, queue, 2)
    assert await nack(session, got[:1]) == ["requeued"]
    transaction = session.transaction()
    await transaction.start()
    assert await fill(session, queue, 1) == [["b1"]]
    assert await fill(session, queue, 1) == [["a1"]]
    await push(other, queue, ["c1"], partitions=["c"])
    assert await fill(other, queue, 5) == [["c1"]]
    await transaction.commit()
    assert await fill(other, queue, 5) == []


@pytest.mark.parametrize("split", [False, True])
async def test_message_is_returned_while_another_of_its_claim_is_acked(
    session: Session, other: Session, connect: Connect, queue: Queue, *, split: bool
) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 2)
    if split:
        await extend(session, [got[1]], HOUR)
    transaction = session.transaction()
    await transaction.start()
    assert await ack(session, [got[1]]) == []
    if split:
        assert await nack(other, got[:1]) == ["requeued"]
        await transaction.commit()
    else:
        nacking = await start_and_block(await connect(), other, nack(other, got[:1]))
        await transaction.commit()
        assert await nacking == ["requeued"]
    again = await claim(session, queue, 5)
    assert show(again) == [("1", 2)]
    assert await ack(session, again) == []
    assert show(await claim(session, queue, 5)) == [("3", 1)]


async def test_two_messages_of_a_claim_are_returned_at_once(
    session: Session, other: Session, connect: Connect, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 3)
    for message in got:
        await extend(session, [message], HOUR)
    transaction = session.transaction()
    await transaction.start()
    assert await nack(session, [got[0]]) == ["requeued"]
    nacking = await start_and_block(await connect(), other, nack(other, [got[1]]))
    await transaction.commit()
    assert await nacking == ["requeued"]
    assert show(await claim(session, queue, 5)) == [("1", 2), ("2", 2)]
    assert await count(session, queue) == Counts(processing=3)


async def test_expiry_leaves_a_lane_that_is_locked_for_the_next_round(
    session: Session, other: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2"])
    got = await claim(session, queue, 2)
    await extend(session, [got[0]], HOUR)
    transaction = session.transaction()
    await transaction.start()
    assert await nack(session, [got[0]]) == ["requeued"]
    await end_leases(other, got[1])
    assert await expire(other) == 0
    await transaction.commit()
    assert await expire(other) == 1
    assert show(await claim(session, queue, 5)) == [("1", 2), ("2", 2)]


async def test_lanes_keep_their_order_of_messages_under_concurrent_claims(
    connect: Connect, session: Session, queue: Queue
) -> None:
    await push(session, queue, [f"{n:02}" for n in range(20)], partitions=["a"])
    other = await connect()
    seen: list[Delivery] = []
    while len(seen) < 20:
        one = await claim(session, queue, 3)
        two = await claim(other, queue, 3)
        assert not (one and two)
        assert await ack(other, one[:1]) == []
        assert await nack(other, one[1:2]) == ["requeued"] * len(one[1:2])
        await release(other, one[2:])
        seen += one[:1]
        assert not two
    assert all(first.seq < second.seq for first, second in pairwise(seen))
