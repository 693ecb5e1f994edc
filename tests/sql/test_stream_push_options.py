"""Queue options that a push to a stream obeys; a push is whole or not at all."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from tests.sql.calls import create_queue

if TYPE_CHECKING:
    from tests.postgres import Connect
    from tests.sql.calls import Queue, Session


async def make_stream(session: Session, name: str = "stream", **settings: Any) -> Queue:
    return await create_queue(session, name, ordered=True, dedup_scope="partition", **settings)


async def push(
    session: Session,
    queues: list[int],
    bodies: list[int],
    guards: list[int | None] | None,
    *,
    partitions: list[str] | None = None,
    keys: list[str | None] | None = None,
) -> int:
    """Return how many messages were pushed."""
    rows = await session.fetch(
        "select * from laneway.push_many($1, $2, $3, p_keys => $4, p_guards => $5)",
        queues,
        list(map(str, bodies)),
        partitions,
        keys,
        guards,
    )
    return sum(row["messages"] for row in rows)


async def push_within_limits(
    session: Session,
    queues: list[int],
    keys: list[str | None],
    *,
    new: list[str] | None = None,
) -> list[str]:
    """Push a message with each key; return what became of each."""
    rows = await session.fetch(
        "select * from laneway.push_within_limits($1, $2, p_keys => $3, p_new => $4, p_settings => $5)",
        queues,
        ["0"] * len(keys),
        keys,
        new,
        [json.dumps({"ordered": True})] * len(new or ()),
    )
    fates = ["failed"] * len(keys)
    for row in rows:
        for place in range(row["idx"], row["idx"] + row["messages"]):
            fates[place] = "duplicate" if row["duplicate"] else "queued"
    return fates


@pytest.mark.parametrize(
    ("settings", "guards"),
    [
        ({}, 0),
        ({"max_messages": None, "rest_window": "0", "encrypted": False}, 0),
        ({"encrypted": True}, 1),
        ({"max_messages": 3}, 2),
        ({"rest_window": "0.5 seconds"}, 4),
        ({"max_messages": 1, "rest_window": "2 seconds", "encrypted": True}, 7),
        ({"options": {"queen": {"maxSize": 3}}}, 0),
    ],
)
async def test_checked_options_follow_the_settings(
    session: Session, settings: dict[str, Any], guards: int
) -> None:
    await make_stream(session, **settings)
    [row] = await session.fetch("select guards from laneway.list_queues()")
    assert row["guards"] == guards
    none = {"max_messages": None, "rest_window": None, "encrypted": False}
    await session.execute("select laneway.update_queue('stream', $1)", json.dumps(none))
    [row] = await session.fetch("select guards from laneway.list_queues()")
    assert row["guards"] == 0


@pytest.mark.parametrize("partitions", [None, ["a"], ["a", "b"]])
@pytest.mark.parametrize("keys", [None, ["1", None]])
async def test_push_with_outdated_queue_options_is_refused(
    session: Session, partitions: list[str] | None, keys: list[str | None] | None
) -> None:
    queue = await make_stream(session, encrypted=True)
    other = await make_stream(session, "other")
    good: list[tuple[list[int], list[int | None] | None]] = [
        ([queue.queue_id], [1]),
        ([queue.queue_id], [1, 1]),
        ([queue.queue_id], [None, 1]),
        ([queue.queue_id], None),
        ([queue.queue_id, other.queue_id], [1, 0]),
        ([queue.queue_id, other.queue_id], [None, 0]),
        ([queue.queue_id, other.queue_id], None),
        ([other.queue_id, other.queue_id], [0]),
    ]
    bad: list[tuple[list[int], list[int | None] | None]] = [
        ([queue.queue_id], [0]),
        ([queue.queue_id], [1, 0]),
        ([queue.queue_id], [None, 0]),
        ([queue.queue_id], [3]),
        ([queue.queue_id, other.queue_id], [0]),
        ([queue.queue_id, other.queue_id], [0, 0]),
        ([other.queue_id, queue.queue_id], [0, 0]),
        ([other.queue_id, other.queue_id], [0, 1]),
    ]
    for queues, guards in bad:
        with pytest.raises(asyncpg.PostgresError) as caught:
            await push(session, queues, [1, 2], guards, partitions=partitions, keys=keys)
        assert caught.value.sqlstate == "LW412", (queues, guards)
    assert await session.fetchval("select count(*) from laneway.message") == 0
    for queues, guards in good:
        assert await push(session, queues, [1, 2], guards, partitions=partitions, keys=keys) == 2


async def test_duplicates_do_not_count_against_max_messages(session: Session) -> None:
    queue = await make_stream(session, max_messages=3)
    ids = [queue.queue_id]
    assert await push_within_limits(session, ids, ["a", "b"]) == ["queued"] * 2
    # One has room; what repeats it fits with it, what repeats another that does not fit does not.
    fates = await push_within_limits(session, ids, ["c", "a", "d", "c", "d", "b", None])
    assert fates == ["queued", "duplicate", "failed", "duplicate", "failed", "duplicate", "failed"]
    assert await push_within_limits(session, ids, ["c", "a"]) == ["duplicate"] * 2
    assert await push_within_limits(session, ids, [None]) == ["failed"]


async def test_max_messages_applies_to_each_queue(session: Session) -> None:
    full, wide, free = [
        await make_stream(session, name, max_messages=limit)
        for name, limit in (("full", 1), ("wide", 9), ("free", None))
    ]
    ids = [queue.queue_id for queue in (full, wide, full, free, full, wide)]
    fates = await push_within_limits(session, ids, ["a", "a", "b", "a", "a", "a"])
    assert fates == ["queued", "queued", "failed", "queued", "duplicate", "duplicate"]


async def test_new_queues_are_created_with_the_push_or_not_at_all(session: Session) -> None:
    old = await make_stream(session)
    ids = [-2, old.queue_id, -1, -2]
    keys: list[str | None] = ["a", "a", "a", "a"]
    with pytest.raises(asyncpg.PostgresError):
        await session.fetch(
            "select * from laneway.push_within_limits(array[-1], array['1'::json, null], "
            "p_new => array['x'], p_settings => array['{}'::json])"
        )
    assert await push_within_limits(session, ids, keys, new=["x", "y"]) == [
        "queued",
        "queued",
        "queued",
        "duplicate",
    ]
    rows = await session.fetch(
        "select q.name, count(*) from laneway.message m join laneway.lane l using (lane_id)"
        " join laneway.queue q using (queue_id) group by q.name order by q.name"
    )
    assert [tuple(row) for row in rows] == [("stream", 1), ("x", 1), ("y", 1)]
    with pytest.raises(asyncpg.PostgresError) as caught:
        await push_within_limits(session, [-1], ["b"], new=["x"])
    assert caught.value.sqlstate == "LW412"


async def test_losing_creation_of_a_queue_is_refused(connect: Connect) -> None:
    first, second = await connect(), await connect()
    transaction = first.transaction()
    await transaction.start()
    await push_within_limits(first, [-1], ["a"], new=["x"])
    waiting = asyncio.ensure_future(push_within_limits(second, [-1], ["b"], new=["x"]))
    async with asyncio.timeout(20):
        while not await first.fetchval("select count(*) from pg_locks where not granted"):
            await asyncio.sleep(0.01)
    await transaction.commit()
    with pytest.raises(asyncpg.PostgresError) as caught:
        await waiting
    assert caught.value.sqlstate == "LW412"
