"""Empty lanes are removed, so any number of partitions may come and go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg
import pytest

from tests.sql.calls import (
    Counts,
    ack,
    claim,
    count,
    create_group,
    create_queue,
    find_orphans,
    keep_nothing,
    move,
    nack,
    push,
    retain,
    rotate,
    sqlstate,
    sweep_idle,
)

if TYPE_CHECKING:
    from tests.postgres import Connect
    from tests.sql.calls import Queue, Session


@pytest.fixture(params=[False, True], ids=["shared", "ordered"])
async def queue(session: Session, request: pytest.FixtureRequest) -> Queue:
    await keep_nothing(session)
    return await create_queue(session, ordered=request.param)


async def sweep_lanes(session: Session) -> int:
    removed: int = await session.fetchval(
        "select removed from laneway.sweep_lanes(null, 100000, '0')"
    )
    return removed


async def age(session: Session) -> None:
    """Let readers rest, and let all that is settled pass retention, messages and events."""
    await sweep_idle(session)
    await rotate(session)
    await retain(session)


async def settle(session: Session, group: Queue | int) -> None:
    while got := await claim(session, group, *[1] * 100):
        assert await ack(session, got) == []


async def test_short_lived_partitions_leave_no_rows(session: Session, queue: Queue) -> None:
    ids: set[int] = set()
    for _ in range(3):
        places = await push(session, queue, ["1"] * 60, partitions=[str(n) for n in range(60)])
        assert {each.seq for each in places} == {1}
        # Never an id that has been another's.
        assert ids.isdisjoint(each.lane_id for each in places)
        ids.update(each.lane_id for each in places)
        assert await sweep_lanes(session) == 0
        await settle(session, queue)
        await age(session)
        assert await sweep_lanes(session) == 60
        assert await session.fetchval("select count(*) from laneway.lane") == 0
        assert await session.fetchval("select count(*) from laneway.progress") == 0
        assert await count(session, queue) == Counts()
    assert await find_orphans(session) == {}


@pytest.mark.parametrize("rest", ["queued", "processing", "dead", "archived", "group", "kept"])
async def test_lane_with_messages_stays(session: Session, queue: Queue, rest: str) -> None:
    if rest == "group":
        await create_group(session, queue, "slow")
    [place] = await push(session, queue, ["1"])
    if rest != "queued":
        got = await claim(session, queue, 1)
        if rest == "dead":
            await nack(session, got, dead=True)
        elif rest == "archived":
            await move(session, queue, [place], source="processing", target="archived")
        elif rest != "processing":
            await ack(session, got)
    if rest == "kept":
        await session.execute("update laneway.policy set event_retention = '1 hour'")
    await age(session)
    before = await count(session, queue)
    assert await sweep_lanes(session) == 0
    assert await count(session, queue) == before
    [after] = await push(session, queue, ["2"])
    assert (after.lane_id, after.seq) == (place.lane_id, 2)


async def test_new_lane_stays(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"])
    await settle(session, queue)
    await age(session)
    assert await session.fetchval("select removed from laneway.sweep_lanes()") == 0
    assert await sweep_lanes(session) == 1


async def test_push_that_waited_for_a_removed_lane_fails_as_retryable(
    session: Session, connect: Connect
) -> None:
    await keep_nothing(session)
    queue = await create_queue(session, ordered=True)
    await push(session, queue, ["1"])
    await settle(session, queue)
    await age(session)
    other = await connect()
    looker = await connect()
    transaction = session.transaction()
    await transaction.start()
    assert await sweep_lanes(session) == 1
    pushing = asyncio.ensure_future(push(other, queue, ["2"]))
    while not await looker.fetchval("select count(*) from pg_locks where not granted"):
        await asyncio.sleep(0.01)
    await transaction.commit()
    with pytest.raises(asyncpg.PostgresError) as caught:
        await pushing
    assert sqlstate(caught.value) == "LW503"
    [place] = await push(other, queue, ["2"])
    assert place.seq == 1
    assert [each.body for each in await claim(session, queue, 1)] == ["2"]


async def test_concurrent_pushes_and_sweeps_lose_nothing(connect: Connect, queue: Queue) -> None:
    done = asyncio.Event()
    got: list[str] = []

    async def produce(connection: Session, name: str) -> None:
        for n in range(150):
            while True:
                try:
                    await push(connection, queue, [f'"{name}{n}"'], partitions=[str(n % 3)])
                    break
                except asyncpg.PostgresError as error:
                    assert sqlstate(error) in {"LW503", "40P01"}  # noqa: PT017 - told to call again

    async def sweep() -> None:
        connection = await connect()
        while not done.is_set():
            # As if nothing of what was settled were kept.
            await connection.execute("select laneway.sweep_idle(1000, '0')")
            await connection.execute(
                "delete from laneway.message m using laneway.reader r where r.lane_id = m.lane_id "
                "and not r.ready and pg_try_advisory_xact_lock("
                "'laneway.reader'::regclass::oid::int, r.reader_id)"
                "and pg_try_advisory_xact_lock('laneway.lane'::regclass::oid::int, r.lane_id)"
                "and not exists (select from laneway.claim c where c.reader_id = r.reader_id)"
                "and not exists (select from laneway.parked k where k.reader_id = r.reader_id)"
            )
            await connection.execute("delete from laneway.event")
            await sweep_lanes(connection)

    async def consume() -> None:
        connection = await connect()
        while len(got) < 300:
            try:
                batch = await claim(connection, queue, 1, 1, 1)
            except asyncpg.PostgresError as error:
                assert sqlstate(error) in {"LW503", "40P01"}  # noqa: PT017 - told to call again
                continue
            assert await ack(connection, batch) == []
            got.extend(each.body for each in batch)

    sweeping = asyncio.ensure_future(sweep())
    async with asyncio.timeout(60):
        await asyncio.gather(
            produce(await connect(), "a"), produce(await connect(), "b"), consume()
        )
    done.set()
    await sweeping
    assert sorted(got) == sorted(f'"{name}{n}"' for name in "ab" for n in range(150))
