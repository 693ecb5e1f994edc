"""Claims of a shared group that leave some partitions for last."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.sql import calls
from tests.sql.calls import (
    HOUR,
    Counts,
    ack,
    claim,
    count,
    create_queue,
    nack,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.postgres import Connect
    from tests.sql.calls import Queue, Session


@pytest.fixture
async def queue(session: Session) -> Queue:
    return await create_queue(session)


async def push(session: Session, queue: Queue, texts: Sequence[str]) -> None:
    """Push each text to the partition that its first letter names."""
    await calls.push(
        session,
        queue,
        [json.dumps(text) for text in texts],
        partitions=[text[0] for text in texts],
    )


async def avoid(session: Session, queue: Queue, partitions: str, *wants: int) -> list[list[str]]:
    """Claim what these partitions do not have, if possible. Return each waiter's texts in order."""
    rows = await session.fetch(
        "select * from laneway.claim_spans($1, $2, p_avoid => $3)",
        queue.group_id,
        wants,
        list(partitions),
    )
    got: list[list[tuple[int, str]]] = [[] for _ in wants]
    for row in rows:
        texts = map(json.loads, row["bodies"])
        places = row["positions"] or row["created_at"]
        got[row["waiter"]] += zip(places, texts, strict=True)
    return [[text for _, text in sorted(each)] for each in got]


async def test_others_come_first_and_then_those_left_for_last(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["a1", "a2", "b1", "a3", "c1"])
    assert await avoid(session, queue, "a", 3, 1) == [["b1", "c1", "a1"], ["a2"]]
    assert await avoid(session, queue, "a", 5) == [["a3"]]
    assert await avoid(session, queue, "a", 5) == [[]]
    assert await count(session, queue) == Counts(processing=5)


async def test_several_partitions_are_left_for_last(session: Session, queue: Queue) -> None:
    await push(session, queue, ["a1", "b1", "c1"])
    assert await avoid(session, queue, "abz", 1) == [["c1"]]
    assert await avoid(session, queue, "abz", 2) == [["a1", "b1"]]


async def test_returned_messages_are_left_for_last_too(session: Session, queue: Queue) -> None:
    await push(session, queue, ["a1", "b1"])
    assert await nack(session, await claim(session, queue, 2)) == ["requeued"] * 2
    await push(session, queue, ["c1"])
    assert await avoid(session, queue, "a", 5) == [["b1", "c1", "a1"]]


async def test_delayed_messages_of_others_are_not_waited_for(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["a1"])
    await calls.push(session, queue, ['"b1"'], partitions=["b"], delays=[HOUR])
    assert await avoid(session, queue, "a", 5) == [["a1"]]


@pytest.mark.parametrize("lanes", [20, 60])
async def test_others_of_many_partitions_come_first(
    session: Session, queue: Queue, lanes: int
) -> None:
    others = [chr(0x4E00 + at) for at in range(lanes)]
    await push(session, queue, ["a"] * 50 + others)
    got = [text for _ in range(lanes // 10) for text in (await avoid(session, queue, "a", 10))[0]]
    assert sorted(got) == others
    assert await avoid(session, queue, "a", 10) == [["a"] * 10]


async def test_lane_locked_by_another_session_is_not_waited_for(
    session: Session, connect: Connect, queue: Queue
) -> None:
    await push(session, queue, ["a1", "b1"])
    other = await connect()
    transaction = session.transaction()
    await transaction.start()
    assert await avoid(session, queue, "a", 1) == [["b1"]]
    assert await avoid(other, queue, "a", 1) == [["a1"]]
    await transaction.commit()
    assert await avoid(other, queue, "a", 1) == [[]]


async def test_ordered_groups_leave_nothing_for_last(session: Session) -> None:
    queue = await create_queue(session, ordered=True)
    await push(session, queue, ["a1", "b1"])
    assert await avoid(session, queue, "a", 1) == [["a1"]]


async def test_messages_in_flight_are_counted_by_partition(session: Session, queue: Queue) -> None:
    await push(session, queue, ["a1", "a2", "a3", "b1", "c1"])
    got = await claim(session, queue, 2, 1, 2)
    assert await ack(session, got[:1]) == []
    await session.execute(
        "update laneway.claim set until = clock_timestamp() where pending @> $1::bigint "
        "and lane_id = $2",
        got[4].seq,
        got[4].lane_id,
    )
    counted = await session.fetch(
        "select * from laneway.count_in_flight_by_partition($1) order by partition", queue.group_id
    )
    assert [tuple(row) for row in counted] == [("a", 2), ("b", 1)]
