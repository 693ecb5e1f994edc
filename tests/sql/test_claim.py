"""Claims of shared groups: order, batches, filters, leases."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest

from tests.sql.calls import (
    HOUR,
    ack,
    claim,
    count,
    create_group,
    create_queue,
    move,
    nack,
    push,
    rotate,
    sqlstate,
    sweep_idle,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.postgres import Connect
    from tests.sql.calls import Delivery, Queue, Session


WAITS_FOR_LANES = """
select exists (select from pg_locks where relation = 'laneway.lane'::regclass and not granted)
"""


@pytest.fixture
async def queue(session: Session) -> Queue:
    return await create_queue(session)


def bodies(deliveries: Iterable[Delivery]) -> list[str]:
    return [each.body for each in deliveries]


async def test_higher_priority_comes_first_then_age(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3", "4"], priorities=[0, 9, 5, 9])
    assert bodies(await claim(session, queue, 10)) == ["2", "4", "3", "1"]


async def test_partitions_are_merged_by_age(session: Session, queue: Queue) -> None:
    for n in range(60):
        await push(session, queue, [str(n)], partitions=["abcd"[n * 7 % 4]])
    taken: list[str] = []
    for size in (1, 7, 20, 50):
        taken += bodies(await claim(session, queue, size))
    assert taken == [str(n) for n in range(60)]


async def test_message_removed_from_a_lane_does_not_change_the_order(
    session: Session, queue: Queue
) -> None:
    places = await push(session, queue, ["1", "2", "3"], partitions=["a"])
    await push(session, queue, ["4"], partitions=["b"])
    await move(session, queue, places[1:2], source="queued", target="deleted")
    assert bodies(await claim(session, queue, 10)) == ["1", "3", "4"]


async def test_stripes_are_one_queue(session: Session, connect: Connect, queue: Queue) -> None:
    late = await connect()
    await push(session, queue, ["0"])
    await ack(session, await claim(session, queue, 1))
    for n in range(10):
        async with late.transaction():
            await push(late, queue, [f'"a{n}"'])
            await push(session, queue, [f'"b{n}"'])
    assert await session.fetchval("select count(*) from laneway.lane") == 2
    got = bodies(await claim(session, queue, 20))
    assert got == [f'"{side}{n}"' for n in range(10) for side in "ab"]


async def test_waiters_are_served_in_turn(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3", "4"])
    got = await claim(session, queue, 1, 0, 2, 5, consumers=["a", None, "b", "c"])
    assert [(each.waiter, each.body) for each in got] == [(0, "1"), (2, "2"), (2, "3"), (3, "4")]
    assert len({each.token for each in got}) == 3
    rows = await session.fetch("select consumer from laneway.claim order by first_seq")
    assert [row["consumer"] for row in rows] == ["a", "b", "c"]


async def test_waiters_are_served_in_turn_from_several_lanes(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, [str(n) for n in range(12)], partitions=list("abc" * 4))
    got = await claim(session, queue, *([1] * 5), 4)
    assert [(each.waiter, each.body) for each in got] == [
        *((n, str(n)) for n in range(5)),
        *((5, str(n)) for n in range(5, 9)),
    ]


async def claim_in_the_end(session: Session, queue: Queue, want: int) -> list[Delivery]:
    while True:
        try:
            return await claim(session, queue, want)
        except asyncpg.PostgresError as error:
            assert sqlstate(error) == "LW503"  # noqa: PT017 - told to call again


@pytest.mark.invariant(4)
async def test_concurrent_claims_return_no_message_twice(
    session: Session, connect: Connect, queue: Queue
) -> None:
    await push(session, queue, [str(n) for n in range(200)], partitions=list("ab" * 100))
    sessions = [await connect() for _ in range(5)]
    batches = await asyncio.gather(*(claim_in_the_end(each, queue, 40) for each in sessions))
    taken = [each.body for batch in batches for each in batch]
    assert len(taken) == len(set(taken))
    taken += bodies(await claim(session, queue, 200))
    assert sorted(taken, key=int) == [str(n) for n in range(200)]


async def test_claim_may_ask_for_a_partition(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"], partitions=["a", "b", "b"], priorities=[9, 0, 1])
    assert bodies(await claim(session, queue, 10, partition="b")) == ["3", "2"]
    assert await claim(session, queue, 10, partition="c") == []


async def test_partition_filter_finds_nacked_messages(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2"], partitions=["a", "b"])
    await nack(session, await claim(session, queue, 2))
    assert bodies(await claim(session, queue, 10, partition="b")) == ["2"]


async def test_claim_may_ask_for_a_priority(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"], priorities=[1, 2, 1])
    assert bodies(await claim(session, queue, 10, priority=1)) == ["1", "3"]


async def test_lease_is_the_callers_then_the_messages_then_the_queues(session: Session) -> None:
    queue = await create_queue(session, lease="10 minutes")
    await push(session, queue, ["1", "2"], leases=[HOUR, None])
    got = await claim(session, queue, 2)
    now = await session.fetchval("select clock_timestamp()")
    assert [round((each.until - now) / timedelta(minutes=1)) for each in got] == [60, 10]
    await push(session, queue, ["3"], leases=[HOUR])
    (third,) = await claim(session, queue, 1, leases=[timedelta(minutes=3)])
    assert round((third.until - now) / timedelta(minutes=1)) == 3


async def test_failed_message_comes_before_the_rest_of_its_priority(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3"], priorities=[0, 0, 5])
    got = await claim(session, queue, 2)
    assert bodies(got) == ["3", "1"]
    await nack(session, got[1:])
    assert bodies(await claim(session, queue, 2)) == ["1", "2"]


async def test_any_number_of_delayed_messages_is_skipped(session: Session, queue: Queue) -> None:
    await push(session, queue, [str(n) for n in range(5000)], delays=[HOUR])
    await push(session, queue, ['"now"', '"then"'])
    assert bodies(await claim(session, queue, 1)) == ['"now"']
    assert bodies(await claim(session, queue, 5)) == ['"then"']
    assert (await count(session, queue)).queued == 5000


async def test_many_lanes_are_all_served(session: Session, queue: Queue) -> None:
    names = [str(n) for n in range(100)]
    await push(session, queue, names * 2, partitions=names * 2)
    taken: list[str] = []
    while got := await claim(session, queue, 13):
        taken += bodies(got)
        await ack(session, got)
    assert sorted(taken) == sorted(names * 2)


async def test_claim_continues_over_segments(session: Session, queue: Queue) -> None:
    for n in range(6):
        await push(session, queue, [str(n)], partitions=["a"])
        if n % 2:
            await rotate(session)
    assert bodies(await claim(session, queue, 1)) == ["0"]
    assert bodies(await claim(session, queue, 3)) == ["1", "2", "3"]
    assert bodies(await claim(session, queue, 10)) == ["4", "5"]


async def test_idle_lane_becomes_ready_after_a_push(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"])
    await ack(session, await claim(session, queue, 1))
    assert await sweep_idle(session) == 1
    assert await claim(session, queue, 1) == []
    await push(session, queue, ["2"])
    assert bodies(await claim(session, queue, 1)) == ["2"]


async def test_lane_does_not_become_idle_during_a_push(
    session: Session, connect: Connect, queue: Queue
) -> None:
    await push(session, queue, ["1"])
    await ack(session, await claim(session, queue, 1))
    late = await connect()
    async with late.transaction():
        await push(late, queue, ["2"])
        assert await sweep_idle(session) == 0
    assert bodies(await claim(session, queue, 1)) == ["2"]


async def test_groups_are_independent(session: Session, queue: Queue) -> None:
    other = await create_group(session, queue, "other")
    await push(session, queue, ["1", "2"])
    got = await claim(session, queue, 2)
    await nack(session, got[:1], dead=True)
    await ack(session, got[1:])
    assert bodies(await claim(session, other, 10)) == ["1", "2"]
    assert (await count(session, other)).dead == 0


async def test_claim_of_zero_messages_returns_none(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"])
    assert await claim(session, queue, 0) == []


async def test_unknown_group_is_refused(session: Session) -> None:
    with pytest.raises(asyncpg.PostgresError, match="group 999") as error:
        await claim(session, 999, 1)
    assert sqlstate(error.value) == "LW404"


async def test_too_much_for_one_waiter_is_refused(session: Session, queue: Queue) -> None:
    with pytest.raises(asyncpg.PostgresError, match="too many messages requested: 10001") as error:
        await claim(session, queue, 10001)
    assert sqlstate(error.value) == "LW422"


async def test_too_much_for_one_call_is_refused(session: Session, queue: Queue) -> None:
    with pytest.raises(
        asyncpg.PostgresError, match="too many messages requested in one call: 60000"
    ):
        await claim(session, queue, *[10000] * 6)


async def test_negative_number_of_messages_is_refused(session: Session, queue: Queue) -> None:
    with pytest.raises(asyncpg.PostgresError, match="invalid number of messages requested: -1"):
        await claim(session, queue, 1, -1)


async def test_lease_of_no_time_is_refused(session: Session, queue: Queue) -> None:
    with pytest.raises(asyncpg.PostgresError, match="lease must be positive") as error:
        await claim(session, queue, 1, leases=[timedelta(0)])
    assert sqlstate(error.value) == "LW422"


async def test_parked_messages_a_million_apart_are_claimed_apart(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2"])
    await nack(session, await claim(session, queue, 2))
    for table in ("message", "progress", "parked"):
        await session.execute(f"update laneway.{table} set seq = 1000002 where seq = 2")
    await session.execute("update laneway.parked set available_at = now() - seq * interval '1 ms'")
    got = await claim(session, queue, 2)
    assert [(each.body, each.seq) for each in got] == [("2", 1000002), ("1", 1)]
    spans = await session.fetch("select first_seq, last_seq from laneway.claim order by first_seq")
    assert [tuple(span) for span in spans] == [(1, 1), (1000002, 1000002)]


@pytest.mark.invariant(14)
async def test_claim_event_names_consumer_and_messages(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"])
    got = await claim(session, queue, 2, 1, consumers=["ada", "bob"])
    rows = await session.fetch(
        "select first_seq, last_seq, token, consumer from laneway.events "
        "where action = 'claimed' order by first_seq"
    )
    assert [tuple(row) for row in rows] == [
        (1, 2, got[0].token, "ada"),
        (3, 3, got[2].token, "bob"),
    ]


@pytest.mark.parametrize("lanes", [1, 3])
async def test_tokens_of_a_call_share_no_half(session: Session, lanes: int) -> None:
    queue = await create_queue(session, "guarded")
    await push(session, queue, ["1"] * 60, partitions=[str(n % lanes) for n in range(60)])
    tokens = {each.token for each in await claim(session, queue, *[1] * 60)}
    assert len(tokens) == 60
    # Whatever of its halves one looks at, no two have it in common.
    for shift in (0, 64):
        assert len({token.int >> shift & (1 << 64) - 1 for token in tokens}) == 60


@pytest.mark.parametrize("ordered", [False, True], ids=["shared", "ordered"])
async def test_stopped_worker_is_not_redelivered_its_own_messages(
    session: Session, *, ordered: bool
) -> None:
    queue = await create_queue(session, "jobs", ordered=ordered)
    await register(session, "worker")
    await push(session, queue, ["1"])
    await claim(session, queue, 5, consumers=["worker"])
    await session.execute("select laneway.reclaim_worker('worker', true)")
    assert await claim(session, queue, 5, consumers=["worker"]) == []
    # Who waits beside it gets the message.
    (again,) = await claim(session, queue, 5, 5, consumers=["worker", None])
    assert (again.waiter, again.body, again.attempt) == (1, "1", 1)


@pytest.mark.parametrize("ordered", [False, True], ids=["shared", "ordered"])
async def test_stopped_worker_of_other_queues_receives_redelivered_messages(
    session: Session, *, ordered: bool
) -> None:
    jobs = await create_queue(session, "jobs")
    other = await create_queue(session, "other", ordered=ordered)
    await register(session, "worker")
    await push(session, jobs, ["0"])
    await push(session, other, ["1"])
    await claim(session, jobs, 5, consumers=["worker"])
    await claim(session, other, 5, consumers=["worker"])
    reclaimed = await session.fetch("select * from laneway.reclaim_worker('worker', true)")
    assert [row["messages"] for row in reclaimed] == [1]
    await session.execute(
        "select laneway.return_messages(c.token, c.lane_id, c.part, c.pending, 'release', null, null, null, 'released')"
        " from laneway.claim c"
    )
    (again,) = await claim(session, other, 5, consumers=["worker"])
    assert again.body == "1"
    assert await claim(session, jobs, 5, consumers=["worker"]) == []


async def test_worker_of_two_queues_is_reclaimed_in_both(session: Session) -> None:
    queues = [await create_queue(session, name) for name in ("one", "two")]
    await session.execute(
        "select laneway.register_worker('worker', 'w', 'here', 1, '{one,two}', interval '1 hour')"
    )
    for queue in queues:
        await push(session, queue, ["1"])
        await claim(session, queue, 5, consumers=["worker"])
    assert await session.fetchval("select laneway.count_in_flight_of_worker('worker')") == 2
    reclaimed = await session.fetch("select * from laneway.reclaim_worker('worker')")
    assert [row["messages"] for row in reclaimed] == [1, 1]
    assert await session.fetchval("select laneway.count_in_flight_of_worker('worker')") == 0
    assert await session.fetchval("select count(*) from laneway.claim") == 0


async def test_worker_of_a_renamed_queue_is_reclaimed(session: Session) -> None:
    queue = await create_queue(session, "jobs")
    await register(session, "worker")
    await push(session, queue, ["1"])
    await claim(session, queue, 5, consumers=["worker"])
    await session.execute("select laneway.rename_queue('jobs', 'tasks')")
    assert await session.fetchval("select laneway.count_in_flight_of_worker('worker')") == 1
    reclaimed = await session.fetch("select * from laneway.reclaim_worker('worker')")
    assert [row["messages"] for row in reclaimed] == [1]
    assert await claim(session, queue, 5, consumers=["worker"]) == []


async def test_worker_stopped_during_its_claim_is_not_redelivered_its_own_messages(
    session: Session, connect: Connect
) -> None:
    queue = await create_queue(session, "jobs")
    await register(session, "worker")
    await push(session, queue, ["1"], partitions=["a"])
    await claim(session, queue, 5, consumers=["worker"])
    other = await connect()
    async with session.transaction():
        # Which the claim reads once it has seen that the worker runs.
        await session.execute("lock table laneway.lane in access exclusive mode")
        claiming = asyncio.create_task(claim(other, queue, 5, consumers=["worker"], partition="a"))
        async with asyncio.timeout(30):
            while not await session.fetchval(WAITS_FOR_LANES):
                await asyncio.sleep(0.01)
        await session.execute("select laneway.reclaim_worker('worker', true)")
    with pytest.raises(asyncpg.PostgresError) as refused:
        await claiming
    assert sqlstate(refused.value) == "LW503"
    assert await claim(session, queue, 5, consumers=["worker"]) == []
    assert bodies(await claim(session, queue, 5)) == ["1"]


async def register(session: Session, worker: str) -> None:
    await session.execute(
        "select laneway.register_worker($1, 'w', 'here', 1, array['jobs'], interval '1 hour')",
        worker,
    )
