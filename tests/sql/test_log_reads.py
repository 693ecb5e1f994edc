"""Reads of partitions by seq, and lists of partitions that changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.sql.calls import rotate

if TYPE_CHECKING:
    from datetime import datetime

    from tests.postgres import Connect
    from tests.sql.calls import Session

READ = "select * from laneway.read_partitions($1, $2, $3, $4, $5, $6)"
CHANGED = "select * from laneway.list_changed_partitions($1, $2, $3, $4)"


@pytest.fixture
async def queue(session: Session) -> int:
    return await make_queue(session)


async def make_queue(session: Session, name: str = "work", **more: Any) -> int:
    queue: int = await session.fetchval(
        "select laneway.create_queue($1, $2)", name, json.dumps({"ordered": True, **more})
    )
    return queue


async def push(session: Session, queue: int, partition: str, *bodies: Any) -> None:
    await session.fetch(
        "select laneway.push_many(array[$1::int], $2, array[$3])",
        queue,
        [json.dumps(body) for body in bodies],
        partition,
    )


async def read(
    session: Session,
    queue: int | None,
    *reads: tuple[str, int],
    each: int = 10**6,
    total: int = 10**6,
    limit: int = 10_000,
) -> list[tuple[Any, ...]]:
    """Return (lanes, base, newest, {seq: body}) for each partition and seq."""
    rows = await session.fetch(
        READ,
        [queue] * len(reads),
        [partition for partition, _ in reads],
        [after for _, after in reads],
        [each] * len(reads),
        total,
        limit,
    )
    bodies: list[dict[int, Any]] = [{} for _ in reads]
    extents = {}
    for row in rows:
        extents[row["idx"]] = (row["lanes"], row["base"], row["newest"])
        for seq, body in zip(row["seqs"] or (), row["bodies"] or (), strict=False):
            bodies[row["idx"]][seq] = json.loads(body)
    return [(*extents[idx], found) for idx, found in enumerate(bodies)]


async def changed(
    session: Session,
    queue: int,
    since: datetime | None = None,
    after: int = 0,
    limit: int = 1000,
) -> tuple[list[Any], int | None, datetime]:
    first, *rows, last = await session.fetch(CHANGED, [queue], [since], [after], [limit])
    assert last["lane_id"] is None
    return rows, last["next_lane"], first["safe_time"]


async def test_partition_is_read_from_any_place(session: Session, queue: int) -> None:
    await push(session, queue, "a", *range(5))
    await push(session, queue, "b", "x")
    whole, rest, end, beyond, other = await read(
        session, queue, ("a", 0), ("a", 3), ("a", 5), ("a", 6), ("b", 0)
    )
    assert whole == (1, 0, 5, {1: 0, 2: 1, 3: 2, 4: 3, 5: 4})
    assert rest == (1, 0, 5, {4: 3, 5: 4})
    assert end == beyond == (1, 0, 5, {})
    assert other == (1, 0, 1, {1: "x"})
    assert (await read(session, queue, ("c", 0)))[0][0] == 0
    assert (await read(session, None, ("a", 0)))[0][0] == 0


async def test_reads_change_nothing_for_groups(session: Session, queue: int) -> None:
    await push(session, queue, "a", 1, 2)
    tables = ("progress", "claim", "parked", "event", "reader")
    state = [await session.fetch(f"select * from laneway.{table}") for table in tables]
    await read(session, queue, ("a", 0))
    assert [await session.fetch(f"select * from laneway.{table}") for table in tables] == state


async def test_reads_are_bounded_in_bytes_and_messages(session: Session, queue: int) -> None:
    await push(session, queue, "a", *("x" * 98 for _ in range(10)))
    await push(session, queue, "b", *("y" * 98 for _ in range(10)))

    async def sizes(**limits: int) -> list[int]:
        found = await read(session, queue, ("a", 0), ("b", 0), **limits)
        return [len(each[3]) for each in found]

    assert await sizes(each=350) == [3, 3]
    assert await sizes(each=10) == [1, 1]
    assert await sizes(total=1250) == [10, 2]
    assert await sizes(total=10) == [1, 0]
    assert await sizes(limit=13) == [10, 3]


async def test_reads_go_over_segments_and_know_what_is_gone(session: Session, queue: int) -> None:
    for number in range(3):
        await push(session, queue, "a", number, number)
        await rotate(session)
    [whole] = await read(session, queue, ("a", 0))
    assert whole == (1, 0, 6, {1: 0, 2: 0, 3: 1, 4: 1, 5: 2, 6: 2})
    assert (await read(session, queue, ("a", 4)))[0][3] == {5: 2, 6: 2}
    assert (await read(session, queue, ("a", 1), limit=3))[0][3] == {2: 0, 3: 1, 4: 1}
    lane = await session.fetchval("select lane_id from laneway.lane")
    await session.execute("delete from laneway.message where seq <= 3")
    await session.execute("update laneway.lane set base = 3 where lane_id = $1", lane)
    below, kept = await read(session, queue, ("a", 2), ("a", 3))
    assert below == (1, 3, 6, {})
    assert kept == (1, 3, 6, {4: 1, 5: 2, 6: 2})


async def test_partition_of_several_lanes_is_not_read(session: Session) -> None:
    queue = await make_queue(session, "loose", ordered=False)
    await session.fetch(
        "select laneway.push_many(array[$1::int], array['1','2']::json[], array['a'],"
        " array[0, 5]::smallint[])",
        queue,
    )
    [found] = await read(session, queue, ("a", 0))
    assert found == (2, None, None, {})


async def test_unlogged_partitions_are_read_too(session: Session) -> None:
    queue = await make_queue(session, "light", kind="unlogged")
    await push(session, queue, "a", 1, 2)
    assert (await read(session, queue, ("a", 1)))[0][3] == {2: 2}
    rows, _, _ = await changed(session, queue)
    assert [(row["partition"], row["newest"]) for row in rows] == [("a", 2)]


async def test_partitions_that_changed_since_a_time(session: Session, queue: int) -> None:
    for name in "abc":
        await push(session, queue, name, 1)
    rows, following, safe = await changed(session, queue)
    assert [(row["partition"], row["newest"]) for row in rows] == [("a", 1), ("b", 1), ("c", 1)]
    assert following is None
    assert all(row["pushed_at"] < safe for row in rows)
    rows, following, _ = await changed(session, queue, since=safe)
    assert (rows, following) == ([], None)
    await push(session, queue, "b", 2)
    rows, _, later = await changed(session, queue, since=safe)
    assert [(row["partition"], row["newest"]) for row in rows] == [("b", 2)]
    assert rows[0]["pushed_at"] >= safe
    assert later > safe
    rows, _, _ = await changed(session, queue, since=rows[0]["pushed_at"])
    assert [row["partition"] for row in rows] == ["b"]


async def test_changed_partitions_come_in_pages(session: Session, queue: int) -> None:
    names = [f"p{number}" for number in range(7)]
    for name in names:
        await push(session, queue, name, 1)
        await rotate(session)
    seen: list[str] = []
    after: int | None = 0
    while after is not None:
        rows, after, _ = await changed(session, queue, after=after, limit=3)
        seen += [row["partition"] for row in rows]
    assert seen == names
    rows, following, _ = await changed(session, queue, limit=7)
    assert (len(rows), following) == (7, None)


async def test_partition_without_messages_is_listed(session: Session, queue: int) -> None:
    await push(session, queue, "a", 1, 2)
    await session.execute("delete from laneway.message")
    await session.execute("update laneway.lane set base = 2")
    rows, _, _ = await changed(session, queue)
    assert [(row["partition"], row["base"], row["newest"]) for row in rows] == [("a", 2, 2)]


@pytest.mark.parametrize("idle_first", [False, True])
async def test_push_that_commits_late_is_not_missed(
    session: Session, connect: Connect, queue: int, *, idle_first: bool
) -> None:
    """The next list begins no later than the push, though it was not visible yet."""
    await push(session, queue, "a", 1)
    other = await connect()
    transaction = other.transaction()
    await transaction.start()
    if idle_first:
        await other.fetch("select 1")
        _, _, early = await changed(session, queue)
        assert early >= await session.fetchval("select max(created_at) from laneway.message")
    await push(other, queue, "a", 2)
    rows, _, safe = await changed(session, queue)
    assert [row["newest"] for row in rows] == [1]
    await transaction.commit()
    rows, _, _ = await changed(session, queue, since=safe)
    assert [row["newest"] for row in rows] == [2]
