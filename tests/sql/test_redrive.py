"""Dead-letter queues, move tasks, and what is stored with queues."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg
import pytest

from laneway.server.sqs.ids import show_id
from tests.sql.calls import HOUR, ack, claim, count, create_queue, nack, push, sqlstate

if TYPE_CHECKING:
    from tests.postgres import Connect
    from tests.sql.calls import Queue, Session

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Pair(NamedTuple):
    source: Queue
    dead: Queue


@pytest.fixture(params=[False, True], ids=["shared", "ordered"])
async def pair(request: pytest.FixtureRequest, session: Session) -> Pair:
    """Return a queue and the one its dead letters go to."""
    settings = {"dead_letter_queue": "dead", "dead_letter_source": "arn:aws:sqs:r:1:work"}
    dead = await create_queue(session, "dead", ordered=request.param, max_bytes=10)
    return Pair(await create_queue(session, ordered=request.param, **settings), dead)


async def push_dead_letters(
    session: Session, queue: Queue, bodies: list[str], **columns: Any
) -> None:
    await push(session, queue, bodies, **columns)
    while taken := await claim(session, queue, 100):
        await nack(session, taken, dead=True)


async def redrive(
    session: Session, queue: Queue | None = None, limit: int = 1000
) -> dict[int, int]:
    rows = await session.fetch(
        "select * from laneway.redrive_by_policy($1, $2)", queue.queue_id if queue else None, limit
    )
    return {row["queue_id"]: row["messages"] for row in rows}


async def run(session: Session, limit: int = 500) -> None:
    while await session.fetch("select * from laneway.run_moves($1)", limit):
        pass


async def look(session: Session) -> Any:
    return await session.fetchrow("select * from laneway.list_moves('dead', 1)")


async def test_dead_letters_go_where_their_queue_says(session: Session, pair: Pair) -> None:
    # Longer than the other queue takes: what was accepted once is not lost here.
    body = json.dumps("x" * 20)
    places = await push(
        session,
        pair.source,
        [body],
        partitions=["p"],
        keys=["k"],
        headers=['{"theirs": "\\u0000", "sqs": {"trace": "t"}}'],
    )
    await session.execute(
        "update laneway.message set created_at = date_trunc('second', created_at) + interval '1.9 ms'"
    )
    taken = await claim(session, pair.source, 1)
    await nack(session, taken, dead=True)
    assert await redrive(session) == {pair.dead.queue_id: 1}
    moved = (await claim(session, pair.dead, 1))[0]
    assert (moved.body, moved.partition, moved.key, moved.attempt) == (body, "p", None, 1)
    assert moved.headers is not None
    headers = json.loads(moved.headers)
    # The database's functions cannot read this character, so it is another now.
    assert headers["theirs"] == "\ufffd"
    assert headers["sqs"] == {"trace": "t"}
    place = places[0]
    assert headers["moved"] == {
        "id": show_id(place.segment, place.lane_id, place.seq),
        # Of a millisecond that has begun, as clients were shown it before.
        "sent": (taken[0].created_at - EPOCH) // timedelta(milliseconds=1),
        "source": "arn:aws:sqs:r:1:work",
        "queue": "work",
        "received": 1,
        "key": "k",
    }
    left = await count(session, pair.source)
    assert (left.queued, left.processing, left.acknowledged, left.dead) == (0, 0, 0, 0)
    assert await redrive(session) == {}


async def test_dead_letter_has_the_id_that_sqs_showed(session: Session) -> None:
    largest = 2**31 - 1
    rare = (largest, 1 << 15, (1 << 15) - 1, 7, 8)
    seqs = (1, 2**48 - 1, 2**48, 2**59 - 1, 2**59, 2**63 - 1)
    for place in [*((2, lane, seq) for lane in rare for seq in seqs), (largest, largest, 1)]:
        id_ = await session.fetchval("select laneway.message_uuid($1, $2, $3)::text", *place)
        assert id_ == show_id(*place)


@pytest.mark.parametrize("expired", [False, True], ids=["nacked", "expired"])
async def test_messages_dead_lettered_together_keep_their_order(
    session: Session, pair: Pair, *, expired: bool
) -> None:
    texts = [str(n) for n in range(5)]
    await push(session, pair.source, texts)
    taken = await claim(session, pair.source, 5)
    if expired:
        await session.execute("update laneway.queue set max_attempts = 1 where name = 'work'")
        await session.execute("update laneway.claim set until = clock_timestamp()")
        await session.execute("select laneway.expire_claims()")
    else:
        await nack(session, taken, dead=True)
    # In more than one step as well.
    assert await redrive(session, limit=3) == {pair.dead.queue_id: 3}
    assert await redrive(session, limit=3) == {pair.dead.queue_id: 2}
    moved = []
    while taken := await claim(session, pair.dead, 10):
        moved += [each.body for each in taken]
        assert await ack(session, taken) == []
    assert moved == texts


async def test_message_received_too_often_is_returned_where_its_dead_letter_queue_is_missing(
    session: Session, pair: Pair
) -> None:
    await session.execute(
        "select laneway.update_queue('work', $1)",
        json.dumps({"max_attempts": 2, "dead_letter_queue": "nowhere", "max_receives": 1}),
    )
    await push_dead_letters(session, pair.source, ['"by hand"'])
    await push(session, pair.source, ["1"])
    for _ in range(2):
        taken = await claim(session, pair.source, 1)
        await nack(session, taken)
    left = await count(session, pair.source)
    assert (left.queued, left.dead) == (0, 2)
    assert await redrive(session) == {pair.source.queue_id: 1}
    assert await redrive(session) == {}
    [again] = await claim(session, pair.source, 5)
    assert (again.body, again.attempt) == ("1", 1)
    left = await count(session, pair.source)
    assert (left.processing, left.dead) == (1, 1)


async def test_second_move_keeps_the_first_id(session: Session, pair: Pair) -> None:
    await push_dead_letters(session, pair.source, ["1"])
    await redrive(session)
    first = json.loads((await claim(session, pair.dead, 1))[0].headers or "")["moved"]
    await session.execute(
        "select laneway.update_queue('dead', $1)",
        json.dumps({"dead_letter_queue": "grave", "dead_letter_source": "second"}),
    )
    grave = await create_queue(session, "grave")
    await session.execute("update laneway.claim set until = clock_timestamp()")
    await session.execute("select laneway.expire_claims()")
    taken = await claim(session, pair.dead, 1)
    await nack(session, taken, dead=True)
    await redrive(session, pair.dead)
    second = json.loads((await claim(session, grave, 1))[0].headers or "")["moved"]
    # It was received once before, and twice there.
    assert second == {**first, "source": "second", "queue": "dead", "received": 3}


async def test_queue_without_a_dead_letter_queue_keeps_its_dead_letters(session: Session) -> None:
    plain = await create_queue(session, "plain")
    astray = await create_queue(session, "astray", dead_letter_queue="none")
    for queue in (plain, astray):
        await push_dead_letters(session, queue, ["1"])
    assert await redrive(session) == {}
    assert [(await count(session, queue)).dead for queue in (plain, astray)] == [1, 1]


async def test_concurrent_redrives_move_each_message_once(
    session: Session, pair: Pair, connect: Connect
) -> None:
    await push_dead_letters(
        session, pair.source, [str(n) for n in range(30)], partitions=list("abc") * 10
    )
    sessions = [await connect() for _ in range(3)]
    found = await asyncio.gather(*(redrive(each, limit=20) for each in sessions))
    await redrive(session)
    moved = []
    while taken := await claim(session, pair.dead, 100):
        moved += [each.body for each in taken]
        assert await ack(session, taken) == []
    assert sorted(map(int, moved)) == list(range(30))
    assert sum(sum(each.values()) for each in found) <= 30


async def test_move_task_returns_messages_to_their_source(session: Session, pair: Pair) -> None:
    await push_dead_letters(session, pair.source, ["1", "2", "3"], partitions=["a", "b", "a"])
    await redrive(session)
    await session.execute("select laneway.start_move('dead', null, null)")
    assert await session.fetchval("select laneway.start_move('dead', null, null)") is None
    await run(session)
    task = await look(session)
    assert (task["status"], task["moved"], task["total"]) == ("COMPLETED", 3, 3)
    back = []
    while taken := await claim(session, pair.source, 10):
        back += taken
    assert sorted((each.partition, each.body) for each in back) == [
        ("a", "1"),
        ("a", "3"),
        ("b", "2"),
    ]
    assert {each.headers for each in back} == {None}
    cancel = "select laneway.cancel_move($1, $2)"
    assert await session.fetchval(cancel, task["task_id"], pair.dead.queue_id) is None


async def test_move_task_prefers_the_name_of_the_queue_to_the_end_of_its_arn(
    session: Session, pair: Pair
) -> None:
    """Messages that moved before the name was recorded have only the ARN."""
    long = await create_queue(session, "r:1:work")
    source = "arn:aws:sqs:r:1:work"
    headers = [{"source": source}, {"source": source, "queue": "r:1:work"}]
    await push(
        session, pair.dead, ["1", "2"], headers=[json.dumps({"moved": moved}) for moved in headers]
    )
    await session.execute("select laneway.start_move('dead', null, null)")
    await run(session)
    assert [each.body for each in await claim(session, pair.source, 10)] == ["1"]
    assert [each.body for each in await claim(session, long, 10)] == ["2"]


async def test_move_task_without_a_source_fails_and_changes_nothing(
    session: Session, pair: Pair
) -> None:
    await push(session, pair.dead, ["1"])
    await session.execute("select laneway.start_move('dead', null, null)")
    await run(session)
    task = await look(session)
    assert (task["status"], task["moved"]) == ("FAILED", 0)
    assert [each.body for each in await claim(session, pair.dead, 1)] == ["1"]


async def test_move_task_skips_messages_in_flight(session: Session, pair: Pair) -> None:
    await push(session, pair.dead, ["1", "2"], partitions=["a", "b"])
    held = await claim(session, pair.dead, 1, leases=[HOUR])
    await session.execute("select laneway.start_move('dead', 'work', null)")
    await run(session)
    assert (await look(session))["moved"] == 1
    assert await ack(session, held) == []
    with pytest.raises(asyncpg.PostgresError) as raised:
        await session.execute("select laneway.start_move('dead', 'none', 1)")
    assert sqlstate(raised.value) == "LW404"


async def test_options_are_merged_by_section_under_a_race(
    session: Session, connect: Connect
) -> None:
    await create_queue(session, options={"other": 1})

    async def tag(number: int) -> None:
        other = await connect()
        await other.execute(
            "select laneway.configure_queue('work', '{}', 'sqs', $1)",
            json.dumps({"tags": {f"t{number}": "x"}}),
        )

    await asyncio.gather(*(tag(number) for number in range(5)))
    await session.execute(
        "select laneway.configure_queue('work', $1, 'sqs', $2)",
        json.dumps({"lease": "7 seconds"}),
        json.dumps({"tags": {"t0": None, "t1": None}, "arn": "a"}),
    )
    row = await session.fetchrow("select options, lease from laneway.queue")
    assert row is not None
    assert json.loads(row["options"]) == {
        "other": 1,
        "sqs": {"arn": "a", "tags": {"t2": "x", "t3": "x", "t4": "x"}},
    }
    assert row["lease"].total_seconds() == 7
    # Who says what he saw is told when that is not so any more.
    guarded = "select laneway.configure_queue('work', '{}', 'sqs', '{\"arn\": \"b\"}', $1)"
    seen = await session.fetchval("select updated_at from laneway.queue")
    await session.execute(guarded, seen)
    with pytest.raises(asyncpg.PostgresError) as raised:
        await session.execute(guarded, seen)
    assert sqlstate(raised.value) == "LW503"
    for name, settings, code in (("none", "{}", "LW404"), ("work", '{"lease": "0"}', "LW422")):
        with pytest.raises(asyncpg.PostgresError) as raised:
            await session.execute(
                "select laneway.configure_queue($1, $2, 'sqs', '{}')", name, settings
            )
        assert sqlstate(raised.value) == code


async def test_attempts_and_deletions_are_remembered_for_a_while(session: Session) -> None:
    queue = await create_queue(session)
    await push(session, queue, ["1"])
    taken = (await claim(session, queue, 1))[0]
    place = [[taken.token], [taken.segment], [taken.lane_id], [taken.seq]]
    for window in (HOUR, -HOUR):
        await session.execute(
            "select laneway.store_receive_attempt($1, 'a', $2, $3, $4, $5, $6, $7)",
            queue.queue_id,
            *place,
            window,
            12345,
        )
        rows = await session.fetch(
            "select * from laneway.find_receive_attempt($1, 'a')", queue.queue_id
        )
        assert [tuple(row) for row in rows] == (
            [(taken.token, taken.segment, taken.lane_id, taken.seq, 12345)]
            if window > -window
            else []
        )
    await session.execute("select laneway.record_queue_deletion('gone')")
    await session.execute("select laneway.record_queue_deletion('work')")
    for name, expected in (("gone", True), ("work", False), ("never", False)):
        found = await session.fetchval("select laneway.was_queue_deleted($1, $2)", name, HOUR)
        assert found is expected
    assert await session.fetchval("select laneway.sweep_sqs()") == 1


async def test_delayed_and_in_flight_messages_are_counted(session: Session) -> None:
    queue = await create_queue(session)
    await push(session, queue, ["1", "2", "3"], delays=[None, HOUR, None])
    group = queue.group_id
    assert await session.fetchval("select laneway.count_delayed($1)", group) == 1
    taken = await claim(session, queue, 10)
    assert await session.fetchval("select laneway.count_in_flight($1)", group) == 2
    assert await session.fetchval("select laneway.count_delayed($1)", group) == 1
    rows = await session.fetch(
        "select * from laneway.first_claim_times($1, $2, $3)",
        group,
        [each.lane_id for each in taken],
        [each.seq for each in taken],
    )
    assert [row["idx"] for row in rows] == [0, 1]
    assert await ack(session, taken) == []
    assert await session.fetchval("select laneway.count_in_flight($1)", group) == 0
