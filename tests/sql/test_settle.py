"""Ack, nack, release, extend and expiry in shared groups; expired tokens settle nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import asyncpg
import pytest

from tests.sql.calls import (
    HOUR,
    Counts,
    ack,
    ack_spans,
    claim,
    count,
    count_reads,
    create_queue,
    expire,
    expire_leases,
    extend,
    make_due,
    move,
    nack,
    push,
    release,
    sqlstate,
)

if TYPE_CHECKING:
    from datetime import datetime

    from tests.postgres import Connect
    from tests.sql.calls import Delivery, Queue, Session

MINUTE = timedelta(minutes=1)


@pytest.fixture
async def queue(session: Session) -> Queue:
    return await create_queue(session, max_attempts=3)


async def push_and_claim(session: Session, queue: Queue, number: int) -> list[Delivery]:
    await push(session, queue, [str(n + 1) for n in range(number)])
    got = await claim(session, queue, number)
    assert len(got) == number
    return got


async def read_clock(session: Session) -> datetime:
    now: datetime = await session.fetchval("select clock_timestamp()")
    return now


async def test_acked_message_is_not_redelivered(session: Session, queue: Queue) -> None:
    got = await push_and_claim(session, queue, 2)
    assert await ack(session, got) == []
    assert await claim(session, queue, 5) == []
    assert await count(session, queue) == Counts(acknowledged=2)
    assert await session.fetchval("select count(*) from laneway.claim") == 0


async def test_span_is_acked_by_its_ends(session: Session, queue: Queue) -> None:
    got = await push_and_claim(session, queue, 5)
    assert await ack_spans(session, [(got[0].token, got[0].lane_id, 1, 5)]) == []
    assert await count(session, queue) == Counts(acknowledged=5)


async def test_several_claims_are_acked_in_one_call(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3", "4"], partitions=["a", "b", "a", "b"])
    got = await claim(session, queue, 2, 2)
    # Each waiter's claim has a part in each of the two lanes.
    assert len({each.token for each in got}) == 2
    assert len({(each.token, each.lane_id) for each in got}) == 4
    assert await ack(session, got) == []
    assert await count(session, queue) == Counts(acknowledged=4)


async def test_partial_acks_in_any_order_leave_the_rest_in_flight(
    session: Session, queue: Queue
) -> None:
    got = await push_and_claim(session, queue, 5)
    assert await ack(session, [got[3], got[1]]) == []
    assert await count(session, queue) == Counts(processing=3, acknowledged=2)
    assert await ack_spans(session, [(got[0].token, got[0].lane_id, 1, 5)]) == [
        (0, 2, 2),
        (0, 4, 4),
    ]
    assert await count(session, queue) == Counts(acknowledged=5)


async def test_second_ack_reports_a_lost_lease(session: Session, queue: Queue) -> None:
    got = await push_and_claim(session, queue, 2)
    assert await ack(session, got[:1]) == []
    assert await ack(session, got[:1]) == [0]
    assert await ack(session, got) == [0]
    assert await ack(session, got) == [0, 1]


async def test_span_named_twice_in_one_call_is_settled_once(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2"], partitions=["a", "b"])
    first, second = await claim(session, queue, 1, 1)
    assert await ack(session, [first, second, first]) == []
    assert await count(session, queue) == Counts(acknowledged=2)
    acked = await session.fetchval(
        "select sum(last_seq - first_seq + 1) from laneway.events where action = 'acked'"
    )
    assert acked == 2


async def test_overlapping_spans_in_one_call_settle_their_union(
    session: Session, queue: Queue
) -> None:
    [one, *_] = await push_and_claim(session, queue, 5)
    runs = [(one.token, one.lane_id, 1, 3), (one.token, one.lane_id, 2, 4)]
    assert await ack_spans(session, runs) == []
    assert await count(session, queue) == Counts(processing=1, acknowledged=4)


async def test_empty_ack_does_nothing(session: Session, queue: Queue) -> None:
    await push_and_claim(session, queue, 1)
    assert await ack(session, []) == []
    assert await nack(session, []) == []
    assert await release(session, []) == []
    assert await count(session, queue) == Counts(processing=1)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("ack_many", "array[$1::uuid], null, null, null"),
        ("ack_many", "array[$1::uuid], array[$2::int], array[1], null"),
        ("ack_many", "array[$1::uuid], array[$2::int], array[2], array[1]"),
        ("ack_many", "array[$1::uuid], array[$2::int], array[1], array[9223372036854775807]"),
        ("ack_parts", "array[$1::uuid], null, null, null"),
        ("release_many", "array[$1::uuid], null, null"),
        ("release_many", "array[$1::uuid], array[$2::int], null"),
        ("extend_many", "array[$1::uuid], array[$2::int], array[1], array[null::interval]"),
        ("extend_many", "array[$1::uuid], array[$2::int], array[1], null"),
    ],
)
async def test_arrays_that_do_not_fit_are_refused(
    session: Session, queue: Queue, function: str, arguments: str
) -> None:
    [held] = await push_and_claim(session, queue, 1)
    with pytest.raises(asyncpg.PostgresError) as caught:
        # Both are named somewhere, so that PostgreSQL knows their types.
        await session.fetch(
            f"select f.*, $1::uuid, $2::int from laneway.{function}({arguments}) f",
            held.token,
            held.lane_id,
        )
    assert sqlstate(caught.value) == "LW422"
    assert await ack(session, [held]) == []


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("last", [0, 2**63 - 1])
@pytest.mark.parametrize("lanes", [["", ""], ["", "b"]], ids=["one", "two"])
@pytest.mark.parametrize("holders", [1, 2])
async def test_invalid_span_is_refused_beside_others(
    session: Session, queue: Queue, lanes: list[str], last: int, holders: int, *, shared: bool
) -> None:
    await push(session, queue, ["1", "2"], partitions=lanes)
    got = await claim(session, queue, *[2 // holders] * holders)
    with pytest.raises(asyncpg.PostgresError, match="invalid span") as caught:
        await session.fetch(
            "select * from laneway.ack_many($1, $2, $3, $4, $5)",
            [each.token for each in got],
            [each.lane_id for each in got],
            [each.seq for each in got],
            [got[0].seq, last],
            shared,
        )
    assert sqlstate(caught.value) == "LW422"
    assert await count(session, queue) == Counts(processing=2)


@pytest.mark.invariant(6)
async def test_wrong_token_settles_nothing(session: Session, queue: Queue) -> None:
    [one] = await push_and_claim(session, queue, 1)
    assert await ack_spans(session, [(uuid4(), one.lane_id, 1, 1)]) == [(0, 1, 1)]
    assert await count(session, queue) == Counts(processing=1)


async def test_token_settles_only_in_its_own_lane(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2"], partitions=["a", "b"])
    first, second = await claim(session, queue, 1, 1)
    assert await ack_spans(session, [(first.token, second.lane_id, 1, 1)]) == [(0, 1, 1)]
    assert await count(session, queue) == Counts(processing=2)


async def test_good_claims_are_settled_beside_a_bad_one(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2"], partitions=["a", "b"])
    first, second = await claim(session, queue, 1, 1)
    await expire_leases(session, [first])
    assert await ack(session, [first, second]) == [0]
    assert await count(session, queue) == Counts(processing=1, acknowledged=1)


@pytest.mark.invariant(6)
async def test_expired_token_settles_nothing(session: Session, queue: Queue) -> None:
    got = await push_and_claim(session, queue, 2)
    await expire_leases(session, got)
    assert await ack(session, got) == [0, 1]
    assert await nack(session, got, dead=True) == ["lost", "lost"]
    assert await release(session, got) == [0, 1]
    assert await extend(session, got, HOUR) == [None, None]
    assert await extend(session, got[:1], HOUR, whole=True) == [None]
    assert await count(session, queue) == Counts(processing=2)


async def test_expired_lock_returns_to_queue(session: Session, queue: Queue) -> None:
    late = await push_and_claim(session, queue, 2)
    assert await expire(session) == 0
    await expire_leases(session, late)
    assert await expire(session) == 2
    assert await count(session, queue) == Counts(queued=2)
    again = await claim(session, queue, 2)
    assert [(each.body, each.attempt) for each in again] == [("1", 2), ("2", 2)]
    assert await ack(session, late) == [0, 1]
    assert await ack(session, again) == []
    errors = await session.fetch("select reason from laneway.event where action = 'expired'")
    assert {row["reason"] for row in errors} == {"Timeout - requeued"}


async def test_only_unsettled_messages_of_an_expired_claim_return(
    session: Session, queue: Queue
) -> None:
    got = await push_and_claim(session, queue, 3)
    await ack(session, [got[1]])
    await expire_leases(session, got)
    assert await expire(session) == 2
    assert [each.body for each in await claim(session, queue, 3)] == ["1", "3"]


async def test_expired_claims_end_in_batches(session: Session, queue: Queue) -> None:
    await push(session, queue, ["1", "2", "3"])
    await expire_leases(session, await claim(session, queue, 1, 1, 1))
    rows = await session.fetch("select * from laneway.expire_claims(2)")
    assert [(row["queue_id"], row["group_id"], row["messages"]) for row in rows] == [
        (queue.queue_id, queue.group_id, 1)
    ] * 2
    assert await count(session, queue) == Counts(queued=2, processing=1)


async def test_expiry_reads_only_claims_that_ended_since_the_last_round(
    session: Session, queue: Queue
) -> None:
    await expire_leases(session, await push_and_claim(session, queue, 1))
    now = await read_clock(session)
    assert await session.fetch("select * from laneway.expire_claims(10, $1)", now) == []
    assert (
        len(await session.fetch("select * from laneway.expire_claims(10, $1)", now - MINUTE)) == 1
    )


async def test_message_whose_lease_expired_too_often_is_dead_lettered(session: Session) -> None:
    queue = await create_queue(session, max_attempts=2)
    await push(session, queue, ["1"])
    for _ in range(2):
        await expire_leases(session, await claim(session, queue, 1, consumers=["worker"]))
        await expire(session)
    assert await count(session, queue) == Counts(dead=1)
    row = await session.fetchrow("select reason, attempt, consumer from laneway.dead_letter")
    assert tuple(row or ()) == ("Timeout after max attempts", 2, "worker")


async def test_nacked_message_is_redelivered_with_its_reason(
    session: Session, queue: Queue
) -> None:
    got = await push_and_claim(session, queue, 2)
    assert await nack(session, got[:1], reason="no luck") == ["requeued"]
    assert await count(session, queue) == Counts(queued=1, processing=1)
    shown = await session.fetchrow(
        "select status, attempt_count, last_error from laneway.messages where seq = 1"
    )
    assert tuple(shown or ()) == ("queued", 1, "no luck")
    [again] = await claim(session, queue, 2)
    assert (again.body, again.attempt, again.token == got[0].token) == ("1", 2, False)


async def test_nacked_messages_are_redelivered_in_their_order(
    session: Session, queue: Queue
) -> None:
    got = await push_and_claim(session, queue, 5)
    await nack(session, [got[2], got[0], got[4]])
    assert [each.body for each in await claim(session, queue, 5)] == ["1", "3", "5"]


@pytest.mark.parametrize("ordered", [False, True])
async def test_nack_may_retry_a_message_beyond_its_attempts(
    session: Session, *, ordered: bool
) -> None:
    queue = await create_queue(session, max_attempts=3, ordered=ordered)
    await push(session, queue, ["1"])
    for attempt in (1, 2, 3, 4):
        (got,) = await claim(session, queue, 1)
        assert got.attempt == attempt
        assert await nack(session, [got], reason="no", dead=False) == ["requeued"]
    (got,) = await claim(session, queue, 1)
    assert await nack(session, [got], reason="no") == ["dead"]


async def test_each_item_of_a_nack_has_its_own_reason_delay_and_outcome(
    session: Session, queue: Queue
) -> None:
    got = await push_and_claim(session, queue, 3)
    rows = await session.fetch(
        "select * from laneway.nack_many($1, $2, $3, $4, $5, $6) order by idx",
        [each.token for each in got],
        [each.lane_id for each in got],
        [each.seq for each in got],
        ["soon", "later", "never"],
        [None, HOUR, None],
        [None, False, True],
    )
    assert [row["outcome"] for row in rows] == ["requeued", "requeued", "dead"]
    assert [each.body for each in await claim(session, queue, 3)] == ["1"]
    assert await session.fetchval("select error from laneway.parked") == "later"
    assert await session.fetchval("select reason from laneway.dead_letter") == "never"


async def test_nacked_message_is_delayed(session: Session, queue: Queue) -> None:
    await nack(session, await push_and_claim(session, queue, 1), delay=HOUR)
    assert await claim(session, queue, 1) == []
    due = await session.fetchval("select laneway.next_due($1)", queue.group_id)
    assert timedelta(minutes=59) < due - await read_clock(session) <= HOUR
    await make_due(session, queue)
    assert [each.attempt for each in await claim(session, queue, 1)] == [2]


async def test_backoff_grows_up_to_its_limit(session: Session) -> None:
    queue = await create_queue(
        session,
        max_attempts=None,
        backoff="1 minute",
        backoff_factor=3,
        backoff_limit="20 minutes",
    )
    await push(session, queue, ["1"])
    waits = []
    for _ in range(4):
        await nack(session, await claim(session, queue, 1))
        due = await session.fetchval("select available_at from laneway.parked")
        waits.append((due - await read_clock(session)) / MINUTE)
        await make_due(session, queue)
    for wait, middle in zip(waits, (1, 3, 9, 20), strict=True):
        assert 0.85 * middle < wait <= 1.1 * middle


async def test_backoff_varies_at_random_unless_it_is_constant(session: Session) -> None:
    delays = (
        "select count(distinct laneway.backoff_delay('1 minute', $1, '1 hour', n % 2)),"
        " min(laneway.backoff_delay('1 minute', $1, '1 hour', n % 2)) from generate_series(1, 50) n"
    )
    growing = await session.fetchrow(delays, 2.0)
    assert growing is not None
    assert growing[0] > 1
    constant = await session.fetchrow(delays, 1.0)
    assert constant is not None
    assert tuple(constant) == (1, MINUTE)


async def test_backoff_longer_than_its_limit_is_not_shortened(session: Session) -> None:
    delay = await session.fetchval("select laneway.backoff_delay('1 hour', 1, '10 minutes', 9)")
    assert delay == HOUR


@pytest.mark.parametrize("factor", [1e4, 1e99, 1e300])
async def test_backoff_with_a_large_factor_stops_at_its_limit(
    session: Session, factor: float
) -> None:
    queue = await create_queue(
        session,
        max_attempts=None,
        backoff="1 second",
        backoff_factor=factor,
        backoff_limit="1 hour",
    )
    await push(session, queue, ["1"])
    await nack(session, await claim(session, queue, 1))
    for attempt in (1, 2, 3, 60, 1000):
        await make_due(session, queue)
        await session.execute("update laneway.parked set attempt = $1", attempt)
        assert await nack(session, await claim(session, queue, 1)) == ["requeued"]
        due = await session.fetchval("select available_at from laneway.parked")
        assert 0.89 * HOUR < due - await read_clock(session) <= 1.1 * HOUR


@pytest.mark.invariant(7)
async def test_message_out_of_attempts_is_dead_lettered_with_its_reason(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1"], headers=['{"h": [1]}'], keys=["k"])
    for expected in ("requeued", "requeued", "dead"):
        got = await claim(session, queue, 1, consumers=["worker"])
        assert await nack(session, got, reason="bad") == [expected]
    assert await claim(session, queue, 1) == []
    row = await session.fetchrow(
        "select reason, attempt, consumer, headers, key, body from laneway.dead_letter"
    )
    assert tuple(row or ()) == ("bad", 3, "worker", '{"h": [1]}', "k", "1")


@pytest.mark.parametrize("reason", [None, ""])
@pytest.mark.parametrize("ordered", [False, True], ids=["shared", "ordered"])
async def test_dead_letter_without_a_reason_has_a_default_reason(
    session: Session, reason: str | None, *, ordered: bool
) -> None:
    queue = await create_queue(session, "unsaid", ordered=ordered)
    await push(session, queue, ["1", "2", "3"], max_attempts=[2, 2, 2])
    for expected in ("requeued", "dead"):
        [got] = await claim(session, queue, 1)
        assert await nack(session, [got], reason=reason) == [expected]
    [got] = await claim(session, queue, 1)
    assert await nack(session, [got], reason=reason, dead=True) == ["dead"]
    [got] = await claim(session, queue, 1)
    assert await move(session, queue, [got.place], source="processing", target="dead") != {}
    letters = await session.fetch("select body::text, reason from laneway.dead_letter order by seq")
    assert [tuple(row) for row in letters] == [
        ("1", "Nacked without a reason (attempt 2 of 2)"),
        ("2", "Dead-lettered without a reason (attempt 1)"),
        ("3", "Moved to the dead letters without a reason"),
    ]
    told = await session.fetch("select reason from laneway.event where action = 'dead' order by at")
    assert [row["reason"] for row in told] == [row["reason"] for row in letters][:2]


async def test_message_moved_to_the_dead_letters_keeps_its_last_error(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1"])
    got = await claim(session, queue, 1)
    assert await nack(session, got, reason="broken") == ["requeued"]
    await move(session, queue, [each.place for each in got], source="queued", target="dead")
    assert await session.fetchval("select reason from laneway.dead_letter") == "broken"


async def test_max_attempts_of_a_message_override_those_of_the_queue(
    session: Session, queue: Queue
) -> None:
    await push(session, queue, ["1", "2"], max_attempts=[1, None])
    assert await nack(session, await claim(session, queue, 2)) == ["dead", "requeued"]


async def test_queue_without_max_attempts_never_dead_letters(session: Session) -> None:
    queue = await create_queue(session, max_attempts=None)
    await push(session, queue, ["1"])
    for attempt in range(1, 9):
        [one] = await claim(session, queue, 1)
        assert one.attempt == attempt
        assert await nack(session, [one]) == ["requeued"]


async def test_attempts_are_counted_up_to_the_maximum(session: Session) -> None:
    queue = await create_queue(session, max_attempts=None)
    [place, _] = await push(session, queue, ["1", "2"])
    await nack(session, await claim(session, queue, 1))
    await session.execute("update laneway.parked set attempt = 32766")
    for _ in range(2):
        one, two = await claim(session, queue, 2)
        assert ([one.attempt, one.body], two.body) == ([32767, "1"], "2")
        assert await nack(session, [one]) == ["requeued"]
        assert await release(session, [two]) == []
    await move(session, queue, [place], source="queued", target="processing")
    assert await session.fetchval("select attempt from laneway.claim") == 32767


async def test_nack_may_dead_letter_a_message_at_once(session: Session, queue: Queue) -> None:
    got = await push_and_claim(session, queue, 2)
    assert await nack(session, got[:1], dead=True, reason="hopeless") == ["dead"]
    assert await count(session, queue) == Counts(processing=1, dead=1)
    assert await nack(session, got[:1]) == ["lost"]


@pytest.mark.invariant(7)
async def test_released_message_counts_no_attempt(session: Session, queue: Queue) -> None:
    got = await push_and_claim(session, queue, 3)
    assert await release(session, got[:2]) == []
    again = await claim(session, queue, 3)
    assert [(each.body, each.attempt) for each in again] == [("1", 1), ("2", 1)]
    assert await ack(session, got) == [0, 1]
    await nack(session, again[:1])
    [third] = await claim(session, queue, 1)
    assert third.attempt == 2
    await release(session, [third])
    assert [each.attempt for each in await claim(session, queue, 1)] == [2]


async def test_released_message_may_be_delayed(session: Session, queue: Queue) -> None:
    assert await release(session, await push_and_claim(session, queue, 1), delay=HOUR) == []
    assert await claim(session, queue, 1) == []
    await make_due(session, queue)
    assert [each.attempt for each in await claim(session, queue, 1)] == [1]


async def test_extend_of_one_message_splits_the_claim_and_keeps_the_token(
    session: Session, queue: Queue
) -> None:
    got = await push_and_claim(session, queue, 3)
    [until] = await extend(session, [got[1]], HOUR)
    assert until is not None
    assert timedelta(minutes=59) < until - await read_clock(session) <= HOUR
    rows = await session.fetch(
        "select seq, lock_token, locked_until from laneway.messages order by seq"
    )
    assert {row["lock_token"] for row in rows} == {got[0].token}
    assert [row["locked_until"] for row in rows] == [got[0].until, until, got[2].until]
    await session.execute(
        "update laneway.claim set until = clock_timestamp() - interval '1 second' where part = 0"
    )
    assert await expire(session) == 2
    assert await ack(session, got) == [0, 2]
    assert await count(session, queue) == Counts(queued=2, acknowledged=1)


async def test_parts_of_a_split_claim_are_acked_by_one_span(session: Session, queue: Queue) -> None:
    got = await push_and_claim(session, queue, 3)
    await extend(session, [got[1]], HOUR)
    await extend(session, [got[2]], MINUTE)
    assert await ack_spans(session, [(got[0].token, got[0].lane_id, 1, 3)]) == []
    assert await count(session, queue) == Counts(acknowledged=3)


async def test_parts_of_a_split_claim_are_released_by_one_call(
    session: Session, queue: Queue
) -> None:
    got = await push_and_claim(session, queue, 4)
    await extend(session, [got[1]], HOUR)
    assert await nack(session, [got[0], got[1]]) == ["requeued", "requeued"]
    assert await release(session, got[2:]) == []
    assert await count(session, queue) == Counts(queued=4)


async def test_extend_of_a_whole_claim(session: Session, queue: Queue) -> None:
    got = await push_and_claim(session, queue, 3)
    [until] = await extend(session, got[:1], HOUR, whole=True)
    rows = await session.fetch("select part, until from laneway.claim")
    assert [tuple(row) for row in rows] == [(0, until)]


async def test_extend_by_zero_ends_the_lease_at_once(session: Session, queue: Queue) -> None:
    got = await push_and_claim(session, queue, 2)
    await extend(session, got[:1], timedelta(0))
    assert await expire(session) == 1
    assert await ack(session, got) == [0]
    assert [each.body for each in await claim(session, queue, 2)] == ["1"]


@pytest.mark.parametrize("ordered", [False, True])
async def test_time_beyond_the_last_date_is_refused(session: Session, *, ordered: bool) -> None:
    queue = await create_queue(session, ordered=ordered)
    await push(session, queue, ["1", "2"], partitions=["a", "b"])
    [held] = await claim(session, queue, 1)
    long = timedelta(days=365_251)
    for call in (
        claim(session, queue, 1, leases=[long]),
        extend(session, [held], long),
        nack(session, [held], delay=long),
        release(session, [held], delay=long),
        move(session, queue, [held.place], source="processing", target="processing", lease=long),
    ):
        with pytest.raises(asyncpg.PostgresError, match="lease or delay too long") as caught:
            await call
        assert sqlstate(caught.value) == "LW422"
    assert await count(session, queue) == Counts(queued=1, processing=1)


async def test_current_lease_of_a_message_is_found(session: Session, queue: Queue) -> None:
    got = await push_and_claim(session, queue, 3)
    await ack(session, got[:1])
    rows = await session.fetch(
        "select * from laneway.find_lease_tokens($1, $2, $3)",
        queue.group_id,
        [each.lane_id for each in got],
        [each.seq for each in got],
    )
    assert {row["idx"]: row["token"] for row in rows} == {1: got[0].token, 2: got[0].token}


@pytest.mark.parametrize("ordered", [False, True])
async def test_redelivered_message_has_its_last_error(session: Session, *, ordered: bool) -> None:
    queue = await create_queue(session, "told", ordered=ordered)
    await push(session, queue, ["1", "2"])
    first = await claim(session, queue, 2)
    assert [each.error for each in first] == [None, None]
    await nack(session, first, reason="no luck")
    again = await claim(session, queue, 2)
    assert [(each.attempt, each.error) for each in again] == [(2, "no luck")] * 2
    for statement in (
        "select last_error from laneway.list_messages($1, 'processing')",
        "select last_error from laneway.messages where group_id = any ($1)",
    ):
        rows = await session.fetch(statement, [queue.group_id])
        assert [row["last_error"] for row in rows] == ["no luck"] * 2
    # Given back unread, it is as it was.
    assert await release(session, again) == []
    assert [each.error for each in await claim(session, queue, 2)] == ["no luck"] * 2


async def test_acks_do_not_scan_rows_that_open_snapshots_keep(
    session: Session, connect: Connect, queue: Queue
) -> None:
    pinning = await connect()
    async with pinning.transaction(isolation="repeatable_read"):
        await pinning.execute("select 1 from pg_catalog.pg_class")
        await push(session, queue, ["1"] * 1010)
        assert await ack(session, await claim(session, queue, *[1] * 1000)) == []
        # The table is empty now, and the planner knows it.
        await session.execute("analyze laneway.claim")
        async with session.transaction():
            before = await count_reads(session, "claim_pkey")
            assert await ack(session, await claim(session, queue, *[1] * 10)) == []
            assert await count_reads(session, "claim_pkey") - before <= 20


async def test_claim_that_cannot_expire_blocks_no_other(session: Session) -> None:
    stuck, well = await create_queue(session, "stuck"), await create_queue(session, "well")
    warnings: list[str] = []
    session.add_log_listener(lambda _, message: warnings.append(str(message)))
    for each in (stuck, well):
        await push(session, each, ["1"])
        await expire_leases(session, await claim(session, each, 1))
    await session.execute(
        "alter table laneway.parked add constraint none_of_the_stuck check (reader_id <> "
        f"{await session.fetchval('select reader_id from laneway.reader where group_id = $1', stuck.group_id)})"
    )
    assert await expire(session) == 1
    assert await count(session, well) == Counts(queued=1)
    assert await count(session, stuck) == Counts(processing=1)
    assert len(warnings) == 1
