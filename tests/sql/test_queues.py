"""Queues: create, update, rename and delete, also concurrently."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from laneway.domain.settings import QueueChanges, QueueSettings
from tests.sql.calls import (
    HOUR,
    NOISE,
    Counts,
    ack,
    claim,
    count,
    create_group,
    create_queue,
    find_orphans,
    keep_nothing,
    move,
    nack,
    push,
    retain,
    rotate,
    sqlstate,
)

if TYPE_CHECKING:
    from tests.postgres import Connect
    from tests.sql.calls import Session

# A value of every setting that is not its default, by the setting or by its type.
CHANGED = {
    "kind": "unlogged",
    "dedup_scope": "partition",
    "options": {"sqs": {}},
    "bool": True,
    "float": 3,
    "int": 7,
    "str": "other",
    "timedelta": "2 hours",
}
# The settings by type, as annotated.
TYPES = {
    name: str(each.type).removesuffix(" | None")
    for name, each in QueueSettings.__dataclass_fields__.items()
}
INTERVALS = sorted(name for name, kind in TYPES.items() if kind == "timedelta")


async def update(session: Session, name: str, **settings: Any) -> None:
    await session.execute("select laneway.update_queue($1, $2)", name, json.dumps(settings))


async def test_queue_is_created_with_defaults_and_its_own_group(session: Session) -> None:
    queue = await create_queue(session)
    row = await session.fetchrow("select * from laneway.queues where queue_id = $1", queue.queue_id)
    assert row is not None
    assert (row["kind"], row["ordered"], row["max_attempts"]) == ("standard", False, 3)
    assert row["lease"].total_seconds() == 30
    assert (row["queued"], row["dead"]) == (0, 0)
    group = await session.fetchrow("select name, ordered from laneway.consumer_group")
    assert tuple(group or ()) == ("default", False)


async def test_every_setting_is_stored_and_listed(session: Session) -> None:
    not_settings = {"queue_id", "name", "created_at", "updated_at", "guards"}
    changes = {
        name: not getattr(QueueSettings(), name)
        if kind == "bool"
        else CHANGED.get(name, CHANGED.get(kind))
        for name, kind in TYPES.items()
    }
    await create_queue(session, "default")
    await create_queue(session, "changed", **changes)
    stored = {row["name"]: row for row in await session.fetch("select * from laneway.queue")}
    assert set(stored["default"].keys()) - not_settings == set(TYPES)
    assert set(QueueChanges.__annotations__) == set(TYPES) - {"kind", "ordered"}
    assert [name for name in TYPES if stored["changed"][name] == stored["default"][name]] == []
    for source in ("laneway.list_queues()", "laneway.queues"):
        rows = await session.fetch(f"select * from {source} order by name")
        for name in TYPES:
            assert [row[name] for row in rows] == [stored[each][name] for each in sorted(stored)]


async def test_own_group_of_an_ordered_queue_is_ordered(session: Session) -> None:
    await create_queue(session, ordered=True)
    assert await session.fetchval("select ordered from laneway.consumer_group")


@pytest.mark.parametrize("ordered", [False, True])
async def test_changed_settings_apply_to_every_group_at_once(
    session: Session, *, ordered: bool
) -> None:
    queue = await create_queue(session, ordered=ordered)
    groups = [queue.group_id, await create_group(session, queue, "other")]
    await push(session, queue, ["1", "2", "3"], partitions=["a", "b", "c"])
    recorded = {group: await claim(session, group, 1, 1) for group in groups}
    await update(session, queue.name, lease="2 hours", record_events=False)
    for group in groups:
        [unrecorded] = await claim(session, group, 1)
        now = await session.fetchval("select clock_timestamp()")
        assert HOUR < unrecorded.until - now <= 2 * HOUR
        await nack(session, [unrecorded])
        [acked, nacked] = recorded[group]
        await ack(session, [acked])
        await nack(session, [nacked])
    rows = await session.fetch(
        "select group_id, action, count(*) from laneway.events where group_id is not null group by 1, 2"
    )
    # What was claimed while events were recorded has its end among them, and nothing else.
    assert sorted(map(tuple, rows)) == sorted(
        (group, action, number)
        for group in groups
        for action, number in (("acked", 1), ("claimed", 2), ("nacked", 1))
    )


@pytest.mark.parametrize(
    ("settings", "durable"),
    [
        ({}, True),
        ({"durable_claims": False}, False),
        ({"ordered": True, "durable_claims": False}, True),
        ({"kind": "unlogged"}, False),
        ({"kind": "unlogged", "ordered": True}, False),
    ],
)
async def test_every_group_claims_as_durably_as_its_queue_says(
    session: Session, settings: dict[str, Any], *, durable: bool
) -> None:
    queue = await create_queue(session, **settings)
    await create_group(session, queue, "other")
    found = "select distinct durable_claims from laneway.consumer_group"
    assert [row[0] for row in await session.fetch(found)] == [durable]
    await update(session, queue.name, durable_claims=False)
    await update(session, queue.name, durable_claims=True, lease="1 hour")
    kept = settings.get("kind") != "unlogged"
    assert [row[0] for row in await session.fetch(found)] == [kept]


async def test_shared_group_of_an_ordered_queue_claims_as_its_queue_says(session: Session) -> None:
    queue = await create_queue(session, ordered=True, durable_claims=False)
    await create_group(session, queue, "shared", ordered=False)
    rows = await session.fetch("select name, durable_claims from laneway.consumer_group")
    assert {row["name"]: row["durable_claims"] for row in rows} == {
        "default": True,
        "shared": False,
    }


async def test_groups_use_the_exact_lease_of_their_queue(session: Session) -> None:
    queue = await create_queue(session, lease="1 month")
    await update(session, queue.name, lease="30 days")  # which compares as equal
    leases = await session.fetchrow(
        "select q.lease::text, g.lease::text from laneway.queue q "
        "join laneway.consumer_group g using (queue_id)"
    )
    assert tuple(leases or ()) == ("30 days", "30 days")


async def test_name_in_use_is_refused(session: Session, connect: Connect) -> None:
    await create_queue(session, lease="1 minute")
    with pytest.raises(asyncpg.PostgresError) as caught:
        await create_queue(session, lease="2 minutes")
    assert sqlstate(caught.value) == "LW409"
    others = [session, await connect(), await connect()]
    made = await asyncio.gather(
        *(create_queue(each, "raced") for each in others), return_exceptions=True
    )
    errors = [each for each in made if isinstance(each, BaseException)]
    assert [sqlstate(each) for each in errors] == ["LW409", "LW409"]


@pytest.mark.parametrize(
    "settings",
    [
        {"colour": "red"},
        {"lease": "-1 second"},
        {"lease": "soon"},
        {"lease": None},
        {"max_attempts": 0},
        {"max_attempts": 99999},
        {"kind": "strange"},
        {"backoff_factor": 0.5},
        {"backoff_factor": "NaN"},
        {"backoff_factor": "Infinity"},
        {"description": "\0"},
        {"options": {"x": "\0"}},
        {"dead_letter_queue": NOISE},
        {"max_receives": 0},
        {"dedup_scope": "planet"},
        {"max_bytes": "many"},
        *({name: length} for name in INTERVALS for length in ("infinity", "365251 days")),
    ],
)
async def test_invalid_setting_is_refused_and_creates_nothing(
    session: Session, settings: dict[str, object]
) -> None:
    with pytest.raises(asyncpg.PostgresError) as caught:
        await create_queue(session, "bad", **settings)
    assert sqlstate(caught.value) == "LW422"
    assert await session.fetchval("select count(*) from laneway.queue") == 0
    await create_queue(session, "good")
    with pytest.raises(asyncpg.PostgresError) as caught:
        await update(session, "good", **settings)
    assert sqlstate(caught.value) == "LW422"


async def test_longest_settings_work(session: Session) -> None:
    queue = await create_queue(
        session, **dict.fromkeys(set(INTERVALS) - {"delay", "retention_step"}, "365250 days")
    )
    await push(session, queue, ["1"], keys=["once"])
    await nack(session, await claim(session, queue, 1))
    await retain(session)
    assert (await count(session, queue)).queued == 1


async def test_empty_name_is_refused(session: Session) -> None:
    with pytest.raises(asyncpg.PostgresError) as caught:
        await create_queue(session, "")
    assert sqlstate(caught.value) == "LW422"


async def test_name_too_long_for_an_index_is_refused(session: Session) -> None:
    await create_queue(session)
    for call in (
        "create_queue($1)",
        "rename_queue('work', $1)",
        "create_group('work', $1)",
        "subscribe('work', $1, 'new', null)",
        "set_subscription($1, now())",
    ):
        with pytest.raises(asyncpg.PostgresError, match="name is too long") as caught:
            await session.fetch(f"select laneway.{call}", NOISE)
        assert sqlstate(caught.value) == "LW422"


async def test_update_changes_only_what_it_names(session: Session) -> None:
    await create_queue(session, lease="1 minute", max_attempts=7, description="old")
    await update(session, "work", description="new", max_attempts=None, delay="0")
    row = await session.fetchrow("select * from laneway.queue")
    assert row is not None
    assert (row["lease"].total_seconds(), row["max_attempts"]) == (60, None)
    assert (row["description"], row["delay"]) == ("new", None)


@pytest.mark.parametrize("setting", ["kind", "ordered"])
async def test_kind_and_order_are_fixed(session: Session, setting: str) -> None:
    await create_queue(session)
    with pytest.raises(asyncpg.PostgresError) as caught:
        await update(session, "work", **{setting: True})
    assert sqlstate(caught.value) == "LW422"


async def test_update_of_no_queue_is_refused(session: Session) -> None:
    with pytest.raises(asyncpg.PostgresError) as caught:
        await update(session, "nowhere", lease="1 minute")
    assert sqlstate(caught.value) == "LW404"


async def test_renamed_queue_keeps_its_messages(session: Session) -> None:
    queue = await create_queue(session)
    await push(session, queue, ["1"])
    await create_queue(session, "taken")
    await session.execute("select laneway.rename_queue('work', 'wörk 仕事')")
    assert await session.fetchval("select queue_name from laneway.messages") == "wörk 仕事"
    for old, new, state in (
        ("work", "other", "LW404"),
        ("wörk 仕事", "taken", "LW409"),
        ("taken", "", "LW422"),
    ):
        with pytest.raises(asyncpg.PostgresError) as caught:
            await session.execute("select laneway.rename_queue($1, $2)", old, new)
        assert sqlstate(caught.value) == state


async def test_queue_with_messages_is_deleted_by_force_only(session: Session) -> None:
    queue = await create_queue(session)
    await push(session, queue, ["1"])
    delete = "select laneway.delete_queue('work', $1)"
    for _ in range(2):
        with pytest.raises(asyncpg.PostgresError) as caught:
            await session.execute(delete, False)  # noqa: FBT003 - an SQL argument
        assert sqlstate(caught.value) == "LW409"
        await claim(session, queue, 1)
    await session.execute(delete, True)  # noqa: FBT003 - an SQL argument
    with pytest.raises(asyncpg.PostgresError) as caught:
        await session.execute(delete, True)  # noqa: FBT003 - an SQL argument
    assert sqlstate(caught.value) == "LW404"


async def test_queue_of_an_unfinished_run_is_deleted_by_force_only(session: Session) -> None:
    queue = await create_queue(session)
    await session.execute("select laneway.start_workflow('run', 'flow', 'work', '[]')")
    await session.execute("select laneway.change_workflow_status('run', '{running}', 'paused')")
    await ack(session, await claim(session, queue, 1))
    with pytest.raises(asyncpg.PostgresError, match="unfinished workflow runs") as caught:
        await session.execute("select laneway.delete_queue('work')")
    assert sqlstate(caught.value) == "LW409"
    await session.execute("select laneway.delete_queue('work', true)")
    (run,) = await session.fetch("select status, error, finished_at from laneway.workflow")
    assert (run["status"], run["error"]) == ("failed", "its queue was deleted")
    assert run["finished_at"] is not None
    assert await find_orphans(session) == {}


async def test_settled_queue_is_deleted_without_force(session: Session) -> None:
    queue = await create_queue(session)
    await push(session, queue, ["1"])
    await ack(session, await claim(session, queue, 1))
    await session.execute("select laneway.delete_queue('work')")
    assert await session.fetchval("select count(*) from laneway.messages") == 0


async def test_deleted_queue_leaves_nothing_behind(session: Session) -> None:
    await keep_nothing(session)
    queue = await create_queue(session)
    other = await create_queue(session, "other")
    await push(session, other, ["1"])
    places = await push(
        session, queue, ["1", "2", "3", "4"], keys=["a", "b", "c", None], partitions=list("abab")
    )
    got = await claim(session, queue, 3)
    await nack(session, got[:1], dead=True)
    await nack(session, got[1:2], delay=HOUR)
    await move(session, queue, places[3:], source="queued", target="archived")
    await session.execute("select laneway.delete_queue('work', true)")
    assert await find_orphans(session) == {}
    assert await ack(session, got[2:]) == [0]
    await rotate(session)
    assert await retain(session) == []
    await ack(session, await claim(session, other, 1))
    assert await retain(session) == [2]
    again = await create_queue(session)
    assert again.queue_id != queue.queue_id
    assert await count(session, again) == Counts()


async def test_expired_keys_are_swept(session: Session) -> None:
    queue = await create_queue(session)
    await push(session, queue, ["1", "2", "3"], keys=["a", "b", "c"])
    assert await session.fetchval("select laneway.sweep_dedup_keys()") == 0
    await session.execute(
        "update laneway.dedup_key set expires_at = clock_timestamp() where key <> 'b'"
    )
    assert await session.fetchval("select laneway.sweep_dedup_keys(1)") == 1
    assert await session.fetchval("select laneway.sweep_dedup_keys()") == 1
    assert await session.fetchval("select key from laneway.dedup_key") == "b"


async def test_sweep_of_dedup_keys_continues_where_it_stopped(session: Session) -> None:
    queue = await create_queue(session)
    await push(session, queue, ["1"] * 2000, keys=[str(n) for n in range(2000)])
    await session.execute("update laneway.queue set dedup_window = '1 microsecond'")
    await push(session, queue, ["1"] * 500, keys=[f"short {n}" for n in range(500)])
    sweep = "select laneway.sweep_dedup_keys($1)"
    assert [await session.fetchval(sweep, 300) for _ in range(3)] == [300, 200, 0]
    # What lies before the place it came to is found too.
    await session.execute(
        "update laneway.dedup_key set expires_at = '-infinity' where key::int < 1000"
    )
    assert [await session.fetchval(sweep, 700) for _ in range(3)] == [700, 300, 0]
    assert await session.fetchval("select count(*) from laneway.dedup_key") == 1000
