"""Unlogged queues work like others, also after a crash emptied them."""

from __future__ import annotations

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
    find_orphans,
    keep_nothing,
    make_due,
    nack,
    push,
    retain,
    rotate,
    seek,
    sweep_idle,
)

if TYPE_CHECKING:
    from tests.sql.calls import Queue, Session


@pytest.fixture(params=[False, True], ids=["shared", "ordered"])
async def queue(session: Session, request: pytest.FixtureRequest) -> Queue:
    return await create_queue(session, "fleeting", kind="unlogged", ordered=request.param)


async def crash(session: Session) -> None:
    """Empty the unlogged segments, as PostgreSQL does when it starts after a crash."""
    for row in await session.fetch("select segment from laneway.segment where segment % 2 = 1"):
        await session.execute(f"truncate laneway.message_{row['segment']}")
    await session.execute("truncate laneway.intact")


async def recover(session: Session) -> None:
    after = None
    while after := await session.fetchval("select laneway.recover_unlogged($1)", after):
        pass


async def test_bodies_are_in_an_unlogged_segment(session: Session, queue: Queue) -> None:
    durable = await create_queue(session)
    [place] = await push(session, queue, ["1"])
    [beside] = await push(session, durable, ["2"])
    assert (place.segment % 2, beside.segment % 2) == (1, 0)
    kinds = await session.fetch(
        "select relname, relpersistence::text as kind from pg_class "
        "where relname in ('message_2', 'message_3')"
    )
    assert {row["relname"]: row["kind"] for row in kinds} == {"message_2": "p", "message_3": "u"}


async def test_unlogged_queue_works_like_any_other(session: Session, queue: Queue) -> None:
    await keep_nothing(session)
    await push(session, queue, ["1", "2"])
    await rotate(session)
    await push(session, queue, ["3"])
    for expected in ("1", "2", "3"):
        got = await claim(session, queue, 1)
        assert [each.body for each in got] == [expected]
        assert await nack(session, got) == ["requeued"]
        got = await claim(session, queue, 1)
        assert [(each.body, each.attempt) for each in got] == [(expected, 2)]
        assert await ack(session, got) == []
    assert await count(session, queue) == Counts(acknowledged=3)
    assert sorted(await retain(session)) == [2, 3]
    assert await count(session, queue) == Counts(acknowledged=1)


async def test_one_push_may_go_to_logged_and_unlogged_queues(
    session: Session, queue: Queue
) -> None:
    durable = await create_queue(session)
    places = await push(session, [queue, durable, queue], ["1", "2", "3"])
    assert [each.segment % 2 for each in places] == [1, 0, 1]
    assert [each.body for each in await claim(session, queue, 5)] == ["1", "3"]


async def test_sequence_numbers_continue_after_a_crash(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"])
    await ack(session, await claim(session, queue, 2))
    await crash(session)
    assert await claim(session, queue, 5) == []
    [place] = await push(session, queue, ["4"])
    assert place.seq > 2
    got = await claim(session, queue, 5)
    assert [each.body for each in got] == ["4"]
    assert await ack(session, got) == []
    assert await claim(session, queue, 5) == []


async def test_leases_of_lost_messages_are_ignored(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"], partitions=["a", "b", "c"])
    first, second, third = await claim(session, queue, 1, 1, 1)
    await crash(session)
    assert await ack(session, [first]) == []
    assert await nack(session, [second]) in (["requeued"], ["lost"])
    await expire_leases(session, [third])
    await expire(session)
    assert await claim(session, queue, 5) == []
    await push(session, queue, ["4", "5", "6"], partitions=["a", "b", "c"])
    assert [each.body for each in await claim(session, queue, 5, 5, 5)] == ["4", "5", "6"]
    assert await find_orphans(session) == {}


async def test_retries_of_lost_messages_are_ignored(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"])
    await nack(session, await claim(session, queue, 1), delay=HOUR)
    await crash(session)
    await make_due(session, queue)
    assert await claim(session, queue, 5) == []
    await push(session, queue, ["2"])
    assert [each.body for each in await claim(session, queue, 5)] == ["2"]


async def test_new_message_does_not_replace_a_lost_one(session: Session) -> None:
    queue = await create_queue(session, kind="unlogged")
    places = await push(session, queue, ["1", "2", "3"])
    await edit(session, queue, places[2], "queued", body=9)
    await crash(session)
    await push(session, queue, ["4", "5", "6"])
    got = await claim(session, queue, 9)
    assert [each.body for each in got] == ["9", "4", "5", "6"]


async def test_lagging_group_continues_after_a_crash(session: Session) -> None:
    queue = await create_queue(session, kind="unlogged")
    slow = await create_group(session, queue, "slow")
    await push(session, queue, ["1", "2", "3"])
    await ack(session, await claim(session, queue, 3))
    await crash(session)
    assert await claim(session, slow, 5) == []
    await sweep_idle(session)
    await push(session, queue, ["4"])
    assert [each.body for each in await claim(session, slow, 5)] == ["4"]
    await seek(session, slow, "earliest")
    assert [each.body for each in await claim(session, slow, 5)] == ["4"]


@pytest.mark.parametrize("pushed_before", [False, True])
async def test_counts_are_exact_again_after_a_crash(
    session: Session, queue: Queue, *, pushed_before: bool
) -> None:
    slow = await create_group(session, queue, "slow")
    partitions = [str(n % 5) for n in range(50)]
    await push(session, queue, ["1"] * 50, partitions=partitions)
    got = await claim(session, queue, *[3] * 4)
    assert await ack(session, got[:4]) == []
    assert await nack(session, got[4:6], delay=HOUR) == ["requeued"] * 2
    assert await nack(session, got[6:7], dead=True) == ["dead"]
    held = got[7:]
    await claim(session, slow, 2)
    await crash(session)
    if pushed_before:
        await push(session, queue, ["2"] * 5, partitions=partitions[:5])
    await recover(session)
    new = 5 if pushed_before else 0
    assert await count(session, queue) == Counts(queued=new, dead=1)
    assert await count(session, slow) == Counts(queued=new)
    assert await ack(session, held) == list(range(len(held)))
    assert await find_orphans(session) == {}
    # And nothing again until the next crash.
    await push(session, queue, ["3"] * 5, partitions=partitions[:5])
    await recover(session)
    assert await count(session, queue) == Counts(queued=new + 5, dead=1)
    assert len(await claim(session, slow, *[50] * 5)) == new + 5
