"""Consumer groups: start, seek and independence."""

from __future__ import annotations

import asyncio
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
    move,
    nack,
    purge,
    push,
    rotate,
    seek,
    sqlstate,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from datetime import datetime

    from tests.postgres import Connect
    from tests.sql.calls import Delivery, Place, Queue, Session


@pytest.fixture
async def queue(session: Session) -> Queue:
    return await create_queue(session)


def bodies(deliveries: Iterable[Delivery]) -> list[str]:
    return [each.body for each in deliveries]


async def read_moment(session: Session, place: Place) -> datetime:
    moment: datetime = await session.fetchval(
        "select created_at from laneway.message where lane_id = $1 and seq = $2",
        place.lane_id,
        place.seq,
    )
    return moment


async def push_over_segments(session: Session, queue: Queue) -> list[Place]:
    places = await push(session, queue, ["1", "2"], partitions=["a", "b"])
    await rotate(session)
    places += await push(session, queue, ["3", "4"], partitions=["a", "b"])
    return places


async def test_group_may_start_at_the_earliest_message(session: Session, queue: Queue) -> None:
    await push_over_segments(session, queue)
    group = await create_group(session, queue, "all")
    assert await count(session, group) == Counts(queued=4)
    assert bodies(await claim(session, group, 9)) == ["1", "2", "3", "4"]


async def test_group_may_start_at_new_messages(session: Session, queue: Queue) -> None:
    await push_over_segments(session, queue)
    group = await create_group(session, queue, "new", start="new")
    assert await claim(session, group, 9) == []
    await push(session, queue, ["5", "6"], partitions=["a", "c"])
    assert bodies(await claim(session, group, 9)) == ["5", "6"]
    assert await count(session, group) == Counts(processing=2, acknowledged=4)


@pytest.mark.parametrize("first", [0, 1, 2, 3])
async def test_group_may_start_at_a_time(session: Session, queue: Queue, first: int) -> None:
    places = await push_over_segments(session, queue)
    moment = await read_moment(session, places[first])
    group = await create_group(session, queue, "then", start="time", moment=moment)
    assert bodies(await claim(session, group, 9)) == ["1", "2", "3", "4"][first:]


async def test_group_may_start_before_and_after_everything(session: Session, queue: Queue) -> None:
    places = await push_over_segments(session, queue)
    moment = await read_moment(session, places[0])
    early = await create_group(session, queue, "early", start="time", moment=moment - HOUR)
    late = await create_group(session, queue, "late", start="time", moment=moment + HOUR)
    assert len(await claim(session, early, 9)) == 4
    assert await claim(session, late, 9) == []


async def test_groups_are_independent(session: Session, queue: Queue) -> None:
    other = await create_group(session, queue, "other")
    places = await push(session, queue, ["1", "2", "3", "4"])
    got = await claim(session, queue, 2)
    await ack(session, got[:1])
    await nack(session, got[1:], dead=True)
    await edit(session, queue, places[2], "queued", body=9, priority=5)
    await move(session, queue, places[3:], source="queued", target="deleted")
    assert await count(session, queue) == Counts(queued=1, acknowledged=1, dead=1)
    assert await count(session, other) == Counts(queued=4)
    mine = await claim(session, other, 9)
    assert bodies(mine) == ["1", "2", "3", "4"]
    assert await purge(session, queue) == 3
    assert await seek(session, queue, "latest") == 1
    assert await ack(session, mine) == []
    assert await count(session, other) == Counts(acknowledged=4)


async def test_token_of_one_group_settles_nothing_in_another(
    session: Session, queue: Queue
) -> None:
    other = await create_group(session, queue, "other")
    await push(session, queue, ["1"])
    mine = await claim(session, queue, 1)
    theirs = await claim(session, other, 1)
    assert await ack(session, mine) == []
    assert await ack(session, theirs) == []
    assert await count(session, other) == Counts(acknowledged=1)


async def test_seek_to_the_earliest_delivers_all_again(session: Session, queue: Queue) -> None:
    await push_over_segments(session, queue)
    got = await claim(session, queue, 3)
    await ack(session, got[:1])
    await nack(session, got[1:2], delay=HOUR)
    assert await seek(session, queue, "earliest") == 2
    assert await count(session, queue) == Counts(queued=4)
    assert await ack(session, got[2:]) == [0]
    again = await claim(session, queue, 9)
    assert [(each.body, each.attempt) for each in again] == [(b, 1) for b in "1234"]


async def test_seek_to_the_latest_skips_ready_messages(session: Session, queue: Queue) -> None:
    await push_over_segments(session, queue)
    await seek(session, queue, "latest")
    assert await count(session, queue) == Counts(acknowledged=4)
    await push(session, queue, ["5"])
    assert bodies(await claim(session, queue, 9)) == ["5"]


@pytest.mark.parametrize("first", [0, 1, 2, 3])
async def test_seek_to_a_time(session: Session, queue: Queue, first: int) -> None:
    places = await push_over_segments(session, queue)
    await ack(session, await claim(session, queue, 4))
    await seek(session, queue, "time", moment=await read_moment(session, places[first]))
    assert bodies(await claim(session, queue, 9)) == ["1", "2", "3", "4"][first:]


async def test_seek_to_a_seq_of_one_partition(session: Session, queue: Queue) -> None:
    await push_over_segments(session, queue)
    await ack(session, await claim(session, queue, 4))
    assert await seek(session, queue, "seq", seq=2, partition="b") == 1
    assert bodies(await claim(session, queue, 9)) == ["4"]
    assert await seek(session, queue, "seq", seq=99) == 2
    assert await claim(session, queue, 9) == []
    assert await seek(session, queue, "seq", seq=-5) == 2
    assert len(await claim(session, queue, 9)) == 4


async def test_seek_leaves_dead_archived_and_deleted_messages_alone(
    session: Session, queue: Queue
) -> None:
    places = await push(session, queue, ["1", "2", "3", "4"])
    await nack(session, await claim(session, queue, 1), dead=True)
    await move(session, queue, places[1:2], source="queued", target="archived")
    await move(session, queue, places[2:3], source="queued", target="deleted")
    await seek(session, queue, "earliest")
    assert await count(session, queue) == Counts(queued=1, dead=1, archived=1)
    assert bodies(await claim(session, queue, 9)) == ["4"]


async def test_bad_starts_and_targets_are_refused(session: Session, queue: Queue) -> None:
    attempts: tuple[tuple[Callable[[], Awaitable[int]], str], ...] = (
        (lambda: create_group(session, queue, "x", start="middle"), "LW422"),
        (lambda: create_group(session, queue, "x", start="time"), "LW422"),
        (lambda: create_group(session, queue, ""), "LW422"),
        (lambda: create_group(session, queue, "default"), "LW409"),
        (lambda: create_group(session, queue, "x", ordered=True), "LW422"),
        (lambda: seek(session, queue, "middle"), "LW422"),
        (lambda: seek(session, queue, "time"), "LW422"),
        (lambda: seek(session, queue, "seq"), "LW422"),
        (lambda: seek(session, 99, "latest"), "LW404"),
    )
    for attempt, state in attempts:
        with pytest.raises(asyncpg.PostgresError) as caught:
            await attempt()
        assert sqlstate(caught.value) == state
    await session.execute("select laneway.delete_queue('work')")
    with pytest.raises(asyncpg.PostgresError) as caught:
        await create_group(session, queue, "x")
    assert sqlstate(caught.value) == "LW404"


async def test_seek_before_all_seqs_is_to_the_earliest(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"])
    await ack(session, await claim(session, queue, 1))
    assert await seek(session, queue, "seq", seq=-(2**63)) == 1
    assert len(await claim(session, queue, 1)) == 1


async def test_racing_sessions_create_a_group_once(
    session: Session, queue: Queue, connect: Connect
) -> None:
    sessions = [session, await connect(), await connect()]
    made = await asyncio.gather(
        *(create_group(each, queue, "new") for each in sessions), return_exceptions=True
    )
    assert sum(isinstance(each, int) for each in made) == 1
    errors = [each for each in made if isinstance(each, BaseException)]
    assert [sqlstate(each) for each in errors] == ["LW409", "LW409"]


async def test_deleted_group_leaves_nothing_behind(session: Session, queue: Queue) -> None:
    group = await create_group(session, queue, "gone")
    places = await push(session, queue, ["1", "2", "3", "4", "5"])
    got = await claim(session, group, 4)
    await nack(session, got[:1], dead=True)
    await nack(session, got[1:2], delay=HOUR)
    await edit(session, group, places[1], "queued", body=9)
    await move(session, group, places[4:], source="queued", target="archived")
    await session.execute("select laneway.delete_group('work', 'gone')")
    assert await find_orphans(session) == {}
    assert await ack(session, got[2:]) == [0, 1]
    assert await count(session, queue) == Counts(queued=5)


async def test_own_group_of_a_queue_cannot_be_deleted(session: Session, queue: Queue) -> None:
    for name, state in (("default", "LW422"), ("nobody", "LW404")):
        with pytest.raises(asyncpg.PostgresError) as caught:
            await session.execute("select laneway.delete_group($1, $2)", queue.name, name)
        assert sqlstate(caught.value) == state
