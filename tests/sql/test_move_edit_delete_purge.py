"""Manual changes of messages: move, edit, delete, purge, redrive, archive."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import asyncpg
import pytest

from tests.sql.calls import (
    HOUR,
    STATES,
    Counts,
    Place,
    ack,
    claim,
    count,
    create_queue,
    edit,
    make_due,
    move,
    nack,
    purge,
    push,
    replay,
    sqlstate,
)

if TYPE_CHECKING:
    from tests.sql.calls import Queue, Session


@pytest.fixture
async def queue(session: Session) -> Queue:
    return await create_queue(session, max_attempts=5)


async def bring_to(session: Session, queue: Queue, state: str) -> Place:
    """Push one message and bring it into a state, as the only one in it."""
    [place] = await push(session, queue, ['{"n": 1}'], headers=['{"h": 2}'])
    if state == "queued":
        return place
    if state == "archived":
        await move(session, queue, [place], source="queued", target="archived")
        return place
    got = await claim(session, queue, 1)
    if state == "acknowledged":
        await ack(session, got)
    elif state == "dead":
        await nack(session, got, dead=True)
    return place


@pytest.mark.parametrize(
    ("source", "target"), [pair for pair in itertools.product(STATES, STATES) if len({*pair}) == 2]
)
async def test_message_moves_between_any_two_states(
    session: Session, queue: Queue, source: str, target: str
) -> None:
    place = await bring_to(session, queue, source)
    moved = await move(session, queue, [place], source=source, target=target, reason="by hand")
    assert list(moved) == [0]
    assert (moved[0] is not None) == (target == "processing")
    assert await count(session, queue) == Counts(**{target: 1})
    got = await claim(session, queue, 5)
    if target == "queued":
        assert [(each.body, each.headers) for each in got] == [('{"n": 1}', '{"h": 2}')]
        assert [each.attempt for each in got] == [2 if source == "processing" else 1]
    else:
        assert got == []
    event = await session.fetchrow(
        "select * from laneway.event where action = 'moved' order by event_id desc limit 1"
    )
    assert event is not None
    assert event["reason"] == "by hand"
    if (source, target) != ("processing", "queued"):
        detail = json.loads(event["detail"])
        assert (detail["from"], detail["to"]) == (source, target)


@pytest.mark.parametrize("source", STATES)
async def test_message_is_deleted_from_any_state(
    session: Session, queue: Queue, source: str
) -> None:
    place = await bring_to(session, queue, source)
    await push(session, queue, ["2"])
    assert await move(session, queue, [place], source=source, target="deleted") == {0: None}
    assert await count(session, queue) == Counts(queued=1)
    assert [each.body for each in await claim(session, queue, 5)] == ["2"]
    assert await session.fetchval("select count(*) from laneway.revision") == 0


async def test_message_in_another_state_is_not_moved(session: Session, queue: Queue) -> None:
    place = await bring_to(session, queue, "queued")
    for source in set(STATES) - {"queued"}:
        assert await move(session, queue, [place], source=source, target="deleted") == {}
    nowhere = [Place(place.segment, place.lane_id, 99), Place(place.segment, 99, 1)]
    assert await move(session, queue, nowhere, source="queued", target="dead") == {}
    assert await count(session, queue) == Counts(queued=1)


async def test_several_messages_move_in_one_call(session: Session, queue: Queue) -> None:
    places = await push(session, queue, ["1", "2", "3"], partitions=["a", "b", "a"])
    asked = [places[2], Place(2, 1, 99), places[0]]
    assert set(await move(session, queue, asked, source="queued", target="dead")) == {0, 2}
    assert await count(session, queue) == Counts(queued=1, dead=2)


async def test_unknown_state_is_refused(session: Session, queue: Queue) -> None:
    place = await bring_to(session, queue, "queued")
    for source, target in (("queued", "gone"), ("deleted", "queued")):
        with pytest.raises(asyncpg.PostgresError) as caught:
            await move(session, queue, [place], source=source, target=target)
        assert sqlstate(caught.value) == "LW422"


async def test_message_moved_to_processing_can_be_settled(session: Session, queue: Queue) -> None:
    place = await bring_to(session, queue, "queued")
    moved = await move(
        session,
        queue,
        [place],
        source="queued",
        target="processing",
        consumer="somebody",
        lease=HOUR,
    )
    row = await session.fetchrow(
        "select consumer_id, lock_token, locked_until - created_at > interval '59 minutes' "
        "from laneway.messages"
    )
    assert tuple(row or ()) == ("somebody", moved[0], True)
    rows = await session.fetch(
        "select * from laneway.ack_many($1, $2, $3, $3)", [moved[0]], [place.lane_id], [place.seq]
    )
    assert rows == []
    assert await count(session, queue) == Counts(acknowledged=1)


async def test_edit_changes_what_is_delivered_and_keeps_the_id(
    session: Session, queue: Queue
) -> None:
    places = await push(session, queue, ["1", "2", "3"])
    changes = {
        "body": {"new": [1, "x"]},
        "headers": {"h": 1},
        "partition": "elsewhere",
        "priority": 7,
        "lease": "1 hour",
        "max_attempts": 9,
    }
    assert await edit(session, queue, places[2], "queued", **changes)
    assert await count(session, queue) == Counts(queued=3)
    assert await claim(session, queue, 1, partition="elsewhere", priority=0) == []
    got = await claim(session, queue, 3)
    assert [each.body for each in got] == ['{"new": [1, "x"]}', "1", "2"]
    first = got[0]
    assert first.place == places[2]
    assert (first.partition, first.priority, first.headers) == ("elsewhere", 7, '{"h": 1}')
    assert (first.lease, first.max_attempts) == (HOUR, 9)
    assert await ack(session, got) == []


async def test_edit_names_only_what_changes(session: Session, queue: Queue) -> None:
    [place] = await push(
        session, queue, ['{"a":  "\\u0000"}'], headers=['{"h": 1}'], priorities=[3]
    )
    assert await edit(session, queue, place, "queued", priority=4)
    [one] = await claim(session, queue, 1)
    assert (one.body, one.headers, one.priority) == ('{"a":  "\\u0000"}', '{"h": 1}', 4)


async def test_headers_and_limits_can_be_edited_away(session: Session, queue: Queue) -> None:
    [place] = await push(session, queue, ["1"], headers=['{"h": 1}'], max_attempts=[1])
    assert await edit(session, queue, place, "queued", headers=None, max_attempts=None)
    row = await session.fetchrow("select headers, max_attempts from laneway.messages")
    assert tuple(row or ()) == (None, 5)
    [one] = await claim(session, queue, 1)
    assert (one.headers, one.max_attempts) == (None, None)


async def test_edit_of_a_message_in_flight_shows_at_its_redelivery(
    session: Session, queue: Queue
) -> None:
    [place] = await push(session, queue, ["1"])
    got = await claim(session, queue, 1)
    assert await edit(session, queue, place, "processing", body=2, priority=5)
    await nack(session, got)
    [again] = await claim(session, queue, 1)
    assert (again.body, again.priority, again.attempt) == ("2", 5, 2)


async def test_edit_of_a_dead_letter_shows_when_it_is_replayed(
    session: Session, queue: Queue
) -> None:
    place = await bring_to(session, queue, "dead")
    assert await edit(session, queue, place, "dead", body=2)
    await replay(session, queue)
    assert [each.body for each in await claim(session, queue, 1)] == ["2"]


async def test_edit_of_a_delayed_message_keeps_its_delay(session: Session, queue: Queue) -> None:
    places = await push(session, queue, ["1"], delays=[HOUR])
    assert await edit(session, queue, places[0], "queued", body=2)
    assert await claim(session, queue, 1) == []
    await make_due(session, queue)
    assert [each.body for each in await claim(session, queue, 1)] == ["2"]


async def test_message_in_another_state_is_not_edited(session: Session, queue: Queue) -> None:
    place = await bring_to(session, queue, "acknowledged")
    for state in ("queued", "processing", "dead", "acknowledged"):
        assert not await edit(session, queue, place, state, body=2)
    assert not await edit(session, queue, Place(2, 99, 1), "queued", body=2)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"id": 1}, "LW422"),
        ({"priority": "high"}, "LW422"),
        ({"priority": None}, "LW422"),
        ({"max_attempts": 0}, "LW422"),
        ({"lease": "-1 second"}, "LW422"),
        ({"lease": "9000 years"}, "LW422"),
        ({"body": "\0"}, "LW422"),
        ({"partition": "long" * 1000}, "LW422"),
        ({"body": "x" * 200}, "LW413"),
    ],
)
async def test_bad_edit_is_refused_and_changes_nothing(
    session: Session, changes: dict[str, object], state: str
) -> None:
    queue = await create_queue(session, max_bytes=100)
    [place] = await push(session, queue, ["1"])
    with pytest.raises(asyncpg.PostgresError) as caught:
        await edit(session, queue, place, "queued", **changes)
    assert sqlstate(caught.value) == state
    assert [each.body for each in await claim(session, queue, 1)] == ["1"]


async def test_message_that_is_deleted_is_not_edited(session: Session, queue: Queue) -> None:
    [place] = await push(session, queue, ["1"])
    await move(session, queue, [place], source="queued", target="deleted")
    for state in ("queued", None):
        assert not await session.fetchval(
            "select laneway.edit_message($1, $2, $3, $4, $5, $6)",
            queue.group_id,
            place.segment,
            place.lane_id,
            place.seq,
            state,
            '{"body": 7}',
        )
    assert await session.fetchval("select count(*) from laneway.revision") == 0


async def test_lane_of_an_ordered_message_cannot_be_edited(session: Session) -> None:
    queue = await create_queue(session, ordered=True)
    [place] = await push(session, queue, ["1"])
    with pytest.raises(asyncpg.PostgresError) as caught:
        await edit(session, queue, place, "queued", priority=5)
    assert sqlstate(caught.value) == "LW422"


async def fill(session: Session, queue: Queue) -> dict[str, Place]:
    """Create one message in each state; the last one is in flight."""
    places = {
        state: await bring_to(session, queue, state)
        for state in ("acknowledged", "dead", "archived", "processing")
    }
    places["queued"] = await bring_to(session, queue, "queued")
    assert await count(session, queue) == Counts(1, 1, 1, 1, 1)
    return places


@pytest.mark.parametrize("status", STATES)
async def test_purge_removes_one_state_only(session: Session, queue: Queue, status: str) -> None:
    await fill(session, queue)
    assert await purge(session, queue, status) == 1
    left = await count(session, queue)
    assert left == Counts(**{state: int(state != status) for state in STATES})
    assert await purge(session, queue, status) == 0


async def test_purge_removes_everything(session: Session, queue: Queue) -> None:
    await fill(session, queue)
    await push(session, queue, ["1", "2"], partitions=["a", "b"])
    await nack(session, await claim(session, queue, 1), delay=HOUR)
    assert await purge(session, queue) == 7
    assert await count(session, queue) == Counts()
    [place] = await push(session, queue, ["3"])
    assert place.seq == 6
    assert [each.body for each in await claim(session, queue, 5)] == ["3"]


async def test_purge_of_messages_in_flight_voids_their_tokens(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1"])
    got = await claim(session, queue, 1)
    await purge(session, queue, "processing")
    assert await ack(session, got) == [0]


async def test_purge_of_an_unknown_state_is_refused(session: Session, queue: Queue) -> None:
    for group, status, state in ((queue.group_id, "lost", "LW422"), (99, "dead", "LW404")):
        with pytest.raises(asyncpg.PostgresError) as caught:
            await purge(session, group, status)
        assert sqlstate(caught.value) == state


async def test_oldest_dead_letter_is_redriven_first_with_attempts_from_zero(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, [str(n) for n in range(1, 7)])
    got = await claim(session, queue, 6)
    for each in (got[3], got[0], got[5], got[1]):
        await nack(session, [each], dead=True, reason="bad")
    assert await replay(session, queue, 3) == 3
    assert await count(session, queue) == Counts(queued=3, processing=2, dead=1)
    again = await claim(session, queue, 6)
    assert [(each.body, each.attempt) for each in again] == [("1", 1), ("4", 1), ("6", 1)]
    assert await replay(session, queue) == 1
    assert await replay(session, queue) == 0


async def test_redriven_message_may_be_dead_lettered_again(session: Session, queue: Queue) -> None:
    await bring_to(session, queue, "dead")
    for _ in range(2):
        assert await replay(session, queue) == 1
        await nack(session, await claim(session, queue, 1), dead=True, reason="again")
    assert await count(session, queue) == Counts(dead=1)
    assert await session.fetchval("select reason from laneway.dead_letter") == "again"
