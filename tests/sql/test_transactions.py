"""Acks and pushes in one call, and pushes in the caller's own transaction."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from tests.sql.calls import (
    HOUR,
    NOISE,
    Counts,
    ack,
    claim,
    count,
    create_queue,
    expire_leases,
    find_orphans,
    make_due,
    push,
    spread_spans,
    sqlstate,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.postgres import Connect
    from tests.sql.calls import Delivery, Place, Queue, Session

# Which no compression makes shorter.


@pytest.fixture
async def queue(session: Session) -> Queue:
    return await create_queue(session)


async def transact(
    session: Session, acks: Sequence[Delivery], queue: Queue, bodies: Sequence[str]
) -> list[Place]:
    seqs = [each.seq for each in acks]
    rows = await session.fetch(
        "select * from laneway.push_and_ack($1, $2, $3, $4, $5, $6)",
        [each.token for each in acks],
        [each.lane_id for each in acks],
        seqs,
        seqs,
        [queue.queue_id],
        bodies,
    )
    return spread_spans(rows)


@pytest.mark.invariant(12)
async def test_acks_and_pushes_happen_together(session: Session, queue: Queue) -> None:
    output = await create_queue(session, "output")
    await push(session, queue, ["1", "2"])
    got = await claim(session, queue, 2)
    places = await transact(session, got, output, ["3", "4", "5"])
    assert [each.seq for each in places] == [1, 2, 3]
    assert await count(session, queue) == Counts(acknowledged=2)
    assert await count(session, output) == Counts(queued=3)


@pytest.mark.invariant(12)
async def test_lost_claim_undoes_the_pushes_and_the_other_acks(
    session: Session, queue: Queue
) -> None:
    output = await create_queue(session, "output")
    await push(session, queue, ["1", "2"], partitions=["a", "b"])
    first, second = await claim(session, queue, 1, 1)
    await expire_leases(session, [second])
    with pytest.raises(asyncpg.PostgresError) as caught:
        await transact(session, [first, second], output, ["3"])
    assert sqlstate(caught.value) == "LW410"
    assert await count(session, queue) == Counts(processing=2)
    assert await count(session, output) == Counts()


async def test_refused_push_undoes_the_acks(session: Session, queue: Queue) -> None:
    output = await create_queue(session, "output", max_bytes=10)
    await push(session, queue, ["1"])
    got = await claim(session, queue, 1)
    with pytest.raises(asyncpg.PostgresError) as caught:
        await transact(session, got, output, ["1", '"much too long"'])
    assert sqlstate(caught.value) == "LW413"
    assert await count(session, queue) == Counts(processing=1)


async def test_either_half_may_be_empty(session: Session, queue: Queue) -> None:
    assert len(await transact(session, [], queue, ["1"])) == 1
    got = await claim(session, queue, 1)
    assert await transact(session, got, queue, []) == []
    assert await count(session, queue) == Counts(acknowledged=1)


async def test_two_transactions_settle_one_message_once(
    session: Session, queue: Queue, connect: Connect
) -> None:
    output = await create_queue(session, "output")
    await push(session, queue, ["1"])
    got = await claim(session, queue, 1)
    other = await connect()
    outcomes = await asyncio.gather(
        transact(session, got, output, ["2"]),
        transact(other, got, output, ["2"]),
        return_exceptions=True,
    )
    [lost] = [each for each in outcomes if isinstance(each, BaseException)]
    assert sqlstate(lost) in ("LW410", "LW503")
    assert await count(session, queue) == Counts(acknowledged=1)
    assert await count(session, output) == Counts(queued=1)


async def test_transaction_has_locked_no_claim_while_it_waits_for_a_lane(
    session: Session, connect: Connect
) -> None:
    """Else it and the deletion of the queue, which has the lanes first, would wait for each other."""
    queue = await create_queue(session, "loop", ordered=True)
    await push(session, queue, ["1"])
    got = await claim(session, queue, 1)
    deleting, looker = await connect(), await connect()
    async with deleting.transaction():
        await push(deleting, queue, ["2"])
        waiting = asyncio.ensure_future(transact(session, got, queue, ["3"]))
        while not await looker.fetchval(
            "select exists (select from pg_locks where locktype = 'advisory' and not granted)"
        ):
            await asyncio.sleep(0.01)
        await deleting.execute("select laneway.delete_queue('loop', true)")
    with pytest.raises(asyncpg.PostgresError) as caught:
        await waiting
    assert sqlstate(caught.value) == "LW404"


async def put(session: Session, queue: str, body: str, **arguments: Any) -> int:
    names = "".join(f", p_{name} => ${at}" for at, name in enumerate(arguments, start=3))
    place: int = await session.fetchval(
        f"select laneway.outbox_push($1, $2{names})", queue, body, *arguments.values()
    )
    return place


async def drain(session: Session, limit: int = 1000) -> list[int]:
    return [row[0] for row in await session.fetch("select laneway.drain_outbox($1)", limit)]


async def test_outbox_message_exists_when_its_transaction_commits(
    session: Session, queue: Queue, connect: Connect
) -> None:
    other = await connect()
    async with other.transaction():
        await put(other, "work", "1")
        assert await drain(session) == []
        # A long transaction of somebody's own holds up nobody.
        await push(session, queue, ["2"])
        await ack(session, await claim(session, queue, 1))
    assert await drain(session) == [queue.queue_id]
    assert [each.body for each in await claim(session, queue, 5)] == ["1"]
    assert await drain(session) == []


async def test_outbox_message_of_a_rollback_does_not_exist(session: Session, queue: Queue) -> None:
    transaction = session.transaction()
    await transaction.start()
    await put(session, "work", "1")
    await transaction.rollback()
    assert await drain(session) == []
    assert await count(session, queue) == Counts()


async def test_outbox_message_has_every_field_of_a_push(session: Session, queue: Queue) -> None:
    await put(
        session,
        "work",
        '{"a":"\\u0000"}',
        partition="p",
        priority=7,
        delay=HOUR,
        key="k",
        headers='{"h": 1}',
        lease=HOUR,
        max_attempts=9,
    )
    await put(session, "work", "2", key="k")
    await drain(session)
    assert await claim(session, queue, 5) == []
    await make_due(session, queue)
    [one] = await claim(session, queue, 5)
    assert (one.body, one.partition, one.priority, one.key) == ('{"a":"\\u0000"}', "p", 7, "k")
    assert (one.headers, one.lease, one.max_attempts) == ('{"h": 1}', HOUR, 9)


async def test_outbox_keeps_the_order_of_one_producer(session: Session, queue: Queue) -> None:
    for n in range(7):
        await put(session, "work", str(n))
    while await drain(session, 3):
        pass
    assert [each.body for each in await claim(session, queue, 9)] == [str(n) for n in range(7)]


async def test_outbox_accepts_many_in_order_or_none(session: Session) -> None:
    queue = await create_queue(session, max_bytes=5)
    many = "select laneway.outbox_push_many('work', $1, p_keys => $2)"
    with pytest.raises(asyncpg.PostgresError, match="message 1 is 6 bytes") as caught:
        await session.execute(many, ["1", '"long"', "3"], None)
    assert sqlstate(caught.value) == "LW413"
    for bodies, keys in ((["1", None], None), (["1"], ["a", "b"]), (["1", "2"], ["a", NOISE])):
        with pytest.raises(asyncpg.PostgresError) as caught:
            await session.execute(many, bodies, keys)
        assert sqlstate(caught.value) == "LW422"
    assert await session.fetchval("select count(*) from laneway.outbox") == 0
    places = await session.fetchval(many, ["1", "2", "3"], ["a", None, "b"])
    assert places == sorted(places)
    assert await session.fetchval(many, [], None) == []
    await drain(session)
    taken = await claim(session, queue, 9)
    assert [(each.body, each.key) for each in taken] == [("1", "a"), ("2", None), ("3", "b")]


async def test_two_drains_move_each_message_once(
    session: Session, queue: Queue, connect: Connect
) -> None:
    await push(session, queue, ["0"])
    for n in range(1, 20):
        await put(session, "work", str(n))
    other = await connect()
    async with session.transaction():
        await drain(session, 5)
        assert await drain(other) == [queue.queue_id]
    assert await count(session, queue) == Counts(queued=20)


async def test_outbox_refuses_invalid_messages(session: Session) -> None:
    await create_queue(session, "small", max_bytes=5)
    for queue, body, state in (("nowhere", "1", "LW404"), ("small", '"long"', "LW413")):
        with pytest.raises(asyncpg.PostgresError) as caught:
            await put(session, queue, body)
        assert sqlstate(caught.value) == state


@pytest.mark.parametrize(
    "arguments",
    [
        {"delay": timedelta.max},
        {"delay": timedelta.min},
        {"lease": timedelta(0)},
        {"lease": timedelta(days=365_251)},
        {"max_attempts": 0},
        {"partition": NOISE[:2700]},
        {"key": NOISE},
        {"partition": NOISE[:1400], "key": NOISE[:1400]},
    ],
)
async def test_outbox_refuses_messages_that_could_not_be_moved(
    session: Session, arguments: dict[str, Any]
) -> None:
    await create_queue(session, dedup_scope="partition")
    with pytest.raises(asyncpg.PostgresError) as caught:
        await put(session, "work", "1", **arguments)
    assert sqlstate(caught.value) == "LW422"
    assert await session.fetchval("select count(*) from laneway.outbox") == 0


@pytest.mark.parametrize("body", ["1", json.dumps(NOISE)])
@pytest.mark.parametrize(
    "arguments",
    [
        {"delay": timedelta(days=365_000)},
        {"partition": NOISE[:2600]},
        {"key": NOISE[:2600]},
        {"partition": NOISE[:1300], "key": NOISE[:1300]},
        {"partition": "long" * 10_000, "key": "long" * 10_000},
    ],
)
async def test_outbox_accepts_long_names(
    session: Session, arguments: dict[str, Any], body: str
) -> None:
    queue = await create_queue(session, dedup_scope="partition")
    await put(session, "work", body, **arguments)
    assert await drain(session) == [queue.queue_id]
    assert await session.fetchval("select count(*) from laneway.outbox") == 0


async def test_message_that_became_too_large_does_not_block_the_outbox(session: Session) -> None:
    queue = await create_queue(session, "shrinking")
    await put(session, "shrinking", '"rather long"')
    await put(session, "shrinking", "1")
    await session.execute("""select laneway.update_queue('shrinking', '{"max_bytes": 5}')""")
    await drain(session)
    assert "1" in [each.body for each in await claim(session, queue, 5)]


async def test_queue_with_messages_in_the_outbox_is_deleted_by_force_only(
    session: Session, queue: Queue
) -> None:
    await put(session, "work", "1")
    with pytest.raises(asyncpg.PostgresError, match="not empty: 1 messages") as caught:
        await session.execute("select laneway.delete_queue('work')")
    assert sqlstate(caught.value) == "LW409"
    await drain(session)
    assert [each.body for each in await claim(session, queue, 5)] == ["1"]


async def test_invalid_outbox_message_does_not_block_deleting_its_queue(session: Session) -> None:
    await create_queue(session, "done")
    await put(session, "done", "1")
    await session.execute("update laneway.outbox set error = 'it cannot be pushed'")
    await session.execute("select laneway.delete_queue('done')")
    assert await session.fetchval("select error from laneway.outbox") == "it cannot be pushed"


@pytest.mark.parametrize("force", [False, True])
async def test_message_committed_after_its_queue_was_deleted_stays_in_the_outbox(
    session: Session, connect: Connect, *, force: bool
) -> None:
    await create_queue(session, "gone")
    kept, other = await create_queue(session, "kept"), await connect()
    async with other.transaction():
        await put(other, "gone", "1")
        await put(other, "kept", "2")
        await session.execute("select laneway.delete_queue('gone', $1)", force)
    assert await drain(session) == [kept.queue_id]
    assert [each.body for each in await claim(session, kept, 5)] == ["2"]
    [row] = await session.fetch("select body, error from laneway.outbox")
    assert row["body"] == "1"
    assert "does not exist" in row["error"]
    assert await drain(session) == []


async def test_outbox_of_a_deleted_queue_goes_with_it(session: Session, queue: Queue) -> None:
    await put(session, "work", "1")
    await session.execute("select laneway.delete_queue($1, true)", queue.name)
    assert await find_orphans(session) == {}
    assert await drain(session) == []
