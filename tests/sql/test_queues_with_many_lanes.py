"""Operations on queues of very many lanes run in steps that fit the lock table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import pytest

from tests.sql.calls import (
    ack,
    claim,
    count_by_subtraction,
    create_group,
    create_queue,
    find_orphans,
    purge,
    push,
    sqlstate,
    start_and_block,
)

if TYPE_CHECKING:
    from tests.postgres import Connect
    from tests.sql.calls import Queue, Session

LANES = 2500

# Of an ordinary server's 6400, which all its sessions share.
MOST_LOCKS = 2100


async def widen(session: Session, queue: Queue, lanes: int = LANES) -> None:
    """Have a message in each of many lanes, written at once as pushes would have one by one."""
    await session.execute(
        "insert into laneway.lane (queue_id, partition, priority) "
        "select $1, n::text, 0 from generate_series(1, $2::int) n",
        queue.queue_id,
        lanes,
    )
    await session.execute(
        "insert into laneway.reader (group_id, lane_id, priority) "
        "select g.group_id, l.lane_id, 0 from laneway.lane l "
        "join laneway.consumer_group g on g.queue_id = l.queue_id where l.queue_id = $1",
        queue.queue_id,
    )
    await session.execute(
        "insert into laneway.progress (reader_id, segment, seq, moved_at) "
        "select r.reader_id, laneway.current_segment(true), 0, clock_timestamp() "
        "from laneway.reader r"
    )
    await session.execute(
        "insert into laneway.message (segment, lane_id, seq, created_at, body) "
        "select laneway.current_segment(true), l.lane_id, 1, clock_timestamp(), '1' "
        "from laneway.lane l where l.queue_id = $1",
        queue.queue_id,
    )
    await session.execute("analyze laneway.lane, laneway.reader, laneway.progress")


async def forget_all(session: Session) -> int:
    """Sweep until nothing is left, and return how many sweeps that took."""
    sweeps = 0
    while True:
        async with session.transaction():
            if not await session.fetchval("select laneway.sweep_forgotten()"):
                return sweeps
            assert await count_locks(session) < MOST_LOCKS
        sweeps += 1


async def rest_all(session: Session, group: int) -> None:
    after = None
    while True:
        async with session.transaction():
            after = await session.fetchval("select laneway.mark_readers_idle($1, $2)", group, after)
            assert await count_locks(session) < MOST_LOCKS
        if after is None:
            return


async def count_locks(session: Session) -> int:
    count: int = await session.fetchval(
        "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
    )
    return count


@pytest.mark.parametrize(
    ("statement", "total"),
    [
        ("select * from laneway.purge($1, null, $2, coalesce($3, 0))", LANES),
        ("select * from laneway.purge($1, 'queued', $2, coalesce($3, 0))", LANES),
        ("select * from laneway.seek($1, 'latest', null, null, null, $2, coalesce($3, 0))", LANES),
        (
            "select * from laneway.delete_between($1, '-infinity', 'infinity', $2, coalesce($3, 0))",
            LANES,
        ),
    ],
)
async def test_operation_on_many_lanes_runs_in_steps(
    session: Session, statement: str, total: int
) -> None:
    queue = await create_queue(session)
    await widen(session, queue)
    done, after, steps = 0, None, 0
    while steps == 0 or after is not None:
        async with session.transaction():
            row = await session.fetchrow(statement, queue.group_id, after, done)
            assert row is not None
            done, after = row
            assert await count_locks(session) < MOST_LOCKS
        steps += 1
    assert (done, steps) == (total, LANES // 500 + 1)
    assert (await count_by_subtraction(session, queue)).queued == 0
    [place] = await push(session, queue, ["2"], partitions=["777"])
    assert place.seq == 2
    [got] = await claim(session, queue, 1)
    assert got.place == place
    recorded = await session.fetchval(
        "select count(*) from laneway.events where action in ('purged', 'sought')"
    )
    assert recorded == 1


async def test_retention_reaches_every_queue_with_many_lanes(session: Session) -> None:
    queues = [
        await create_queue(session, name, message_ttl="1 microsecond") for name in ("one", "two")
    ]
    await create_group(session, queues[0], "other")
    for queue in queues:
        await widen(session, queue, 400)
    left: list[int] = []
    for _ in range(100):
        async with session.transaction():
            await session.execute("select laneway.retain()")
            assert await count_locks(session) < 600
        left = [(await count_by_subtraction(session, queue)).queued for queue in queues]
        if not any(left):
            break
    assert left == [0, 0]


async def test_group_created_at_the_end_of_many_lanes_gets_new_messages(
    session: Session,
) -> None:
    queue = await create_queue(session, ordered=True)
    await widen(session, queue)
    for ordered in (False, True):
        group = await create_group(session, queue, f"late {ordered}", ordered=ordered, start="new")
        await rest_all(session, group)
        assert await session.fetchval("select count(*) from laneway.reader where ready") == LANES
        [place] = await push(session, queue, [f'"{ordered}"'], partitions=["42"])
        [got] = await claim(session, group, 1)
        assert (got.lane_id, got.seq) == (place.lane_id, place.seq)
        assert await claim(session, group, 1) == []
        await session.execute("select laneway.delete_group('work', $1)", f"late {ordered}")
    assert await find_orphans(session) == {}
    assert await forget_all(session) == 2 * LANES // 1000
    await session.execute("select laneway.delete_queue('work', true)")
    assert await find_orphans(session) == {}
    await forget_all(session)
    assert await session.fetchval("select count(*) from laneway.progress") == 0
    assert await session.fetchval("select count(*) from laneway.lane") == 0


async def test_queue_with_many_lanes_is_deleted_only_when_empty(
    session: Session, connect: Connect
) -> None:
    queue = await create_queue(session)
    await widen(session, queue)
    with pytest.raises(asyncpg.PostgresError) as caught:
        await session.execute("select laneway.delete_queue('work')")
    assert sqlstate(caught.value) == "LW409"
    assert await purge(session, queue) == LANES
    other = await connect()
    async with other.transaction():
        await push(other, queue, ["5"], partitions=["7"])
        with pytest.raises(asyncpg.PostgresError) as caught:
            await session.execute("select laneway.delete_queue('work')")
        assert sqlstate(caught.value) == "LW503"
    with pytest.raises(asyncpg.PostgresError) as caught:
        await session.execute("select laneway.delete_queue('work')")
    assert sqlstate(caught.value) == "LW409"
    assert [each.body for each in await claim(session, queue, 10)] == ["5"]


@pytest.mark.parametrize("keys", [None, ["a"]], ids=["plain", "keyed"])
@pytest.mark.parametrize("ordered", [False, True], ids=["shared", "ordered"])
async def test_push_that_waited_for_the_deletion_of_many_lanes_is_refused(
    session: Session, connect: Connect, *, ordered: bool, keys: list[str] | None
) -> None:
    queue = await create_queue(session, ordered=ordered)
    await widen(session, queue)
    await purge(session, queue)
    other = await connect()
    transaction = session.transaction()
    await transaction.start()
    await session.execute("select laneway.delete_queue('work')")
    pushing = await start_and_block(
        await connect(), other, push(other, queue, ["2"], partitions=["7"], keys=keys)
    )
    await transaction.commit()
    with pytest.raises(asyncpg.PostgresError) as caught:
        await pushing
    assert sqlstate(caught.value) == "LW404"
    assert await find_orphans(session) == {}


async def test_deletion_of_many_lanes_waits_for_an_open_claim(
    session: Session, connect: Connect
) -> None:
    queue = await create_queue(session)
    await widen(session, queue)
    other = await connect()
    async with other.transaction():
        [got] = await claim(other, queue, 1)
        await session.execute("select laneway.delete_queue('work', true)")
        # All but the one that is being read.
        await forget_all(session)
        assert await session.fetchval("select count(*) from laneway.forgotten") == 1
    assert await session.fetchval("select count(*) from laneway.claim") == 1
    assert await forget_all(session) == 1
    assert await session.fetchval("select count(*) from laneway.claim") == 0
    assert await ack(session, [got]) == [0]
    assert await find_orphans(session) == {}
