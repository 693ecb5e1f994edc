"""Timers in SQL: pushed once, in order, never early; cancelled timers never."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg
import pytest

from tests.sql.calls import start_and_block

if TYPE_CHECKING:
    from tests.postgres import Connect
    from tests.sql.calls import Session

APPLY = "select * from laneway.apply_timers($1, $2, $3, $4, $5, $6, $7, $8, $9)"
NOW = timedelta(0)
LATER = timedelta(hours=1)


@pytest.fixture
async def queue(session: Session) -> int:
    return await make_queue(session)


async def make_queue(session: Session, name: str = "work", **more: Any) -> int:
    options = {"ordered": True, "dedup_scope": "partition", **more}
    queue: int = await session.fetchval(
        "select laneway.create_queue($1, $2)", name, json.dumps(options)
    )
    return queue


async def apply(
    session: Session, queue: int | None, *timers: tuple[str, timedelta | None, Any], **more: Any
) -> list[Any]:
    """Set timers, given by key, delay and body; cancel those without a delay."""
    count = len(timers)
    return list(
        await session.fetch(
            APPLY,
            [queue] * count,
            [key for key, _, _ in timers],
            [uuid4() for _ in timers],
            [delay for _, delay, _ in timers],
            more.get("partitions", ["p"] * count),
            more.get("dedup_keys", [f"of-{key}-{body}" for key, _, body in timers]),
            [None] * count,
            [None if body is None else json.dumps(body) for _, _, body in timers],
            [more.get("guards", 0)] * count,
        )
    )


async def schedule(session: Session, queue: int, key: str, delay: timedelta, **more: Any) -> Any:
    return (await apply(session, queue, (key, delay, key), **more))[0]


async def cancel(session: Session, queue: int | None, key: str) -> Any:
    return (await apply(session, queue, (key, None, None)))[0]


async def fire(session: Session, limit: int = 500) -> tuple[list[int], timedelta | None]:
    *pushed, last = await session.fetch("select * from laneway.fire_timers($1)", limit)
    assert last["queue_id"] is None
    return [row["queue_id"] for row in pushed], last["until_next"]


async def pending(session: Session, queue: int) -> list[str]:
    rows = await session.fetch("select key from laneway.list_timers($1)", queue)
    return [row["key"] for row in rows]


async def log(session: Session, queue: int) -> list[Any]:
    rows = await session.fetch(
        "select m.body, m.key from laneway.message m join laneway.lane l using (lane_id) "
        "where l.queue_id = $1 order by l.partition, m.seq",
        queue,
    )
    return [json.loads(row["body"]) for row in rows]


async def test_due_timer_is_pushed_once_and_is_gone(session: Session, queue: int) -> None:
    done = await schedule(session, queue, "a", NOW)
    assert (done["status"], done["dedup_key"]) == ("scheduled", "of-a-a")
    assert await fire(session) == ([queue], None)
    assert await log(session, queue) == ["a"]
    assert await pending(session, queue) == []
    assert await fire(session) == ([], None)
    assert await log(session, queue) == ["a"]


async def test_timer_is_not_pushed_before_its_time(session: Session, queue: int) -> None:
    done = await schedule(session, queue, "a", LATER)
    clock = await session.fetchval("select clock_timestamp()")
    assert timedelta(minutes=59) < done["deliver_at"] - clock <= LATER
    pushed, left = await fire(session)
    assert (pushed, await log(session, queue)) == ([], [])
    assert left is not None
    assert timedelta(minutes=59) < left <= LATER
    # As if the hour were over.
    await session.execute("update laneway.timer set due_at = clock_timestamp()")
    assert await fire(session) == ([queue], None)


async def test_timers_are_pushed_in_order_of_their_times(session: Session, queue: int) -> None:
    delays = {"c": -1, "a": -3, "d": -1, "b": -2}
    for key, seconds in delays.items():
        await schedule(session, queue, key, timedelta(seconds=seconds))
    await fire(session, limit=2)
    await fire(session, limit=2)
    assert await log(session, queue) == ["a", "b", "c", "d"]


async def test_timer_set_again_replaces_the_first(session: Session, queue: int) -> None:
    first = await schedule(session, queue, "a", LATER)
    [second] = await apply(session, queue, ("a", NOW, "other"))
    assert second["status"] == "rescheduled"
    assert second["deliver_at"] < first["deliver_at"]
    assert second["timer_id"] != first["timer_id"]
    assert await pending(session, queue) == ["a"]
    await fire(session)
    assert await log(session, queue) == ["other"]


async def test_cancelled_timer_is_not_pushed(session: Session, queue: int) -> None:
    done = await schedule(session, queue, "a", NOW)
    found = await cancel(session, queue, "a")
    assert (found["status"], found["dedup_key"]) == ("cancelled", done["dedup_key"])
    absent = await cancel(session, queue, "a")
    assert absent["status"] == "absent"
    assert (await cancel(session, None, "a"))["status"] == "absent"
    await fire(session)
    assert await log(session, queue) == []


async def test_message_that_was_pushed_before_is_not_pushed_again(
    session: Session, queue: int
) -> None:
    await session.fetch(
        "select laneway.push_many(array[$1::int], array['1'::json], array['p'], p_keys => array['k'])",
        queue,
    )
    await apply(session, queue, ("a", NOW, 2), ("b", NOW, 3), dedup_keys=["k", "k2"])
    await fire(session)
    assert await log(session, queue) == [1, 3]
    assert await pending(session, queue) == []


async def test_full_queue_gets_the_rest_when_it_has_room(session: Session) -> None:
    queue = await make_queue(session, "small", max_messages=2)
    for key in "abc":
        await schedule(session, queue, key, NOW)
    await fire(session)
    assert await log(session, queue) == ["a", "b"]
    [left] = await session.fetch("select * from laneway.list_timers($1)", queue)
    assert (left["key"], left["attempts"]) == ("c", 1)
    assert "full" in left["error"]
    await session.execute("update laneway.queue set max_messages = 10")
    await session.execute("update laneway.timer set due_at = clock_timestamp()")
    await fire(session)
    assert await log(session, queue) == ["a", "b", "c"]


async def test_timers_of_a_deleted_queue_are_gone(session: Session, queue: int) -> None:
    await schedule(session, queue, "a", LATER)
    with pytest.raises(asyncpg.PostgresError, match="pending timers"):
        await session.execute("select laneway.delete_queue('work')")
    await session.execute("select laneway.delete_queue('work', true)")
    assert await session.fetchval("select count(*) from laneway.timer") == 0
    with pytest.raises(asyncpg.PostgresError, match="does not exist"):
        await schedule(session, queue, "a", LATER)


async def test_timer_that_cannot_be_pushed_is_refused(session: Session, queue: int) -> None:
    await session.execute("update laneway.queue set max_bytes = 10")
    with pytest.raises(asyncpg.PostgresError, match="allows at most 10") as caught:
        await apply(session, queue, ("a", NOW, 1), ("b", NOW, "x" * 20))
    assert caught.value.sqlstate == "LW413"
    with pytest.raises(asyncpg.PostgresError, match="too long"):
        await apply(session, queue, ("a", NOW, 1), dedup_keys=["k" * 1000], partitions=["p" * 1001])
    with pytest.raises(asyncpg.PostgresError, match="options changed"):
        await apply(session, queue, ("a", NOW, 1), guards=1)
    assert await pending(session, queue) == []
    # What was stored before the limit fell is still pushed.
    await session.execute("update laneway.queue set max_bytes = 100")
    await apply(session, queue, ("a", NOW, "x" * 20))
    await session.execute("update laneway.queue set max_bytes = 10")
    await fire(session)
    assert await log(session, queue) == ["x" * 20]


async def test_longest_names_can_be_pushed(session: Session, queue: int) -> None:
    noise = "".join(uuid4().hex for _ in range(64))
    await apply(
        session, queue, (noise[:2000], NOW, 1), dedup_keys=[noise[:1600]], partitions=[noise[:400]]
    )
    await fire(session)
    assert await log(session, queue) == [1]


async def test_failed_push_keeps_the_timer_and_its_error(session: Session, queue: int) -> None:
    """Such a timer cannot be set; the others of the round are pushed."""
    await schedule(session, queue, "a", NOW)
    await schedule(session, queue, "b", NOW)
    noise = "".join(uuid4().hex for _ in range(400))
    await session.execute("update laneway.timer set dedup_key = $1 where key = 'a'", noise)
    session.add_log_listener(lambda *_: None)
    assert (await fire(session))[0] == [queue]
    assert await log(session, queue) == ["b"]
    [left] = await session.fetch("select * from laneway.list_timers($1)", queue)
    assert (left["key"], left["attempts"]) == ("a", 1)
    assert "too long" in left["error"]
    assert (await fire(session))[0] == []


async def test_two_maintainers_push_each_timer_once(session: Session, connect: Connect) -> None:
    queue = await make_queue(session)
    for number in range(60):
        await schedule(session, queue, f"t{number:02}", timedelta(seconds=-number))
    others = [await connect() for _ in range(3)]

    async def drain(each: Session) -> None:
        while await each.fetchval("select count(*) from laneway.timer"):
            await fire(each, limit=7)

    await asyncio.gather(*map(drain, others))
    assert sorted(await log(session, queue)) == [f"t{number:02}" for number in range(60)]


async def test_cancel_during_a_push_finds_nothing_to_cancel(
    session: Session, connect: Connect, queue: int
) -> None:
    await schedule(session, queue, "a", NOW)
    other = await connect()
    transaction = session.transaction()
    await transaction.start()
    await fire(session)
    late = await start_and_block(await connect(), other, cancel(other, queue, "a"))
    await transaction.commit()
    assert (await late)["status"] == "absent"
    assert await log(session, queue) == ["a"]


async def test_push_that_is_undone_leaves_the_timer(session: Session, queue: int) -> None:
    await schedule(session, queue, "a", NOW)
    transaction = session.transaction()
    await transaction.start()
    await fire(session)
    await transaction.rollback()
    assert await log(session, queue) == []
    await fire(session)
    assert await log(session, queue) == ["a"]


async def test_timer_that_is_being_cancelled_is_not_pushed(
    session: Session, connect: Connect, queue: int
) -> None:
    await schedule(session, queue, "a", NOW)
    other = await connect()
    transaction = other.transaction()
    await transaction.start()
    assert (await cancel(other, queue, "a"))["status"] == "cancelled"
    assert (await fire(session))[0] == []
    await transaction.commit()
    assert await fire(session) == ([], None)
    assert await log(session, queue) == []


async def test_crossing_calls_on_several_timers_all_end(session: Session, connect: Connect) -> None:
    queue = await make_queue(session)
    keys = [f"t{number}" for number in range(8)]
    others = [await connect() for _ in range(4)]

    async def work(each: Session, number: int) -> None:
        order = keys if number % 2 else keys[::-1]
        for turn in range(10):
            delay = None if turn % 3 == 2 else LATER
            await apply(each, queue, *((key, delay, turn) for key in order))

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(each, number) for number, each in enumerate(others)))


async def test_pages_of_timers_go_by_byte_order(session: Session, queue: int) -> None:
    for key in ("b", "a", "B", "c"):
        await schedule(session, queue, key, LATER)
    rows = await session.fetch("select key from laneway.list_timers($1, null, 'B', 2)", queue)
    assert [row["key"] for row in rows] == ["a", "b"]
    [row] = await session.fetch("select * from laneway.list_timers($1, 'c')", queue)
    assert (row["key"], json.loads(row["body"]), row["partition"]) == ("c", "c", "p")


async def test_queue_is_deleted_after_the_timers_that_are_being_pushed(
    session: Session, connect: Connect, queue: int
) -> None:
    await schedule(session, queue, "a", NOW)
    other = await connect()
    transaction = session.transaction()
    await transaction.start()
    await session.fetch("select from laneway.timer for update")
    deleting = other.execute("select laneway.delete_queue('work', true)")
    late = await start_and_block(await connect(), other, deleting)
    await fire(session)
    assert await log(session, queue) == ["a"]
    await transaction.commit()
    await late
    assert await session.fetchval("select count(*) from laneway.queue") == 0
