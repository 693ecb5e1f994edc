"""Streams in SQL: leases over lanes, settlement by key, transactions, windows, maintenance."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

if TYPE_CHECKING:
    from tests.postgres import Connect

Session = Any

READ_BY_OWN_GROUP = "select laneway.subscribe('stream', 'default', 'all', null)"


async def make_stream(session: Session, **more: Any) -> int:
    settings = {
        "ordered": True,
        "dedup_scope": "partition",
        "max_attempts": 2,
        "backoff": "0",
        "default_group_optional": True,
        "options": {"queen": {}},
        **more,
    }
    queue: int = await session.fetchval(
        "select laneway.create_queue('stream', $1)", json.dumps(settings)
    )
    return queue


async def find_group(session: Session, queue: int) -> int:
    group: int = await session.fetchval(
        "select group_id from laneway.consumer_group where queue_id = $1", queue
    )
    return group


async def push(session: Session, queue: int, partition: str, *keys: str) -> list[Any]:
    bodies = [json.dumps(key) for key in keys]
    rows: list[Any] = await session.fetch(
        "select * from laneway.push_many(array[$1::int], $2, array[$3], p_keys => $4)",
        queue,
        bodies,
        partition,
        list(keys),
    )
    return rows


async def claim(session: Session, group: int, want: int = 10, lease: str = "1 minute") -> Any:
    return await session.fetchrow(
        "select * from laneway.claim_spans($1, array[$2::int], array[$3::text::interval])",
        group,
        want,
        lease,
    )


async def settle(session: Session, *items: tuple[Any, ...]) -> list[str]:
    """Settle (lane, key, lease, action) each; return the outcomes."""
    rows = await session.fetch(
        "select * from laneway.settle_stream($1, $2, $3, $4, $5, $6, $7, $8)",
        [item[0] for item in items],
        [item[1] for item in items],
        [None] * len(items),
        [None] * len(items),
        ["default"] * len(items),
        [item[2] for item in items],
        [item[3] for item in items],
        [None] * len(items),
    )
    return [row["outcome"] for row in rows]


async def test_wider_claim_adds_lanes_under_one_lease(connect: Connect) -> None:
    session = await connect()
    queue = await make_stream(session)
    group = await find_group(session, queue)
    for partition in "abcdef":
        await push(session, queue, partition, "x", "y")
    first = await claim(session, group, 3)
    rows = await session.fetch(
        "select w.lease, (w.span).* from laneway.widen_lease($1, $2, $3, 5, 3) w",
        group,
        first["token"],
        first["lane_id"],
    )
    assert sorted(len(row["bodies"]) for row in rows) == [1, 2, 2]
    [lease] = {row["lease"] for row in rows}
    tokens = await session.fetchval("select laneway.lease_tokens($1)", lease)
    assert set(tokens) == {first["token"], *(row["token"] for row in rows)}
    [extended] = await session.fetch(
        "select * from laneway.extend_leases(array[$1::uuid], array[interval '1 hour'])", lease
    )
    assert extended["renewed"] == len(tokens)
    outcomes = await settle(
        session,
        *((row["lane_id"], key, lease, "ack") for row in (first, *rows) for key in row["keys"]),
    )
    assert outcomes == ["completed"] * sum(len(row["bodies"]) for row in (first, *rows))


async def test_one_lost_message_fails_the_whole_settlement_of_its_lease(connect: Connect) -> None:
    session = await connect()
    queue = await make_stream(session)
    group = await find_group(session, queue)
    for partition in "ab":
        await push(session, queue, partition, "1", "2")
    one, other = await claim(session, group), await claim(session, group)
    lease = one["token"]
    outcomes = await settle(
        session,
        (one["lane_id"], "1", lease, "ack"),
        (other["lane_id"], "1", lease, "ack"),
        (other["lane_id"], "2", other["token"], "ack"),
    )
    assert outcomes == ["lease", "lease", "completed"]
    assert await settle(session, (one["lane_id"], "1", lease, "ack")) == ["completed"]
    assert await settle(session, (one["lane_id"], "1", lease, "ack")) == ["noop"]
    assert await settle(session, (one["lane_id"], "1", lease, "retry")) == ["committed"]
    assert await settle(session, (one["lane_id"], "9", lease, "ack")) == ["unresolved"]


async def test_racing_settlements_settle_a_message_once(connect: Connect) -> None:
    session, other = await connect(), await connect()
    queue = await make_stream(session)
    group = await find_group(session, queue)
    await push(session, queue, "a", *map(str, range(20)))
    held = await claim(session, group, 20)
    items = [(held["lane_id"], str(n), held["token"], "ack") for n in range(20)]
    outcomes = await asyncio.gather(settle(session, *items), settle(other, *items[::-1]))
    assert sorted(outcomes) == [["completed"] * 20, ["noop"] * 20]


async def list_attempts(session: Session, group: int) -> list[tuple[str, int]]:
    """Claim everything; return the key and attempt of each message."""
    rows = await session.fetch("select * from laneway.claim_many($1, array[100])", group)
    return [(row["key"], row["attempt"]) for row in rows]


async def list_events(session: Session) -> list[tuple[str, int, int]]:
    rows = await session.fetch(
        "select action, first_seq, last_seq from laneway.event"
        " where action not in ('pushed', 'claimed', 'queue_created') order by first_seq, at"
    )
    return [tuple(row) for row in rows]


async def make_batch(session: Session, size: int, **settings: Any) -> tuple[int, Any]:
    """Push messages 1, 2, … and claim them; return the group and the claim."""
    queue = await make_stream(session, **settings)
    group = await find_group(session, queue)
    await push(session, queue, "a", *(str(n + 1) for n in range(size)))
    return group, await claim(session, group, size)


@pytest.mark.invariant(14)
async def test_ack_commits_the_messages_before_it(connect: Connect) -> None:
    session = await connect()
    group, held = await make_batch(session, 6)
    lane, lease = held["lane_id"], held["token"]
    rows = await session.fetch(
        "select * from laneway.settle_stream(array[$1::int], array['4'], null, null, array['default'],"
        " array[$2::uuid], array['ack'], null)",
        lane,
        lease,
    )
    assert [tuple(row) for row in rows] == [(0, "completed", False, 3)]
    assert await list_events(session) == [("acked", 1, 4)]
    named = [(lane, "2", lease, "ack"), (lane, "3", lease, "retry"), (lane, "5", lease, "dead")]
    assert await settle(session, *named[:2]) == ["noop", "committed"]
    assert await settle(session, named[2], (lane, "6", lease, "release")) == ["dead", "requeued"]
    assert await list_events(session) == [("acked", 1, 4), ("dead", 5, 5), ("released", 6, 6)]
    assert await list_attempts(session, group) == [("6", 1)]


@pytest.mark.invariant(7)
@pytest.mark.parametrize("failed", ["retry", "release"])
async def test_failed_message_clamps_the_commit(connect: Connect, failed: str) -> None:
    session = await connect()
    group, held = await make_batch(session, 7, max_attempts=3)

    async def say(*words: tuple[str, str]) -> list[str]:
        items = [(held["lane_id"], key, held["token"], action) for key, action in words]
        return await settle(session, *items)

    # The second is dead, the first done by implication; the third is named by nobody.
    words = [("6", "dead"), ("5", "ack"), ("4", failed), ("2", "dead"), ("7", "retry")]
    assert await say(*words) == ["requeued", "requeued", "requeued", "dead", "requeued"]
    assert await say(("1", "ack"), ("3", "ack")) == ["noop", "lease"]
    attempt = 2 if failed == "retry" else 1
    assert await list_attempts(session, group) == [
        ("3", 1),
        ("4", attempt),
        ("5", 1),
        ("6", 1),
        ("7", 1),
    ]
    events = [event for event in await list_events(session) if event[0] in ("acked", "dead")]
    assert events == [("acked", 1, 1), ("dead", 2, 2)]
    [counted] = await session.fetch("select * from laneway.count_by_state(array[$1::int])", group)
    assert (counted["acknowledged"], counted["dead"], counted["processing"]) == (1, 1, 5)


async def test_released_messages_wait_with_the_failed_one_behind_them(connect: Connect) -> None:
    session = await connect()
    group, held = await make_batch(session, 3, backoff="1 hour", backoff_limit="1 hour")
    assert await settle(session, (held["lane_id"], "2", held["token"], "retry")) == ["requeued"]
    assert await list_attempts(session, group) == []
    await session.execute(
        "update laneway.progress set not_before = not_before - interval '2 hours'"
    )
    assert await list_attempts(session, group) == [("1", 1), ("2", 2), ("3", 1)]


@pytest.mark.parametrize("word", ["retry", "release"])
async def test_failed_message_of_a_fifo_group_returns_all_behind_it(
    connect: Connect, word: str
) -> None:
    """Though over SQS, its other messages would stay leased."""
    session = await connect()
    group, held = await make_batch(session, 4)
    await session.execute("update laneway.consumer_group set fifo = true")
    items = [("2", "ack"), ("3", word), ("4", "ack")]
    named = [(held["lane_id"], key, held["token"], action) for key, action in items]
    assert await settle(session, *named) == ["completed", "requeued", "requeued"]
    assert await session.fetchval("select count(*) from laneway.claim") == 0
    attempt = 2 if word == "retry" else 1
    assert await list_attempts(session, group) == [("3", attempt), ("4", 1)]


async def test_group_with_individual_acks_settles_each_message_alone(connect: Connect) -> None:
    session = await connect()
    group, held = await make_batch(session, 4, individual_acks=True)
    lane, lease = held["lane_id"], held["token"]
    assert await settle(session, (lane, "3", lease, "ack")) == ["completed"]
    assert await settle(session, (lane, "2", lease, "retry")) == ["requeued"]
    assert await settle(session, (lane, "1", lease, "ack")) == ["completed"]
    assert await list_attempts(session, group) == [("2", 2)]


@pytest.mark.invariant(3)
@pytest.mark.parametrize("first", ["ack", "expire"])
async def test_commit_that_waited_for_another_call_settles_what_is_left(
    connect: Connect, first: str
) -> None:
    session, other, looker = await connect(), await connect(), await connect()
    group, held = await make_batch(session, 5)
    lane, lease = held["lane_id"], held["token"]
    async with other.transaction():
        if first == "ack":
            await other.fetch(
                "select * from laneway.ack_many(array[$1::uuid], array[$2::int], array[1::bigint],"
                " array[3::bigint])",
                lease,
                lane,
            )
        else:
            await other.execute("update laneway.claim set until = clock_timestamp()")
            await other.execute("select laneway.expire_claim($1)", lease)
        late = asyncio.ensure_future(
            settle(session, *((lane, key, lease, "ack") for key in ("2", "4")))
        )
        while not await looker.fetchval(
            "select exists (select from pg_stat_activity where datname = current_database()"
            " and wait_event_type = 'Lock')"
        ):
            await asyncio.sleep(0.01)
    if first == "ack":
        assert await late == ["noop", "completed"]
        assert await session.fetchval("select pending::text from laneway.claim") == "{[5,6)}"
    else:
        assert await late == ["lease", "lease"]
        assert len(await list_attempts(session, group)) == 5


async def test_racing_commits_of_one_lease_ack_each_message_once(connect: Connect) -> None:
    session, other = await connect(), await connect()
    group, held = await make_batch(session, 40)
    outcomes = await asyncio.gather(
        *(
            settle(connection, *((held["lane_id"], str(n), held["token"], "ack") for n in named))
            for connection, named in ((session, range(5, 41, 5)), (other, range(39, 0, -1)))
        )
    )
    assert {outcome for each in outcomes for outcome in each} <= {"completed", "noop"}
    assert await session.fetchval("select count(*) from laneway.claim") == 0
    acked = [event for event in await list_events(session) if event[0] == "acked"]
    assert [seq for _, first, last in acked for seq in range(first, last + 1)] == [*range(1, 41)]
    [counted] = await session.fetch("select * from laneway.count_by_state(array[$1::int])", group)
    assert (counted["queued"], counted["processing"], counted["acknowledged"]) == (0, 0, 40)


async def test_dead_letter_returns_the_messages_behind_it(connect: Connect) -> None:
    session = await connect()
    queue = await make_stream(session)
    group = await find_group(session, queue)
    await push(session, queue, "a", "1", "2", "3")
    for outcome in ("requeued", "dead"):
        held = await claim(session, group)
        assert await settle(session, (held["lane_id"], "1", held["token"], "retry")) == [outcome]
    rest = await claim(session, group)
    assert rest["keys"] == ["2", "3"]
    assert rest["attempts"] in (None, [None, None])


async def test_lease_settles_its_own_message_of_two_with_one_dedup_key(
    connect: Connect,
) -> None:
    session = await connect()
    queue = await make_stream(session)
    shared: int = await session.fetchval("select laneway.create_group('stream', 'shared', false)")
    for _ in range(3):
        await push(session, queue, "a", "k")
        await session.execute("delete from laneway.dedup_key")
    held = [await claim(session, shared, 1) for _ in range(3)]
    seqs = [run["first_seq"] for run in held]

    async def settle_shared(*items: tuple[Any, str]) -> list[str]:
        rows = await session.fetch(
            "select * from laneway.settle_stream($1, $2, null, null, $3, $4, $5, null) order by idx",
            [held[0]["lane_id"] for _ in items],
            ["k" for _ in items],
            ["shared" for _ in items],
            [lease for lease, _ in items],
            [action for _, action in items],
        )
        return [row["outcome"] for row in rows]

    async def list_held() -> list[int]:
        found: list[int] = await session.fetchval(
            "select array_agg(first_seq order by first_seq) from laneway.claim where group_id = $1",
            shared,
        )
        return found

    first, second, third = (run["token"] for run in held)
    lost = "00000000-0000-4000-8000-000000000000"
    assert await settle_shared((lost, "ack")) == ["lease"]
    assert await settle_shared((second, "retry")) == ["requeued"]
    assert await list_held() == [seqs[0], seqs[2]]
    assert await settle_shared((second, "ack")) == ["lease"]
    assert await settle_shared((third, "ack"), (first, "ack")) == ["completed", "completed"]
    assert await list_held() is None


async def make_shared(session: Session, queue: int) -> int:
    group: int = await session.fetchval("select laneway.create_group('stream', 'pool', false)")
    await session.execute("update laneway.queue set backoff = '0' where queue_id = $1", queue)
    return group


async def list_tokens(session: Session, group: int, *wants: int) -> dict[int, set[Any]]:
    """Claim; return the tokens of each waiter's runs."""
    tokens: dict[int, set[Any]] = {}
    for row in await session.fetch("select * from laneway.claim_spans($1, $2)", group, wants):
        tokens.setdefault(row["waiter"], set()).add(row["token"])
    return tokens


@pytest.mark.parametrize("special", ["", "failed", "rotated", "both"])
async def test_waiter_gets_one_claim_of_several_lanes(connect: Connect, special: str) -> None:
    session = await connect()
    queue = await make_stream(session)
    group = await make_shared(session, queue)
    for partition in "abc":
        await push(session, queue, partition, *map(str, range(4)))
    if special in ("failed", "both"):
        rows = await session.fetch("select * from laneway.claim_many($1, array[5])", group)
        outcomes = await session.fetch(
            "select * from laneway.nack_many($1, $2, $3)",
            *([row[name] for row in rows] for name in ("token", "lane_id", "seq")),
        )
        assert {row["outcome"] for row in outcomes} == {"requeued"}
    if special in ("rotated", "both"):
        await session.execute("select laneway.rotate(true)")
    for partition in "cde":
        await push(session, queue, partition, *map(str, range(4, 8)))
    tokens = await list_tokens(session, group, 8, 0, 8, 8)
    assert [len(tokens[waiter]) for waiter in (0, 2, 3)] == [1, 1, 1]
    assert len(set.union(*tokens.values())) == 3
    held = await session.fetch(
        "select token, count(*) as parts, sum(laneway.count_seqs(pending)) as messages"
        " from laneway.claim group by token"
    )
    assert [row["messages"] for row in held] == [8, 8, 8]
    assert max(row["parts"] for row in held) > 1


async def test_wider_claim_of_a_shared_group_adds_any_lanes(connect: Connect) -> None:
    session = await connect()
    queue = await make_stream(session)
    group = await make_shared(session, queue)
    for partition in "ab":
        await push(session, queue, partition, *map(str, range(4)))
    first = await session.fetch("select * from laneway.claim_many($1, array[3])", group)
    rows = await session.fetch(
        "select w.lease, (w.span).* from laneway.widen_lease($1, $2, $3, 10, 1) w",
        group,
        first[0]["token"],
        first[0]["lane_id"],
    )
    assert sum(len(row["bodies"]) for row in rows) == 5
    [lease] = {row["lease"] for row in rows}
    tokens = await session.fetchval("select laneway.lease_tokens($1)", lease)
    assert len(tokens) == 2
    assert set(tokens) == {first[0]["token"], rows[0]["token"]}
    [extended] = await session.fetch(
        "select * from laneway.extend_leases(array[$1::uuid], array[interval '1 hour'])", lease
    )
    assert extended["renewed"] == 2
    named = [(row["lane_id"], row["key"]) for row in first]
    named += [(row["lane_id"], key) for row in rows for key in row["keys"]]
    outcomes = await session.fetch(
        "select * from laneway.settle_stream($1, $2, null, null, $3, $4, $5, null)",
        [lane for lane, _ in named],
        [key for _, key in named],
        ["pool"] * len(named),
        [lease] * len(named),
        ["ack"] * len(named),
    )
    assert [row["outcome"] for row in outcomes] == ["completed"] * 8
    assert await session.fetchval("select count(*) from laneway.claim") == 0


async def test_redelivered_message_is_found_by_its_id_after_its_segment_is_dropped(
    connect: Connect,
) -> None:
    session = await connect()
    queue = await make_stream(session)
    group = await make_shared(session, queue)
    [pushed] = await session.fetch(
        "select * from laneway.push_many(array[$1::int], array['1'::json], array['a'])", queue
    )
    # Nobody else is to keep the segment.
    for name in ("default", "pool"):
        [held] = await session.fetch(
            "select m.* from laneway.consumer_group g cross join laneway.claim_many(g.group_id, array[1]) m"
            " where g.queue_id = $1 and g.name = $2",
            queue,
            name,
        )
        call = "nack_many" if name == "pool" else "ack_many"
        last = "" if name == "pool" else ", array[$3::bigint]"
        await session.fetch(
            f"select * from laneway.{call}(array[$1::uuid], array[$2::int], array[$3::bigint]{last})",
            held["token"],
            held["lane_id"],
            held["seq"],
        )
    await session.execute("update laneway.policy set retention = '0', event_retention = '0'")
    await session.execute("select laneway.rotate(true)")
    dropped = await session.fetch("select * from laneway.retain()")
    assert pushed["segment"] in {row[0] for row in dropped}
    [again] = await session.fetch("select * from laneway.claim_many($1, array[1])", group)
    assert (again["segment"], again["seq"]) == (pushed["segment"], pushed["seq"])
    [verdict] = await session.fetch(
        "select * from laneway.settle_stream(array[$1::int], array['its address'], array[$2::int],"
        " array[$3::bigint], array['pool'], array[$4::uuid], array['ack'], null)",
        again["lane_id"],
        again["segment"],
        again["seq"],
        again["token"],
    )
    assert (verdict["outcome"], verdict["released"]) == ("completed", True)


async def test_a_transaction_is_all_or_nothing(connect: Connect) -> None:
    session = await connect()
    queue = await make_stream(session)
    group = await find_group(session, queue)
    await push(session, queue, "a", "1", "2")
    held = await claim(session, group)

    async def transact(required: list[Any], key: str) -> list[Any]:
        rows: list[Any] = await session.fetch(
            "select * from laneway.transact_stream($1, $2, $3, array[null::int], array[null::bigint],"
            " array['default'], $4, array['ack'], array[null::text], array[$5::int],"
            " array['1'::json], array['b'])",
            required,
            [held["lane_id"]],
            [key],
            [held["token"]],
            queue,
        )
        return rows

    lost = "00000000-0000-4000-8000-000000000000"
    for required, key in (([lost], "1"), ([held["token"]], "nobody")):
        with pytest.raises(asyncpg.PostgresError) as caught:
            await transact(required, key)
        assert caught.value.sqlstate == "LW410"
    assert await session.fetchval("select count(*) from laneway.lane") == 1
    rows = await transact([held["token"]], "1")
    assert [row["pushed"] for row in rows] == [True, False]
    assert await session.fetchval("select count(*) from laneway.lane") == 2


async def transact_in(
    session: asyncpg.Connection, queue: int, held: Any, key: str, pushed: str
) -> list[Any]:
    """Ack the leased message `key` and push another to partition a with dedup key `pushed`."""
    rows: list[Any] = await session.fetch(
        "select * from laneway.transact_stream(array[$1::uuid], array[$2::int], array[$3], null, null,"
        " array['default'], array[$1::uuid], array['ack'], null, array[$4::int], array['1'::json],"
        " array['a'], array[$5])",
        held["token"],
        held["lane_id"],
        key,
        queue,
        pushed,
    )
    return rows


@pytest.mark.parametrize("other", ["hold", "delete"])
async def test_transaction_locks_no_claim_while_it_waits_for_a_lane(
    connect: Connect, other: str
) -> None:
    """Otherwise it would deadlock with a session that has the lane and waits for its readers."""
    session, pushing, looker = await connect(), await connect(), await connect()
    queue = await make_stream(session, rest_window="1 hour")
    group = await find_group(session, queue)
    await push(session, queue, "a", "1")
    held = await claim(session, group)
    async with pushing.transaction():
        await push(pushing, queue, "a", "2")
        waiting = asyncio.ensure_future(transact_in(session, queue, held, "1", "3"))
        while not await looker.fetchval(
            "select exists (select from pg_locks where locktype = 'advisory' and not granted)"
        ):
            await asyncio.sleep(0.01)
        if other == "hold":
            await pushing.execute(
                "select laneway.start_rest_windows(array[$1::int])", held["lane_id"]
            )
        else:
            await pushing.execute("select laneway.delete_queue('stream', true)")
    if other == "hold":
        assert len(await waiting) == 2
    else:
        with pytest.raises(asyncpg.PostgresError) as caught:
            await waiting
        assert caught.value.sqlstate == "LW404"


async def test_acks_of_a_transaction_make_room_for_its_pushes(connect: Connect) -> None:
    session = await connect()
    queue = await make_stream(session, max_messages=2)
    group = await find_group(session, queue)
    await push(session, queue, "a", "1", "2")
    held = await claim(session, group)
    assert len(await transact_in(session, queue, held, "1", "3")) == 2
    again = await session.fetch(
        "select * from laneway.transact_stream(null, null, null, null, null, null, null, null, null,"
        " array[$1::int], array['1'::json], array['a'], array['3'])",
        queue,
    )
    assert [row["duplicate"] for row in again] == [True]
    with pytest.raises(asyncpg.PostgresError) as caught:
        await session.fetch(
            "select * from laneway.transact_stream(null, null, null, null, null, null, null, null, null,"
            " array[$1::int], array['1'::json], array['a'], array['4'])",
            queue,
        )
    assert caught.value.sqlstate == "LW409"


async def test_message_that_waited_too_long_is_dead_lettered_in_every_group(
    connect: Connect,
) -> None:
    session = await connect()
    queue = await make_stream(session, dead_letter_after="50 ms")
    group = await find_group(session, queue)
    await session.execute("select laneway.create_group('stream', 'late')")
    await session.execute(READ_BY_OWN_GROUP)
    await push(session, queue, "a", "1", "2", "3")
    held = await claim(session, group, 1)
    await asyncio.sleep(0.1)
    assert await session.fetch("select laneway.maintain_streams()")
    dead = await session.fetch(
        "select g.name, d.key from laneway.dead_letter d join laneway.consumer_group g using (group_id)"
        " order by g.name, d.key"
    )
    assert [tuple(row) for row in dead] == [
        ("default", "2"),
        ("default", "3"),
        ("late", "1"),
        ("late", "2"),
        ("late", "3"),
    ]
    assert await settle(session, (held["lane_id"], "1", held["token"], "ack")) == ["completed"]
    await push(session, queue, "a", "4")
    assert (await claim(session, group))["keys"] == ["4"]
    assert await session.fetch("select * from laneway.find_orphans()") == []


async def test_own_group_counts_from_its_first_claim(connect: Connect) -> None:
    session = await connect()
    queue = await make_stream(session, dead_letter_after="50 ms", max_messages=2)
    own = await find_group(session, queue)
    room = "select laneway.remaining_capacity($1, 2)"
    add = (
        "select * from laneway.transact_stream(null, null, null, null, null, null, null, null, null,"
        " array[$1::int], array['1'::json], array['a'], array[$2])"
    )
    await push(session, queue, "a", "1", "2")
    assert await session.fetchval(room, queue) == 0
    named = await session.fetchval("select laneway.create_group('stream', 'g')")
    held = await claim(session, named)
    await session.execute(
        "select laneway.ack_parts(array_fill($1::uuid, array[2]), array_fill($2::int, array[2]),"
        " array[1, 2], array[1, 2])",
        held["token"],
        held["lane_id"],
    )
    assert await session.fetchval(room, queue) == 2
    await session.fetch(add, queue, "3")
    await asyncio.sleep(0.1)
    await session.execute("select laneway.maintain_streams()")
    dead = "select array_agg((group_id, key) order by group_id, key) from laneway.dead_letter"
    assert await session.fetchval(dead) == [(named, "3")]
    await session.execute(READ_BY_OWN_GROUP)
    assert await session.fetchval(room, queue) == 0
    with pytest.raises(asyncpg.PostgresError) as caught:
        await session.fetch(add, queue, "4")
    assert caught.value.sqlstate == "LW409"
    await session.execute("select laneway.maintain_streams()")
    assert await session.fetchval(dead) == [(own, "1"), (own, "2"), (own, "3"), (named, "3")]


async def test_leased_partition_continues_in_order_behind_dead_letters(connect: Connect) -> None:
    session = await connect()
    queue = await make_stream(session, dead_letter_after="50 ms")
    group = await find_group(session, queue)
    await push(session, queue, "a", "1", "2", "3")
    held = await claim(session, group, 1)
    await asyncio.sleep(0.1)
    await session.execute("select laneway.maintain_streams()")
    assert await settle(session, (held["lane_id"], "1", held["token"], "retry")) == ["requeued"]
    await push(session, queue, "a", "4")
    seen = []
    while (run := await claim(session, group)) is not None:
        seen += run["keys"]
        await settle(session, *((run["lane_id"], key, run["token"], "ack") for key in run["keys"]))
    assert seen == ["1", "4"]


async def test_empty_leases_are_removed(connect: Connect) -> None:
    session = await connect()
    queue = await make_stream(session)
    group = await find_group(session, queue)
    for partition in "ab":
        await push(session, queue, partition, "x")
    first = await claim(session, group, 1)
    [row] = await session.fetch(
        "select w.lease, (w.span).* from laneway.widen_lease($1, $2, $3, 5, 3) w",
        group,
        first["token"],
        first["lane_id"],
    )
    age = "update laneway.stream_lease set created_at = created_at - interval '1 hour'"
    for left in (1, 0):
        await session.execute(age)
        await session.execute("select laneway.maintain_streams()")
        assert await session.fetchval("select count(*) from laneway.stream_lease") == left
        for part in (first, row):
            await settle(session, (part["lane_id"], "x", row["lease"], "ack"))


async def test_settled_messages_leave_with_the_log(connect: Connect) -> None:
    session = await connect()
    queue = await make_stream(session)
    group = await find_group(session, queue)
    await push(session, queue, "a", "1")
    held = await claim(session, group)
    await settle(session, (held["lane_id"], "1", held["token"], "ack"))
    await session.execute("update laneway.policy set retention = '0', segment_interval = '1 ms'")
    for _ in range(2):
        await session.execute("select laneway.rotate()")
        await asyncio.sleep(0.01)
    await push(session, queue, "a", "2")
    for _ in range(2):
        await session.execute("select laneway.rotate()")
        await asyncio.sleep(0.01)
    await session.execute("select laneway.retain()")
    kept = await session.fetch("select key from laneway.message")
    assert [row["key"] for row in kept] == ["2"]


async def test_deleted_messages_do_not_block_their_lane(connect: Connect) -> None:
    session = await connect()
    queue = await make_stream(session, dead_letter_after="1 minute")
    group = await find_group(session, queue)
    [place] = await push(session, queue, "a", "1")
    await push(session, queue, "b", "2")
    await session.fetch(
        "select laneway.move_messages($1, array[$2::int], array[$3::int], array[$4::bigint], 'queued', 'deleted')",
        group,
        place["segment"],
        place["lane_id"],
        place["seq"],
    )
    await session.execute("update laneway.message set created_at = created_at - interval '1 hour'")
    assert [row[0] for row in await session.fetch("select laneway.maintain_streams()")] == [queue]
    assert await session.fetchval("select count(*) from laneway.dead_letter") == 1


@pytest.mark.parametrize(
    "setting", ["max_messages", "dead_letter_after", "rest_window", "keep_dead_letters"]
)
@pytest.mark.parametrize("value", ["abc", "NaN", "-1"])
async def test_invalid_settings_of_streams_are_refused(
    connect: Connect, setting: str, value: str
) -> None:
    session = await connect()
    with pytest.raises(asyncpg.PostgresError) as caught:
        await make_stream(session, **{setting: value})
    assert caught.value.sqlstate == "LW422"


async def test_failed_maintenance_of_a_stream_blocks_no_other(connect: Connect) -> None:
    session = await connect()
    warnings: list[str] = []
    session.add_log_listener(lambda _, message: warnings.append(str(message)))
    queue = await make_stream(session, dead_letter_after="1 minute")
    await session.execute("update laneway.queue set name = 'first'")
    other = await make_stream(session, dead_letter_after="1 minute")
    for each in (queue, other):
        await push(session, each, "a", "1")
    await session.execute("update laneway.message set created_at = created_at - interval '1 hour'")
    await session.execute(
        "alter table laneway.dead_letter add constraint none_of_the_first"
        f" check (group_id <> {await find_group(session, queue)})"
    )
    tended = [row[0] for row in await session.fetch("select laneway.maintain_streams()")]
    assert tended == [other]
    assert len(warnings) == 1
