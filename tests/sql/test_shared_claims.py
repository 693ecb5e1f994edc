"""Several waiters share one claim, and each settles only its own messages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from laneway.engine.deliveries import distribute, list_deliveries
from tests.sql.calls import (
    HOUR,
    Counts,
    Delivery,
    ack,
    count,
    create_queue,
    expire,
    expire_leases,
    extend,
    find_orphans,
    nack,
    push,
    release,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from tests.postgres import Connect
    from tests.sql.calls import Queue, Session


@pytest.fixture
async def queue(session: Session) -> Queue:
    return await create_queue(session, max_attempts=3)


async def share(
    session: Session,
    queue: Queue,
    wants: Sequence[int],
    *,
    leases: Sequence[timedelta | None] | None = None,
    consumers: Sequence[str | None] | None = None,
) -> list[list[Delivery]]:
    """Return what each waiter got, where they may share claims."""
    rows = await session.fetch(
        "select * from laneway.claim_spans($1, $2, $3, $4, p_shared => true)",
        queue.group_id,
        wants,
        leases,
        consumers,
    )
    return [
        [Delivery(waiter, *each) for each in list_deliveries(part)]  # type: ignore[arg-type]
        for waiter, part in enumerate(distribute(rows, wants))
    ]


async def push_and_claim(
    session: Session, queue: Queue, number: int, *, partitions: Sequence[str] | None = None
) -> list[Delivery]:
    """Push and hand one message each to as many waiters."""
    await push(session, queue, [str(n) for n in range(number)], partitions=partitions)
    dealt = await share(session, queue, [1] * number)
    assert [len(part) for part in dealt] == [1] * number
    return [delivery for (delivery,) in dealt]


async def count_claims(session: Session) -> int:
    number: int = await session.fetchval("select count(*) from laneway.claim")
    return number


async def test_equal_waiters_share_a_claim(session: Session, queue: Queue) -> None:
    got = await push_and_claim(session, queue, 5)
    assert [each.body for each in got] == ["0", "1", "2", "3", "4"]
    assert await count_claims(session) == 1
    assert await ack(session, got) == []
    assert await count_claims(session) == 0
    assert await count(session, queue) == Counts(acknowledged=5)


async def test_waiters_of_a_shared_claim_get_their_numbers_in_order(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, [str(n) for n in range(6)])
    dealt = await share(session, queue, [2, 0, 3, 4, 1])
    assert [[each.body for each in part] for part in dealt] == [
        ["0", "1"],
        [],
        ["2", "3", "4"],
        ["5"],
        [],
    ]
    assert await count_claims(session) == 1


@pytest.mark.parametrize(
    "differ",
    [{"consumers": ["a", "b"]}, {"leases": [HOUR, None]}, {"consumers": [None, "b"]}],
    ids=["consumer", "lease", "name"],
)
async def test_different_waiters_have_separate_claims(
    session: Session, queue: Queue, differ: dict[str, Sequence[None]]
) -> None:
    await push(session, queue, ["1", "2"])
    (first,), (second,) = await share(session, queue, [1, 1], **differ)
    assert first.token != second.token
    assert await count_claims(session) == 2


async def test_waiters_share_no_claim_by_default(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2"])
    rows = await session.fetch("select * from laneway.claim_spans($1, '{1,1}')", queue.group_id)
    assert len({row["token"] for row in rows}) == 2


async def test_waiters_of_several_lanes_share_a_claim_of_each(
    session: Session, queue: Queue
) -> None:
    got = await push_and_claim(session, queue, 9, partitions=list("abcabcabc"))
    assert [each.body for each in got] == [str(n) for n in range(9)]
    assert await count_claims(session) == 3
    assert await ack(session, got[:4]) == []
    assert await ack(session, got[4:]) == []
    assert await count_claims(session) == 0


async def test_waiter_settles_only_its_part_of_a_shared_claim(
    session: Session, queue: Queue
) -> None:
    one, two, three, four, five = await push_and_claim(session, queue, 5)
    assert await ack(session, [two]) == []
    assert await ack(session, [two]) == [0]
    assert await nack(session, [three], reason="no", delay=HOUR) == ["requeued"]
    assert await release(session, [four]) == []
    assert await ack(session, [three, four]) == [0, 1]
    assert await count(session, queue) == Counts(queued=2, processing=2, acknowledged=1)
    assert await ack(session, [one, five]) == []
    assert await count_claims(session) == 0


async def test_waiter_extends_only_its_part_of_a_shared_claim(
    session: Session, queue: Queue
) -> None:
    one, two, three = await push_and_claim(session, queue, 3)
    (until,) = await extend(session, [two], HOUR)
    assert until is not None
    await session.execute(
        "update laneway.claim set until = clock_timestamp() - interval '1 s' where pending @> $1::bigint",
        one.seq,
    )
    assert await expire(session) == 2
    assert await ack(session, [one, two, three]) == [0, 2]


async def test_acks_of_several_shared_claims_in_one_call(session: Session, queue: Queue) -> None:
    first = await push_and_claim(session, queue, 3)
    second = await push_and_claim(session, queue, 3)
    third = await push_and_claim(session, queue, 2)
    mixed = [second[1], first[0], third[0], second[0], third[1], first[2], second[1]]
    assert await ack(session, mixed) == []
    assert await count(session, queue) == Counts(processing=2, acknowledged=6)
    assert await ack(session, [first[1], second[2], first[0]]) == [2]
    assert await count_claims(session) == 0


async def test_events_name_each_waiter_of_a_shared_claim(session: Session, queue: Queue) -> None:
    got = await push_and_claim(session, queue, 3)
    await ack(session, got)
    rows = await session.fetch(
        "select action, first_seq, last_seq, token, since from laneway.events"
        " where action in ('claimed', 'acked') order by action desc, first_seq"
    )
    assert [(row["action"], row["first_seq"], row["last_seq"], row["token"]) for row in rows] == [
        (action, each.seq, each.seq, each.token) for action in ("claimed", "acked") for each in got
    ]
    assert all(row["since"] is not None for row in rows[3:])


async def test_event_counts_a_message_named_twice_once(session: Session, queue: Queue) -> None:
    one, two = await push_and_claim(session, queue, 2)
    assert await ack(session, [one, two, one]) == []
    assert (
        await session.fetchval(
            "select sum(last_seq - first_seq + 1) from laneway.events where action = 'acked'"
        )
        == 2
    )


async def test_expired_claim_settles_nothing(session: Session, queue: Queue) -> None:
    got = await push_and_claim(session, queue, 4)
    await expire_leases(session, got)
    for part in (got[:1], got[1:3], got):
        assert len(await ack(session, part)) == len(part)


async def test_concurrent_settlement_of_shared_claims(
    connect: Connect, session: Session, queue: Queue
) -> None:
    """None is lost, none is settled twice, and nobody waits for another for ever."""
    partitions = [f"p{n % 4}" for n in range(96)]
    got = await push_and_claim(session, queue, 96, partitions=partitions)
    sessions = [await connect() for _ in range(4)]

    async def settle(number: int) -> list[object]:
        mine = got[number::4]
        lost: list[object] = []
        for start in range(0, len(mine), 5):
            part = mine[start : start + 5]
            lost += await ack(sessions[number], part[::-1])
            lost += [
                outcome
                for outcome in await extend(sessions[number], mine[start + 5 :], HOUR)
                if outcome is None
            ]
        return lost

    assert await asyncio.gather(*(settle(number) for number in range(4))) == [[]] * 4
    assert await count(session, queue) == Counts(acknowledged=96)
    assert (
        await session.fetchval(
            "select sum(last_seq - first_seq + 1) from laneway.events where action = 'acked'"
        )
        == 96
    )
    assert not any((await find_orphans(session)).values())
