"""Invalid requests are refused, and one bad row never blocks the others."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest

from tests.sql.calls import (
    HOUR,
    ack,
    claim,
    count,
    create_queue,
    expire,
    expire_leases,
    extend,
    push,
    retain,
    rotate,
    sqlstate,
)

if TYPE_CHECKING:
    from tests.sql.calls import Queue, Session

SECOND = timedelta(seconds=1)


@pytest.fixture
async def queue(session: Session) -> Queue:
    return await create_queue(session)


@pytest.mark.parametrize(
    "wants", [[5, None, 3], [None], [-5, 10], [10001], [10000] * 6, [1] * 70000], ids=range(6)
)
async def test_invalid_numbers_of_messages_are_refused(
    session: Session, queue: Queue, wants: list[int | None]
) -> None:
    await push(session, queue, [str(n) for n in range(20)])
    with pytest.raises(asyncpg.PostgresError) as error:
        await session.fetch("select * from laneway.claim_spans($1, $2)", queue.group_id, wants)
    assert sqlstate(error.value) == "LW422"
    assert (await count(session, queue)).queued == 20


async def test_invalid_leases_and_attempts_are_refused(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"])
    with pytest.raises(asyncpg.PostgresError) as error:
        await claim(session, queue, 1, leases=[timedelta(0)])
    assert sqlstate(error.value) == "LW422"
    with pytest.raises(asyncpg.PostgresError) as error:
        await push(session, queue, ["2"], leases=[-SECOND])
    assert sqlstate(error.value) == "LW422"
    with pytest.raises(asyncpg.PostgresError) as error:
        await push(session, queue, ["2"], max_attempts=[0])
    assert sqlstate(error.value) == "LW422"
    assert (await count(session, queue)).queued == 1


@pytest.mark.parametrize(("first", "last"), [([None], [None]), ([1], [None]), ([1], [])])
async def test_invalid_spans_settle_nothing(
    session: Session, queue: Queue, first: list[int | None], last: list[int | None]
) -> None:
    await push(session, queue, ["1", "2", "3"])
    token = (await claim(session, queue, 3))[0].token
    with pytest.raises(asyncpg.PostgresError) as error:
        await session.fetch(
            "select * from laneway.ack_many($1, $2, $3, $4)", [token], [1], first, last
        )
    assert sqlstate(error.value) == "LW422"
    with pytest.raises(asyncpg.PostgresError) as error:
        await session.fetch("select * from laneway.release_many($1, $2, $3)", [token], [1], [None])
    assert sqlstate(error.value) == "LW422"
    assert (await count(session, queue)).processing == 3


async def test_null_state_is_refused(session: Session, queue: Queue) -> None:
    (place,) = await push(session, queue, ["1"])
    for source, target in (("queued", None), (None, "processing")):
        with pytest.raises(asyncpg.PostgresError) as error:
            await session.fetch(
                "select * from laneway.move_messages($1, $2, $3, $4, $5, $6)",
                queue.group_id,
                [place.segment],
                [place.lane_id],
                [place.seq],
                source,
                target,
            )
        assert sqlstate(error.value) == "LW422"
    assert (await count(session, queue)).queued == 1


async def test_invalid_outbox_message_does_not_block_the_others(
    session: Session, queue: Queue
) -> None:
    await session.execute("select laneway.outbox_push('work', '1')")
    await session.execute("update laneway.outbox set delay = '999999 years'")
    await session.execute("select laneway.outbox_push('work', '2')")
    await session.execute("select laneway.drain_outbox()")
    assert [each.body for each in await claim(session, queue, 10)] == ["2"]
    rows = await session.fetch("select body, error from laneway.outbox")
    assert [row["body"] for row in rows] == ["1"]
    assert "at most 1000 years" in rows[0]["error"]
    await session.execute("select laneway.drain_outbox()")


async def test_young_message_outlives_its_segment_whatever_the_ttl(session: Session) -> None:
    queue = await create_queue(session, message_ttl="7 days")
    await push(session, queue, ["1", "2"], delays=[HOUR, None])
    await ack(session, await claim(session, queue, 2))
    await rotate(session)
    await session.execute(
        "update laneway.segment set closed_at = closed_at - interval '2 days' "
        "where closed_at is not null"
    )
    assert await retain(session)
    await retain(session)
    assert (await count(session, queue)).queued == 1
    await session.execute("update laneway.revision set created_at = created_at - interval '8 days'")
    await retain(session)
    assert (await count(session, queue)).queued == 0
    assert await session.fetchval("select count(*) from laneway.revision") == 0


async def test_ordered_claim_does_not_block_the_expiry_of_others(session: Session) -> None:
    ordered = await create_queue(session, "ordered", ordered=True)
    shared = await create_queue(session, "shared")
    await push(session, ordered, ["1", "2", "3"])
    await push(session, shared, ["4"])
    parts = await claim(session, ordered, 3)
    await extend(session, parts[:1], SECOND)
    await extend(session, parts[1:2], HOUR)
    late = await claim(session, shared, 1)
    await expire_leases(session, late)
    await session.execute(
        "update laneway.claim set until = clock_timestamp() - interval '1 minute' "
        "where group_id = $1 and not pending @> 2::bigint",
        ordered.group_id,
    )
    assert await session.fetchval("select sum(messages) from laneway.expire_claims(1)") == 1
    assert (await count(session, shared)).queued == 1
    assert await expire(session) == 0
