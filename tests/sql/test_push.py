"""Pushes: what is written, where, and what is refused whole."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from tests.sql.calls import (
    HOUR,
    NOISE,
    ack,
    claim,
    count,
    create_queue,
    push,
    sqlstate,
)

if TYPE_CHECKING:
    from tests.postgres import Connect
    from tests.sql.calls import Queue, Session

MIB = 1024 * 1024


@pytest.fixture
async def queue(session: Session) -> Queue:
    return await create_queue(session)


async def count_rows(session: Session) -> tuple[int, ...]:
    row = await session.fetchrow(
        "select (select count(*) from laneway.message), (select count(*) from laneway.lane), "
        "(select count(*) from laneway.dedup_key), "
        "(select count(*) from laneway.events where lane_id is not null)"
    )
    assert row is not None
    return tuple(row)


@pytest.mark.invariant(1)
async def test_seqs_of_a_lane_are_dense(session: Session, queue: Queue) -> None:
    first = await push(session, queue, ["1", "2"])
    second = await push(session, queue, ["3"])
    assert [each.seq for each in first + second] == [1, 2, 3]
    assert len({each.lane_id for each in first + second}) == 1


async def test_one_element_stands_for_all(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2"], partitions=["mail"], priorities=[7], headers=['{"a":1}'])
    got = await claim(session, queue, 10)
    assert {(each.partition, each.priority, each.headers) for each in got} == {
        ("mail", 7, '{"a":1}')
    }


async def test_each_item_has_its_own_lane_and_settings(session: Session, queue: Queue) -> None:
    other = await create_queue(session, "other")
    places = await push(
        session,
        [queue, other, queue],
        ["1", "2", "3"],
        partitions=["a", None, "b"],
        priorities=[1, 2, None],
        headers=['{"n":1}', None, None],
        leases=[HOUR, None, None],
        max_attempts=[None, None, 9],
    )
    assert len({each.lane_id for each in places}) == 3
    mine = await claim(session, queue, 10)
    assert [(each.body, each.partition, each.priority) for each in mine] == [
        ("1", "a", 1),
        ("3", "b", 0),
    ]
    assert mine[0].headers == '{"n":1}'
    assert mine[0].lease == HOUR
    assert mine[1].max_attempts == 9
    assert [each.body for each in await claim(session, other, 10)] == ["2"]


@pytest.mark.invariant(2)
@pytest.mark.parametrize(
    "body",
    [
        r'{"a":"\u0000"}',
        '"text"',
        '""',
        "12.50",
        "-0",
        "1e400",
        "123456789012345678901234567890",
        "null",
        "true",
        " [ 1 ,\n\t2 ] ",
        '{"a":1,"a":2}',
        '{"emoji":"🛣️","nested":' + "[" * 500 + "]" * 500 + "}",
        json.dumps("x" * (MIB - 2)),
    ],
    ids=lambda body: body[:20],
)
async def test_body_is_delivered_byte_for_byte(session: Session, queue: Queue, body: str) -> None:
    await push(session, queue, [body])
    assert [each.body for each in await claim(session, queue, 1)] == [body]


async def test_names_may_be_any_text(session: Session) -> None:
    queue = await create_queue(session, "Größe / 長い名前 ' ; drop")
    await push(session, queue, ["1"], partitions=["ключ 🗝️ '\"%"])
    (got,) = await claim(session, queue, 1)
    assert got.partition == "ключ 🗝️ '\"%"


async def test_too_big_body_is_named_and_nothing_is_written(session: Session, queue: Queue) -> None:
    before = await count_rows(session)
    with pytest.raises(
        asyncpg.PostgresError, match=r"message 1 is 16777217 bytes.*\"work\""
    ) as error:
        await push(session, queue, ["1", json.dumps("x" * (16 * MIB - 1)), "3"])
    assert sqlstate(error.value) == "LW413"
    assert await count_rows(session) == before


async def test_too_big_among_several_queues_is_named(session: Session, queue: Queue) -> None:
    small = await create_queue(session, "small", max_bytes=10)
    with pytest.raises(asyncpg.PostgresError, match=r"message 2 is 12 bytes.*\"small\"") as error:
        await push(session, [queue, small, small], ['"long enough"', "1", '"0123456789"'])
    assert sqlstate(error.value) == "LW413"


async def test_malformed_body_writes_nothing(session: Session, queue: Queue) -> None:
    before = await count_rows(session)
    with pytest.raises(asyncpg.InvalidTextRepresentationError):
        await push(session, queue, ["1", "{"])
    assert await count_rows(session) == before


async def test_unknown_queue_is_refused(session: Session, queue: Queue) -> None:
    before = await count_rows(session)
    gone = type(queue)("gone", 999, 999)
    for queues in ([gone], [queue, gone]):
        with pytest.raises(asyncpg.PostgresError, match="999 does not exist") as error:
            await push(session, queues, ["1", "2"][: len(queues)])
        assert sqlstate(error.value) == "LW404"
    assert await count_rows(session) == before


async def test_arrays_of_the_wrong_length_are_refused(session: Session, queue: Queue) -> None:
    with pytest.raises(asyncpg.PostgresError) as error:
        await push(session, queue, ["1", "2", "3"], partitions=["a", "b"])
    assert sqlstate(error.value) == "LW422"


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("name", ["partitions", "keys"])
async def test_name_too_long_for_an_index_is_refused(
    session: Session, queue: Queue, name: str, *, known: bool
) -> None:
    if known:
        await push(session, queue, ["1"], keys=["a"])
    rows = await count_rows(session)
    options: dict[str, Any] = {"keys": ["a", "b"], name: ["a", NOISE]}
    with pytest.raises(asyncpg.PostgresError, match="up to 1300 bytes each always fit") as caught:
        await push(session, queue, ["1", "2"], **options)
    assert sqlstate(caught.value) == "LW422"
    if name == "partitions":
        with pytest.raises(asyncpg.PostgresError, match="up to 1300 bytes each always fit"):
            await push(session, queue, ["1"], partitions=[NOISE])
    assert await count_rows(session) == rows
    await push(session, queue, ["1"], partitions=["long" * 10_000], keys=["long" * 10_000])


@pytest.mark.parametrize("length", [timedelta.max, timedelta(days=365_251)])
@pytest.mark.parametrize("name", ["leases", "delays"])
async def test_time_beyond_the_last_date_is_refused(
    session: Session, queue: Queue, name: str, length: timedelta
) -> None:
    options: dict[str, Any] = {name: [None, length]}
    with pytest.raises(asyncpg.PostgresError, match="lease or delay too long") as caught:
        await push(session, queue, ["1", "2"], **options)
    assert sqlstate(caught.value) == "LW422"
    assert await count_rows(session) == (0, 0, 0, 0)


async def test_longest_times_are_accepted(session: Session, queue: Queue) -> None:
    long = timedelta(days=365_250)
    await push(session, queue, ["1", "2"], leases=[long, None], delays=[None, long])
    [one] = await claim(session, queue, 2)
    assert one.until - one.created_at > timedelta(days=365_000)


async def test_empty_push_writes_nothing(session: Session, queue: Queue) -> None:
    assert await push(session, queue, []) == []


async def test_delayed_message_is_delivered_when_due(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2"], delays=[HOUR, None])
    assert [each.body for each in await claim(session, queue, 10)] == ["2"]
    assert await claim(session, queue, 10) == []
    await session.execute("update laneway.parked set available_at = clock_timestamp()")
    assert [each.body for each in await claim(session, queue, 10)] == ["1"]


async def test_queue_may_delay_everything(session: Session) -> None:
    queue = await create_queue(session, delay="1 hour")
    await push(session, queue, ["1"])
    await push(session, queue, ["2"], delays=[timedelta(0)])
    assert [each.body for each in await claim(session, queue, 10)] == ["2"]


@pytest.mark.invariant(10)
async def test_repeated_dedup_key_returns_the_first_message(session: Session, queue: Queue) -> None:
    (first,) = await push(session, queue, ["1"], keys=["k"])
    again = await push(session, queue, ["2", "3"], keys=["k", "l"])
    assert (again[0].seq, again[0].duplicate) == (first.seq, True)
    assert not again[1].duplicate
    assert [each.body for each in await claim(session, queue, 10)] == ["1", "3"]


async def test_dedup_key_repeated_within_a_batch_is_pushed_once(
    session: Session, queue: Queue
) -> None:
    places = await push(session, queue, ["1", "2", "3", "4"], keys=["k", "k", None, "k"])
    assert [each.duplicate for each in places] == [False, True, False, True]
    assert len({each.seq for each in places}) == 2
    assert [each.body for each in await claim(session, queue, 10)] == ["1", "3"]


async def test_dedup_key_outlives_its_message(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"], keys=["k"])
    await ack(session, await claim(session, queue, 1))
    (again,) = await push(session, queue, ["2"], keys=["k"])
    assert again.duplicate


async def test_dedup_key_may_be_used_again_after_its_window(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"], keys=["k"])
    await session.execute("update laneway.dedup_key set expires_at = clock_timestamp()")
    (again,) = await push(session, queue, ["2"], keys=["k"])
    assert not again.duplicate
    await session.execute("update laneway.dedup_key set expires_at = clock_timestamp()")
    assert await session.fetchval("select laneway.sweep_dedup_keys()") == 1
    assert not (await push(session, queue, ["3"], keys=["k"]))[0].duplicate


async def test_forgotten_dedup_keys_may_be_used_again(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"], keys=["k"])
    await session.execute("select laneway.forget_dedup_keys($1)", queue.queue_id)
    (again,) = await push(session, queue, ["2"], keys=["k"])
    (third,) = await push(session, queue, ["3"], keys=["k"])
    assert (again.duplicate, third.duplicate) == (False, True)
    assert [each.body for each in await claim(session, queue, 10)] == ["1", "2"]


async def test_dedup_scope_is_the_queue_or_the_partition(session: Session) -> None:
    whole = await create_queue(session, "whole")
    parted = await create_queue(session, "parted", dedup_scope="partition")
    for queue, expected in ((whole, True), (parted, False)):
        await push(session, queue, ["1"], partitions=["a"], keys=["k"])
        (second,) = await push(session, queue, ["2"], partitions=["b"], keys=["k"])
        assert second.duplicate is expected


async def test_duplicates_among_several_lanes_leave_no_holes(
    session: Session, queue: Queue
) -> None:
    (old,) = await push(session, queue, ["0"], partitions=["a"], keys=["old"])
    await push(session, queue, ["0"], partitions=["b"], keys=["over"])
    await session.execute(
        "update laneway.dedup_key set expires_at = clock_timestamp() where key = 'over'"
    )
    places = await push(
        session,
        queue,
        ["1", "2", "3", "4", "5", "6"],
        partitions=["a", "b", "a", "b", "a", "b"],
        keys=["old", "x", "y", "x", None, "over"],
    )
    assert [each.duplicate for each in places] == [True, False, False, True, False, False]
    assert replace(places[0], duplicate=False) == old
    assert replace(places[3], duplicate=False) == places[1]
    # What a key is told to belong to is where the message really is.
    again = await push(session, queue, ["7", "8", "9"], partitions=["c"], keys=["y", "x", "over"])
    assert again == [replace(places[n], duplicate=True) for n in (2, 1, 5)]
    seqs = await session.fetch(
        "select partition, array_agg(seq order by seq) as seqs, array_agg(body::text order by seq) as bodies "
        "from laneway.message join laneway.lane using (lane_id) group by partition order by partition"
    )
    assert [tuple(row) for row in seqs] == [
        ("a", [1, 2, 3], ["0", "3", "5"]),
        ("b", [1, 2, 3], ["0", "2", "6"]),
    ]
    pushed = await session.fetch(
        "select partition, first_seq, last_seq from laneway.events join laneway.lane using (lane_id) "
        "where action = 'pushed' order by partition, first_seq"
    )
    assert [tuple(row) for row in pushed] == [
        ("a", 1, 1),
        ("a", 2, 3),
        ("b", 1, 1),
        ("b", 2, 3),
    ]


async def test_dedup_key_in_an_open_transaction_is_waited_for(
    session: Session, connect: Connect, queue: Queue
) -> None:
    other, looker = await connect(), await connect()
    transaction = session.transaction()
    await transaction.start()
    (first,) = await push(session, queue, ["1"], partitions=["a"], keys=["k"])
    late = asyncio.create_task(push(other, queue, ["2", "3"], partitions=["b"], keys=["k", "l"]))
    while not await looker.fetchval("select count(*) from pg_locks where not granted"):
        await asyncio.sleep(0.01)
    await transaction.commit()
    places = await late
    assert places[0] == replace(first, duplicate=True)
    assert [(each.seq, each.duplicate) for each in places] == [(1, True), (1, False)]


@pytest.mark.invariant(10)
async def test_racing_duplicates_give_one_message(
    session: Session, connect: Connect, queue: Queue
) -> None:
    sessions = [await connect() for _ in range(4)]
    answers = await asyncio.gather(
        *(
            push(each, queue, ["1", "2"], partitions=[str(n)], keys=["b", "a"][:: 1 - 2 * (n % 2)])
            for n, each in enumerate(sessions)
        )
    )
    fresh = [place for places in answers for place in places if not place.duplicate]
    assert len(fresh) == 2
    assert (await count(session, queue)).queued == 2


async def test_racing_pushes_create_a_lane_once(
    session: Session, connect: Connect, queue: Queue
) -> None:
    sessions = [await connect() for _ in range(6)]
    await asyncio.gather(*(push(each, queue, ["1"], partitions=["new"]) for each in sessions))
    assert (await count(session, queue)).queued == 6
    stripes = await session.fetch("select stripe from laneway.lane order by stripe")
    assert [row["stripe"] for row in stripes] == list(range(len(stripes)))


async def test_push_behind_an_open_transaction_takes_another_stripe(
    session: Session, connect: Connect, queue: Queue
) -> None:
    await push(session, queue, ["0"])
    late = await connect()
    transaction = late.transaction()
    await transaction.start()
    (held,) = await push(late, queue, ["1"])
    (other,) = await push(session, queue, ["2"])
    assert other.lane_id != held.lane_id
    assert [each.body for each in await claim(session, queue, 10)] == ["0", "2"]
    await transaction.commit()
    assert [each.body for each in await claim(session, queue, 10)] == ["1"]


async def test_ordered_queue_waits_for_an_open_transaction(
    session: Session, connect: Connect
) -> None:
    queue = await create_queue(session, ordered=True)
    await push(session, queue, ["0"])
    late, second = await connect(), await connect()
    transaction = late.transaction()
    await transaction.start()
    await push(late, queue, ["1"])
    waiting = asyncio.create_task(push(second, queue, ["2"]))
    while not await session.fetchval(
        "select exists (select from pg_locks where locktype = 'advisory' and not granted)"
    ):
        await asyncio.sleep(0)
    (first,) = await claim(session, queue, 10)
    assert first.body == "0"
    await ack(session, [first])
    await transaction.commit()
    await waiting
    assert [each.body for each in await claim(session, queue, 10)] == ["1", "2"]


@pytest.mark.invariant(14)
async def test_event_is_written_once_per_call_and_queue(session: Session, queue: Queue) -> None:
    other = await create_queue(session, "other")
    await push(session, queue, ["1", "2", "3"])
    await push(session, queue, ["4", "5", "6"], partitions=["a", "b", "b"])
    await push(session, [queue, queue, other], ["7", "8", "9"], partitions=["b", "a", "a"])
    rows = await session.fetch(
        "select event_id, queue_id, coalesce(partition, '-'), first_seq, last_seq from laneway.events "
        "left join laneway.lane using (lane_id, queue_id) where action = 'pushed' order by xid, queue_id, partition"
    )
    assert len({row["event_id"] for row in rows}) == 4
    mine, others = queue.queue_id, other.queue_id
    assert [tuple(row)[1:] for row in rows] == [
        (mine, "", 1, 3),
        (mine, "a", 1, 1),
        (mine, "b", 1, 2),
        (mine, "a", 2, 2),
        (mine, "b", 3, 3),
        (others, "a", 1, 1),
    ]


async def test_queue_may_record_no_events(session: Session) -> None:
    queue = await create_queue(session, record_events=False)
    await push(session, queue, ["1"])
    await push(session, queue, ["2", "3"], partitions=["a", "b"])
    await ack(session, await claim(session, queue, 10))
    assert not await session.fetchval(
        "select exists (select from laneway.events where lane_id is not null)"
    )


async def test_messages_of_one_push_have_increasing_times(session: Session, queue: Queue) -> None:
    """So that a group that delivers by age delivers them in that order, whatever lanes they are in."""
    bodies = [str(n) for n in range(500)]
    await push(session, queue, bodies, partitions=[f"p{n % 7}" for n in range(500)])
    rows = await session.fetch("select body, created_at from laneway.message order by created_at")
    assert [row["body"] for row in rows] == bodies
    assert len({row["created_at"] for row in rows}) == 500
    assert [each.body for each in await claim(session, queue, 500)] == bodies
