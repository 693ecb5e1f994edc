"""Two sessions at once: the second sees what the first did, and nothing is done twice."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import TYPE_CHECKING

import asyncpg
import pytest

from laneway.sql.migrate import install
from tests.postgres import execute, name_database
from tests.sql.calls import (
    HOUR,
    Counts,
    ack,
    ack_spans,
    claim,
    count,
    create_group,
    create_queue,
    delete_between,
    edit,
    expire,
    expire_leases,
    extend,
    find_orphans,
    move,
    nack,
    purge,
    push,
    release,
    replay,
    rotate,
    seek,
    sqlstate,
    start_and_block,
    sweep_idle,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.postgres import Connect
    from tests.sql.calls import Delivery, Queue, Session


@pytest.fixture
async def queue(session: Session) -> Queue:
    return await create_queue(session)


@pytest.fixture
async def other(connect: Connect) -> Session:
    return await connect()


async def start_deleting(
    watch: Session, session: Session, queue: Queue, message: Delivery, *, whole: bool
) -> asyncio.Task[int]:
    """Start to purge the queue, or to delete what came about when the message did, until that waits."""
    moment = message.created_at
    work = (
        purge(session, queue)
        if whole
        else delete_between(session, queue, moment - HOUR, moment + HOUR)
    )
    return await start_and_block(watch, session, work)


async def park_one(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1"])
    await nack(session, await claim(session, queue, 1))


@pytest.mark.parametrize("target", ["acknowledged", "dead", "archived", "deleted", "processing"])
async def test_message_claimed_just_now_is_not_moved(
    session: Session, other: Session, connect: Connect, queue: Queue, target: str
) -> None:
    await park_one(session, queue)
    transaction = session.transaction()
    await transaction.start()
    [mine] = await claim(session, queue, 1)
    moving = await start_and_block(
        await connect(),
        other,
        move(other, queue, [mine.place], source="queued", target=target),
    )
    await transaction.commit()
    assert await moving == {}
    assert await count(session, queue) == Counts(processing=1)
    assert await ack(session, [mine]) == []
    assert await count(session, queue) == Counts(acknowledged=1)


async def test_message_claimed_just_now_is_not_edited(
    session: Session, other: Session, connect: Connect, queue: Queue
) -> None:
    await park_one(session, queue)
    transaction = session.transaction()
    await transaction.start()
    [mine] = await claim(session, queue, 1)
    editing = await start_and_block(
        await connect(), other, edit(other, queue, mine.place, "queued", body=2, priority=9)
    )
    await transaction.commit()
    assert await editing is False
    assert await count(session, queue) == Counts(processing=1)
    assert await claim(session, queue, 1) == []


@pytest.mark.parametrize("target", ["acknowledged", "deleted", "dead"])
async def test_claim_skips_a_message_that_is_being_removed(
    session: Session, other: Session, connect: Connect, queue: Queue, target: str
) -> None:
    places = await push(session, queue, ["1", "2", "3"])
    transaction = session.transaction()
    await transaction.start()
    await move(session, queue, places[1:2], source="queued", target=target)
    claiming = await start_and_block(await connect(), other, claim(other, queue, 3))
    await transaction.commit()
    assert [each.body for each in await claiming] == ["1", "3"]


async def test_claim_sees_a_concurrent_edit(
    session: Session, other: Session, connect: Connect, queue: Queue
) -> None:
    places = await push(session, queue, ["1", "2", "3"])
    transaction = session.transaction()
    await transaction.start()
    await edit(session, queue, places[1], "queued", body=9)
    claiming = await start_and_block(await connect(), other, claim(other, queue, 3))
    await transaction.commit()
    assert [each.body for each in await claiming] == ["9", "1", "3"]


@pytest.mark.parametrize("target", ["queued", "acknowledged", "archived", "deleted", "processing"])
async def test_dead_letter_replayed_just_now_is_not_moved(
    session: Session, other: Session, connect: Connect, queue: Queue, target: str
) -> None:
    [place] = await push(session, queue, ["1"])
    await nack(session, await claim(session, queue, 1), dead=True)
    transaction = session.transaction()
    await transaction.start()
    assert await replay(session, queue) == 1
    moving = await start_and_block(
        await connect(), other, move(other, queue, [place], source="dead", target=target)
    )
    await transaction.commit()
    assert await moving == {}
    assert await count(session, queue) == Counts(queued=1)


async def test_dead_letter_replayed_just_now_is_not_edited(
    session: Session, other: Session, connect: Connect, queue: Queue
) -> None:
    [place] = await push(session, queue, ["1"])
    await nack(session, await claim(session, queue, 1), dead=True)
    transaction = session.transaction()
    await transaction.start()
    await replay(session, queue)
    editing = await start_and_block(
        await connect(), other, edit(other, queue, place, "dead", body=2)
    )
    await transaction.commit()
    assert await editing is False
    assert [each.body for each in await claim(session, queue, 1)] == ["1"]


async def test_concurrent_redrives_share_the_dead_letters(
    session: Session, other: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3"])
    await nack(session, await claim(session, queue, 3), dead=True)
    async with session.transaction():
        assert await replay(session, queue, 1) == 1
        assert await replay(other, queue) == 2
    assert await count(session, queue) == Counts(queued=3)


async def test_seek_resets_messages_that_are_being_claimed(
    session: Session, other: Session, connect: Connect, queue: Queue
) -> None:
    await park_one(session, queue)
    transaction = session.transaction()
    await transaction.start()
    mine = await claim(session, queue, 1)
    seeking = await start_and_block(await connect(), other, seek(other, queue, "earliest"))
    await transaction.commit()
    assert await seeking == 1
    assert await count(session, queue) == Counts(queued=1)
    assert await ack(session, mine) == [0]


async def test_seek_resets_messages_that_are_being_returned(
    session: Session, other: Session, connect: Connect, queue: Queue
) -> None:
    await push(session, queue, ["1"])
    mine = await claim(session, queue, 1)
    transaction = session.transaction()
    await transaction.start()
    await nack(session, mine)
    seeking = await start_and_block(await connect(), other, seek(other, queue, "earliest"))
    await transaction.commit()
    assert await seeking == 1
    assert await count(session, queue) == Counts(queued=1)
    assert len(await claim(session, queue, 2)) == 1


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("aside", [False, True])
@pytest.mark.parametrize("fate", ["nack", "dead", "expire", "ack"])
@pytest.mark.parametrize("whole", [False, True])
async def test_deletion_removes_messages_that_are_being_settled(
    session: Session,
    other: Session,
    connect: Connect,
    *,
    ordered: bool,
    aside: bool,
    fate: str,
    whole: bool,
) -> None:
    queue = await create_queue(session, ordered=ordered)
    await push(session, queue, ["1", "2"])
    if aside:
        await nack(session, await claim(session, queue, 1), dead=True)
        await replay(session, queue)
    mine = await claim(session, queue, 1)
    transaction = session.transaction()
    await transaction.start()
    if fate == "expire":
        await expire_leases(session, mine)
        assert await expire(session) == 1
    elif fate == "ack":
        assert await ack(session, mine) == []
    else:
        await nack(session, mine, dead=fate == "dead")
    deleting = await start_deleting(await connect(), other, queue, mine[0], whole=whole)
    await transaction.commit()
    assert await deleting == 2
    assert await count(session, queue) == Counts()
    assert await claim(session, queue, 2) == []
    assert await find_orphans(session) == {}


@pytest.mark.parametrize("whole", [False, True])
async def test_deletion_removes_messages_that_are_being_claimed(
    session: Session, other: Session, connect: Connect, queue: Queue, *, whole: bool
) -> None:
    await park_one(session, queue)
    transaction = session.transaction()
    await transaction.start()
    mine = await claim(session, queue, 1)
    deleting = await start_deleting(await connect(), other, queue, mine[0], whole=whole)
    await transaction.commit()
    assert await deleting == 1
    assert await count(session, queue) == Counts()
    assert await ack(session, mine) == [0]


async def test_ack_wins_over_an_expiry_that_comes_second(
    session: Session, other: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2"])
    mine = await claim(session, queue, 2)
    async with session.transaction():
        assert await ack(session, mine) == []
        await other.execute("update laneway.policy set retention = retention")
        assert await expire(other) == 0
    assert await expire(other) == 0
    assert await count(session, queue) == Counts(acknowledged=2)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("many", [False, True])
async def test_expiry_wins_over_an_ack_that_comes_second(
    session: Session, other: Session, connect: Connect, *, ordered: bool, many: bool
) -> None:
    queue = await create_queue(session, "q", ordered=ordered)
    await push(session, queue, ["1", "2"], partitions=["a", "b"])
    mine = await claim(session, queue, 1, 1)
    runs = [(each.token, each.lane_id, each.seq, each.seq) for each in mine][: 2 if many else 1]
    transaction = session.transaction()
    await transaction.start()
    # The ack has read its claims as live; only then are they ended.
    await session.execute("select from laneway.claim for update")
    acking = await start_and_block(await connect(), other, ack_spans(other, runs))
    await expire_leases(session, mine)
    assert await expire(session) == 2
    await transaction.commit()
    assert [each[0] for each in await acking] == list(range(len(runs)))
    assert await count(session, queue) == Counts(queued=2)


@pytest.mark.parametrize("ordered", [False, True])
async def test_nack_loses_against_an_expiry_that_was_first(
    session: Session, other: Session, connect: Connect, *, ordered: bool
) -> None:
    queue = await create_queue(session, "q", ordered=ordered)
    await push(session, queue, ["1"])
    mine = await claim(session, queue, 1)
    transaction = session.transaction()
    await transaction.start()
    await expire_leases(session, mine)
    assert await expire(session) == 1
    nacking = await start_and_block(await connect(), other, nack(other, mine, dead=True))
    await transaction.commit()
    assert await nacking == ["lost"]
    assert await count(session, queue) == Counts(queued=1)
    assert [each.attempt for each in await claim(session, queue, 1)] == [2]


async def test_ack_of_a_whole_claim_that_is_being_split_settles_all_of_it(
    session: Session, other: Session, connect: Connect, queue: Queue
) -> None:
    other_queue = await create_queue(session, "other")
    await push(session, queue, ["1", "2", "3"])
    await push(session, other_queue, ["4"])
    mine = await claim(session, queue, 3)
    [extra] = await claim(session, other_queue, 1)
    runs = [
        (mine[0].token, mine[0].lane_id, 1, 3),
        (extra.token, extra.lane_id, extra.seq, extra.seq),
    ]
    transaction = session.transaction()
    await transaction.start()
    await extend(session, [mine[1]], HOUR)
    acking = await start_and_block(await connect(), other, ack_spans(other, runs))
    await transaction.commit()
    assert await acking == []
    assert await count(session, queue) == Counts(acknowledged=3)
    assert await count(session, other_queue) == Counts(acknowledged=1)


@pytest.mark.invariant(13)
async def test_acks_of_the_same_claims_in_opposite_order_do_not_block_each_other(
    session: Session, other: Session, connect: Connect, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3"])
    mine = sorted(await claim(session, queue, 1, 1, 1), key=lambda each: each.token)
    third, watch = await connect(), await connect()
    transaction = third.transaction()
    await transaction.start()
    await third.execute("select from laneway.claim where token = $1 for update", mine[0].token)
    forth = await start_and_block(watch, session, ack(session, mine))
    back = await start_and_block(watch, other, ack(other, mine[::-1]))
    await transaction.commit()
    assert sorted([await forth, await back]) == [[], [0, 1, 2]]
    assert await count(session, queue) == Counts(acknowledged=3)


async def test_two_acks_of_one_claim_settle_it_once(
    session: Session, other: Session, connect: Connect, queue: Queue
) -> None:
    await push(session, queue, ["1", "2"])
    mine = await claim(session, queue, 2)
    transaction = session.transaction()
    await transaction.start()
    assert await ack(session, mine[:1]) == []
    acking = await start_and_block(await connect(), other, ack(other, mine))
    await transaction.commit()
    assert await acking == [0]
    acked = await session.fetchval(
        "select sum(last_seq - first_seq + 1) from laneway.events where action = 'acked'"
    )
    assert acked == 2


async def test_racing_release_and_nack_return_a_message_once(
    session: Session, other: Session, connect: Connect, queue: Queue
) -> None:
    await push(session, queue, ["1"])
    mine = await claim(session, queue, 1)
    transaction = session.transaction()
    await transaction.start()
    assert await release(session, mine) == []
    nacking = await start_and_block(await connect(), other, nack(other, mine))
    await transaction.commit()
    assert await nacking == ["lost"]
    assert [each.attempt for each in await claim(session, queue, 2)] == [1]


@pytest.mark.invariant(1)
async def test_late_commit_in_an_ordered_queue_blocks_the_next_push(
    session: Session, other: Session, connect: Connect
) -> None:
    queue = await create_queue(session, ordered=True)
    await push(session, queue, ["0"])
    transaction = session.transaction()
    await transaction.start()
    await push(session, queue, ["1"])
    pushing = await start_and_block(await connect(), other, push(other, queue, ["2"]))
    await transaction.commit()
    await pushing
    assert [each.body for each in await claim(session, queue, 5)] == ["0", "1", "2"]


@pytest.mark.invariant(1)
async def test_late_commit_in_a_shared_queue_is_not_skipped(
    session: Session, other: Session, queue: Queue
) -> None:
    await push(session, queue, ["0"])
    async with session.transaction():
        await push(session, queue, ["1"])
        await push(other, queue, ["2"])
        first = await claim(other, queue, 5)
        assert [each.body for each in first] == ["0", "2"]
        assert await ack(other, first) == []
        assert await sweep_idle(other) == 1
    assert [each.body for each in await claim(other, queue, 5)] == ["1"]


@pytest.mark.invariant(1)
async def test_push_that_is_rolled_back_leaves_no_hole(
    session: Session, other: Session, queue: Queue
) -> None:
    await push(session, queue, ["0"])
    transaction = session.transaction()
    await transaction.start()
    await push(session, queue, ["1"])
    await transaction.rollback()
    [place] = await push(other, queue, ["2"])
    assert place.seq == 2
    assert await count(session, queue) == Counts(queued=2)


@pytest.mark.parametrize("ordered", [False, True])
async def test_group_created_during_the_creation_of_a_lane_reads_it(
    session: Session, other: Session, connect: Connect, *, ordered: bool
) -> None:
    queue = await create_queue(session, "q", ordered=ordered)
    transaction = session.transaction()
    await transaction.start()
    await push(session, queue, ["1"], partitions=["new"])
    making = await start_and_block(
        await connect(), other, create_group(other, queue, "late", start="all")
    )
    await transaction.commit()
    group = await making
    assert [each.body for each in await claim(session, group, 5)] == ["1"]
    assert await find_orphans(session) == {}


async def test_lane_created_during_the_creation_of_a_group_has_a_reader(
    session: Session, other: Session, connect: Connect, queue: Queue
) -> None:
    transaction = session.transaction()
    await transaction.start()
    group = await create_group(session, queue, "early")
    pushing = await start_and_block(
        await connect(), other, push(other, queue, ["1"], partitions=["new"])
    )
    await transaction.commit()
    await pushing
    assert [each.body for each in await claim(session, group, 5)] == ["1"]


async def test_group_deleted_under_an_open_claim_leaves_nothing_behind(
    session: Session, other: Session, connect: Connect, queue: Queue
) -> None:
    group = await create_group(session, queue, "gone")
    await push(session, queue, ["1"])
    transaction = session.transaction()
    await transaction.start()
    await claim(session, group, 1)
    deleting = await start_and_block(
        await connect(), other, other.execute("select laneway.delete_group('work', 'gone')")
    )
    await transaction.commit()
    await deleting
    assert await find_orphans(session) == {}
    with pytest.raises(asyncpg.PostgresError) as caught:
        await claim(session, group, 1)
    assert sqlstate(caught.value) == "LW404"


async def test_queue_deleted_under_an_open_push_leaves_nothing_behind(
    session: Session, other: Session, connect: Connect, queue: Queue
) -> None:
    await push(session, queue, ["1"], keys=["a"])
    transaction = session.transaction()
    await transaction.start()
    await push(session, queue, ["2"], keys=["b"])
    deleting = await start_and_block(
        await connect(), other, other.execute("select laneway.delete_queue('work', true)")
    )
    await transaction.commit()
    await deleting
    assert await find_orphans(session) == {}
    with pytest.raises(asyncpg.PostgresError) as caught:
        await push(session, queue, ["3"])
    assert sqlstate(caught.value) == "LW404"


@pytest.mark.parametrize("keys", [None, ["a"]], ids=["plain", "keyed"])
@pytest.mark.parametrize("ordered", [False, True], ids=["shared", "ordered"])
async def test_push_that_waited_for_the_deletion_of_its_queue_is_refused(
    session: Session, other: Session, connect: Connect, *, ordered: bool, keys: list[str] | None
) -> None:
    queue = await create_queue(session, ordered=ordered)
    await push(session, queue, ["1"])
    await ack(session, await claim(session, queue, 1))
    transaction = session.transaction()
    await transaction.start()
    await session.execute("select laneway.delete_queue('work')")
    pushing = await start_and_block(await connect(), other, push(other, queue, ["2"], keys=keys))
    await transaction.commit()
    with pytest.raises(asyncpg.PostgresError) as caught:
        await pushing
    assert sqlstate(caught.value) == "LW404"
    assert await find_orphans(session) == {}


RESUME = "select laneway.change_workflow_status('run', '{paused,failed}', 'running')"


@pytest.fixture
async def paused(session: Session, queue: Queue) -> None:
    """Have a run that goes on with another message."""
    await session.execute("select laneway.start_workflow('run', 'flow', 'work', '[]')")
    await session.execute("select laneway.change_workflow_status('run', '{running}', 'paused')")
    await ack(session, await claim(session, queue, 1))


@pytest.mark.usefixtures("paused")
async def test_queue_deleted_under_a_run_that_is_resumed_ends_the_run(
    session: Session, other: Session, connect: Connect
) -> None:
    transaction = session.transaction()
    await transaction.start()
    await session.execute(RESUME)
    deleting = await start_and_block(
        await connect(), other, other.execute("select laneway.delete_queue('work', true)")
    )
    await transaction.commit()
    await deleting
    assert await session.fetchval("select status from laneway.workflow") == "failed"
    assert await find_orphans(session) == {}


@pytest.mark.usefixtures("paused")
async def test_run_resumed_while_its_queue_is_deleted_stays_ended(
    session: Session, other: Session, connect: Connect
) -> None:
    transaction = session.transaction()
    await transaction.start()
    await session.execute("select laneway.delete_queue('work', true)")
    resuming = await start_and_block(await connect(), other, other.execute(RESUME))
    await transaction.commit()
    with pytest.raises(asyncpg.PostgresError, match="was deleted") as caught:
        await resuming
    assert sqlstate(caught.value) == "LW409"
    assert await session.fetchval("select status from laneway.workflow") == "failed"


async def test_push_during_the_idle_sweep_keeps_the_reader_ready(
    session: Session, other: Session, connect: Connect
) -> None:
    queue = await create_queue(session, ordered=True)
    await push(session, queue, ["1"])
    await ack(session, await claim(session, queue, 1))
    transaction = session.transaction()
    await transaction.start()
    assert await sweep_idle(session) == 1
    pushing = await start_and_block(await connect(), other, push(other, queue, ["2"]))
    await transaction.commit()
    await pushing
    assert [each.body for each in await claim(session, queue, 1)] == ["2"]


async def test_reader_of_a_lane_with_an_open_push_does_not_become_idle(
    session: Session, other: Session, queue: Queue
) -> None:
    await push(session, queue, ["1"])
    await ack(session, await claim(session, queue, 1))
    async with session.transaction():
        await push(session, queue, ["2"])
        assert await sweep_idle(other) == 0
    assert [each.body for each in await claim(session, queue, 1)] == ["2"]


async def test_purge_keeps_messages_that_are_being_pushed(
    session: Session, other: Session, queue: Queue
) -> None:
    await push(session, queue, ["1"])
    transaction = session.transaction()
    await transaction.start()
    await push(session, queue, ["2"])
    assert await purge(other, queue, "queued") == 1
    await rotate(other)
    await transaction.commit()
    assert [each.body for each in await claim(other, queue, 10)] == ["2"]


async def test_position_at_the_end_misses_no_open_push(
    session: Session, other: Session, queue: Queue
) -> None:
    await push(session, queue, ["1"])
    transaction = session.transaction()
    await transaction.start()
    await push(session, queue, ["2"])
    await rotate(other)
    await seek(other, queue, "latest")
    await transaction.commit()
    assert [each.body for each in await claim(other, queue, 10)] == ["2"]


async def test_empty_claims_do_not_deadlock(session: Session, other: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2"], priorities=[0, 5])
    await ack(session, await claim(session, queue, 2))

    async def claim_often(connection: Session) -> int:
        turned_away = 0
        for _ in range(200):
            try:
                assert await claim(connection, queue, 1) == []
            except asyncpg.PostgresError as error:
                assert sqlstate(error) == "LW503"  # noqa: PT017 - told to call again
                turned_away += 1
        return turned_away

    await asyncio.gather(claim_often(session), claim_often(other))


async def test_group_created_during_an_update_has_the_new_settings(
    session: Session, other: Session, queue: Queue
) -> None:
    async with session.transaction():
        await session.execute(
            "select laneway.update_queue($1, $2)",
            queue.name,
            '{"lease": "2 hours", "record_events": false}',
        )
        making = await start_and_block(session, other, create_group(other, queue, "late"))
    row = await session.fetchrow(
        "select lease, record_events from laneway.consumer_group where group_id = $1", await making
    )
    assert tuple(row or ()) == (2 * HOUR, False)


async def test_creation_of_a_group_blocks_no_update_of_its_queue(
    session: Session, other: Session, connect: Connect, queue: Queue
) -> None:
    third = await connect()
    await third.execute("set lock_timeout = '10s'")
    async with session.transaction():
        # As a push to a new partition does, before it needs the queue's row.
        await session.execute(
            "select pg_advisory_xact_lock_shared('laneway.queue'::regclass::oid::int, $1)",
            queue.queue_id,
        )
        making = await start_and_block(session, other, create_group(other, queue, "late"))
        await third.execute(
            "select laneway.update_queue($1, $2)", queue.name, '{"lease": "2 hours"}'
        )
        await push(session, queue, ["1"], partitions=["new"])
    [late] = await claim(other, await making, 1)
    assert late.until - await other.fetchval("select clock_timestamp()") > HOUR


async def test_seek_during_a_redrive_delivers_each_message_once(
    session: Session, other: Session, connect: Connect, queue: Queue
) -> None:
    await push(session, queue, ["1", "2", "3"])
    await nack(session, await claim(session, queue, 3), dead=True)
    transaction = session.transaction()
    await transaction.start()
    assert await replay(session, queue) == 3
    seeking = await start_and_block(await connect(), other, seek(other, queue, "earliest"))
    await transaction.commit()
    await seeking
    assert await count(session, queue) == Counts(queued=3)
    assert [each.body for each in await claim(session, queue, 10)] == ["1", "2", "3"]
    assert await count(session, queue) == Counts(processing=3)


@pytest.mark.parametrize("way", ["replay", "claim", "nack", "expire", "archive"])
async def test_queue_deleted_while_its_messages_move_leaves_no_rows(
    session: Session, other: Session, connect: Connect, queue: Queue, way: str
) -> None:
    await push(session, queue, ["1"], max_attempts=[2])
    await nack(session, await claim(session, queue, 1), dead=way == "replay")
    claimed = await claim(session, queue, 1) if way in {"nack", "expire", "archive"} else []
    if way == "expire":
        await expire_leases(session, claimed)
    transaction = session.transaction()
    await transaction.start()
    match way:
        case "replay":
            assert await replay(session, queue) == 1
        case "claim":
            assert len(await claim(session, queue, 1)) == 1
        case "nack":
            assert await nack(session, claimed) == ["dead"]
        case "expire":
            assert await expire(session) == 1
        case "archive":
            assert await move(
                session, queue, [claimed[0].place], source="processing", target="archived"
            )
    deleting = await start_and_block(
        await connect(), other, other.execute("select laneway.delete_queue('work', true)")
    )
    await transaction.commit()
    await deleting
    assert await find_orphans(session) == {}


async def test_queue_options_are_checked_when_the_push_is_written(
    session: Session, other: Session, connect: Connect
) -> None:
    """A push that waited goes by the queue as it has become meanwhile."""
    queue = await create_queue(session, ordered=True)
    await push(session, queue, ["1"])
    for keys in (None, ["a"]):
        transaction = session.transaction()
        await transaction.start()
        await push(session, queue, ["2"])
        pushing = await start_and_block(
            await connect(),
            other,
            other.fetch(
                "select * from laneway.push_many(array[$1::int], array['3'::json], p_keys => $2,"
                " p_guards => array[0::smallint])",
                queue.queue_id,
                keys,
            ),
        )
        changing = await connect()
        await changing.execute("select laneway.update_queue('work', '{\"encrypted\": true}')")
        await transaction.commit()
        with pytest.raises(asyncpg.PostgresError) as caught:
            await pushing
        assert sqlstate(caught.value) == "LW412"
        await changing.execute("select laneway.update_queue('work', '{\"encrypted\": false}')")


async def test_deletion_locks_lanes_in_the_order_of_pushes_whatever_the_collation(
    server: str,
) -> None:
    try:
        await execute(
            server,
            "create database sorted template template0 locale_provider icu icu_locale 'en-US'",
        )
    except asyncpg.FeatureNotSupportedError:
        pytest.skip("this server has no ICU, so none but the C order of partitions")
    dsn = name_database(server, "sorted")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(execute, server, "drop database sorted with (force)")
        pushing, deleting, watching = [await asyncpg.connect(dsn) for _ in range(3)]
        for each in (pushing, deleting, watching):
            stack.push_async_callback(each.close, timeout=10)
        await install(pushing)
        queue = await create_queue(pushing, ordered=True)
        await push(pushing, queue, ["1", "2"], partitions=["a", "B"])
        async with pushing.transaction():
            await push(pushing, queue, ["3"], partitions=["B"])
            gone = await start_and_block(
                watching, deleting, deleting.execute("select laneway.delete_queue('work', true)")
            )
            await push(pushing, queue, ["4"], partitions=["a"])
        await gone


# Calls that end or extend leases: $1 the group, $2 to $5 tokens, segments, lanes and seqs.
TAKING = {
    "seek": "laneway.seek($1, 'earliest')",
    "purge": "laneway.purge($1, 'processing')",
    "delete_between": "laneway.delete_between($1, '-infinity', 'infinity')",
    "delete_group": "laneway.delete_group('work', 'more')",
    "delete_queue": "laneway.delete_queue('work', true)",
    "move": "laneway.move_messages($1, $3, $4, $5, 'processing', 'dead')",
    "release": "laneway.move_messages($1, $3, $4, $5, 'processing', 'queued')",
    "archive": "laneway.archive_many($1, $2, $3, $4, $5)",
    "renew": "laneway.extend_leases($2, array_fill(interval '1 hour', array[2]))",
    "require": "laneway.transact_stream($2, null, null, null, null, null, null, null, null, null, null)",
}


@pytest.mark.invariant(13)
@pytest.mark.parametrize("taking", TAKING)
@pytest.mark.parametrize("settling", [ack, nack])
async def test_reclaim_and_settle_lock_in_the_same_order(
    session: Session,
    other: Session,
    connect: Connect,
    taking: str,
    settling: Callable[[Session, list[Delivery]], Awaitable[object]],
) -> None:
    queue = await create_queue(session, "work")
    group = await create_group(session, queue, "more")
    await push(session, queue, ["1"] * 12)
    got = [(await claim(session, group, 1))[0] for _ in range(12)]
    # By their seqs one way round, by their tokens the other.
    pair = next([a, b] for a, b in pairwise(got) if b.token < a.token)
    holder, third = await connect(), await connect()
    transaction = holder.transaction()
    await transaction.start()
    await ack(holder, pair[:1])
    statement = (
        f"with given as (select $1::int, $2::uuid[], $3::int[], $4::int[], $5::bigint[]) "
        f"select from given, {TAKING[taking]}"
    )
    taken = await start_and_block(
        session,
        other,
        other.execute(
            statement,
            group,
            [each.token for each in pair],
            [each.place.segment for each in pair],
            [each.place.lane_id for each in pair],
            [each.place.seq for each in pair],
        ),
    )
    settled = await start_and_block(session, third, settling(third, pair))
    await transaction.rollback()
    await asyncio.gather(taken, settled)
    kept = taking in {"renew", "require"}
    assert await settled in (([], ["requeued"] * 2) if kept else ([0, 1], ["lost"] * 2))


# Functions that lock several readers: $1 the queue, $2 the lanes.
LOCKING_READERS = {
    "redrive": "laneway.redrive_by_policy($1)",
    "rest": "laneway.start_rest_windows($2)",
    "settle": "laneway.settle_stream($2, array['1', '2'], null, null, array['default', 'default'], null,"
    " array['ack', 'ack'], null)",
    "transact": "laneway.transact_stream(null, $2, array['1', '2'], null, null, array['default', 'default'],"
    " null, array['ack', 'ack'], null, null, null)",
    "move": "laneway.move_messages((select group_id from laneway.consumer_group where queue_id = $1),"
    " array[2, 2], $2, array[1, 1]::bigint[], 'dead', 'queued')",
}


@pytest.mark.invariant(13)
@pytest.mark.parametrize("locking", LOCKING_READERS)
async def test_readers_are_locked_in_order_of_lane(
    session: Session, other: Session, connect: Connect, locking: str
) -> None:
    target = await create_queue(session, "letters", ordered=True)
    queue = await create_queue(
        session, ordered=True, rest_window="1 microsecond", dead_letter_queue="letters"
    )
    lanes = []
    # As when two transactions create a lane each at the same time: the reader ids are the other way round.
    for partition, last_reader in (("a", 1000), ("b", 500)):
        await session.execute(
            "select setval(pg_get_serial_sequence('laneway.reader', 'reader_id'), $1)", last_reader
        )
        await push(session, queue, ["1"], partitions=[partition])
        lanes.append(
            await session.fetchval(
                "select lane_id from laneway.lane where partition = $1", partition
            )
        )
    assert lanes == sorted(lanes)
    await nack(session, [(await claim(session, queue, 1))[0] for _ in lanes], dead=True)
    third = await connect()
    async with other.transaction():
        await other.execute(
            "select pg_advisory_xact_lock('laneway.reader'::regclass::oid::int, reader_id)"
            " from laneway.reader where lane_id = $1",
            lanes[0],
        )
        work = third.execute(
            f"with given as (select $1::int, $2::int[]) select from given, {LOCKING_READERS[locking]}",
            queue.queue_id,
            lanes,
        )
        waiting = await start_and_block(session, third, work)
        locked = await session.fetchval(
            "select count(*) from pg_locks where pid = $1 and locktype = 'advisory' and granted"
            " and classid = 'laneway.reader'::regclass",
            third.get_server_pid(),
        )
    (error,) = await asyncio.gather(waiting, return_exceptions=True)
    # The transaction is refused, because its messages are not leased.
    assert isinstance(error, str) or (locking == "transact" and sqlstate(error) == "LW410")
    assert locked == 0
    assert (await count(session, target)).queued == (len(lanes) if locking == "redrive" else 0)
