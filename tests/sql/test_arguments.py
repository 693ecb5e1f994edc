"""Any argument is accepted or refused with a documented error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import pytest

from tests.sql.calls import claim, create_group, create_queue, push, sqlstate

if TYPE_CHECKING:
    from tests.sql.calls import Session

# What belongs to arguments of these names, as SQL; other arguments get their type's value.
BY_NAME = {
    "p_name": "'work'",
    "p_queue": "'work'",
    "p_new_name": "'other'",
    "p_status": "'queued'",
    "p_from": "'queued'",
    "p_to": "'dead'",
    "p_action": "'nacked'",
    "p_fate": "'retry'",
    "p_sort": "'created_at'",
    "p_start": "'all'",
    "p_table": "'message'",
    "p_group_id": "1",
    "p_segment": "2",
    "p_role": "'read'",
    "p_hash": "sha256('x')",
    "p_source": "'work'",
    "p_target": "'work'",
}
# More than an index can hold, however it is packed.
LONG = "(select string_agg(md5(i::text), '') from generate_series(1, 200) i)"
# What json can hold and text cannot.
NUL = """'{"description": "\\u0000", "options": {"x": "\\u0000"}}'::json"""
BY_TYPE = {
    "integer": ("1", "-1", "2147483647"),
    "bigint": ("1", "-1", "9223372036854775807", "(-9223372036854775808)"),
    "smallint": ("1::smallint", "(-1)::smallint", "32767::smallint"),
    "text": ("'x'", "''", LONG),
    "boolean": ("true", "false"),
    "uuid": ("(select token from laneway.claim)", "gen_random_uuid()"),
    "json": ("'{}'::json", "'[]'::json", "'3'::json", "'null'::json", NUL),
    "jsonb": ("'{}'::jsonb", "'[]'::jsonb"),
    "bytea": ("'x'::bytea",),
    "double precision": ("1.5", "-1", "'NaN'"),
    "interval": (
        "'1 second'::interval",
        "'-1 second'::interval",
        "'290000 years'::interval",
        "'0'::interval",
        "'1 month'::interval",
    ),
    "timestamp with time zone": (
        "now()",
        "'infinity'::timestamptz",
        "'-infinity'::timestamptz",
        "'294276-12-31 23:59:59.999999+00'::timestamptz",
    ),
    "pg_snapshot": ("pg_current_snapshot()",),
    "xid8": ("'3'::xid8",),
    "tid": ("'(0,1)'::tid",),
    "int8multirange": ("'{[1,2]}'::int8multirange", "'{}'::int8multirange"),
}

# What people and programs call; the rest is called by these, with what they have checked.
PUBLIC = [
    "ack_many",
    "claim_many",
    "claim_spans",
    "count_anomalies",
    "count_partitions",
    "count_messages",
    "count_by_state",
    "create_group",
    "create_queue",
    "delete_between",
    "delete_group",
    "delete_queue",
    "drain_outbox",
    "edit_message",
    "expire_claims",
    "extend_leases",
    "extend_many",
    "find_message_by_key",
    "find_lanes",
    "find_messages",
    "follow_events",
    "forget_subscription",
    "message_history",
    "find_lease_tokens",
    "set_event_retention",
    "list_activity",
    "list_anomalies",
    "list_consumers",
    "list_messages",
    "list_moves",
    "list_partitions",
    "list_queues",
    "list_subscriptions",
    "list_trace_names",
    "list_traces",
    "message_facts",
    "move_messages",
    "nack_many",
    "next_due",
    "find_orphans",
    "outbox_push",
    "outbox_push_many",
    "payload_sizes",
    "purge",
    "push_within_limits",
    "push_many",
    "ready_groups",
    "record_event",
    "record_trace",
    "recover_unlogged",
    "release_many",
    "rename_queue",
    "requeue_dead_letters",
    "mark_readers_idle",
    "retain",
    "rotate",
    "seek",
    "set_subscription",
    "settle_stream",
    "start_move",
    "stream_activity",
    "list_stream_positions",
    "subscribe",
    "sweep_activity",
    "sweep_dedup_keys",
    "sweep_forgotten",
    "sweep_idle",
    "sweep_lanes",
    "maintain_streams",
    "push_and_ack",
    "transact_stream",
    "update_queue",
    "widen_lease",
]

_CATALOG = """
select p.proname as name, coalesce(p.proargnames, '{}') as names, coalesce(p.proargmodes::text[], '{}') as modes,
       array(select format_type(t, null) from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) t) as types
  from pg_proc p where p.pronamespace = 'laneway'::regnamespace and p.proname = any ($1) order by 1
"""


def values_for(name: str, kind: str) -> list[str]:
    """Return what an argument may be given: something that fits, nothing, and odd things."""
    if kind.endswith("[]"):
        item = kind.removesuffix("[]")
        fitting = BY_TYPE[item][0]
        return [
            f"array[{fitting}]::{kind}",
            f"null::{kind}",
            f"'{{}}'::{kind}",
            f"array[null]::{kind}",
            *(f"array[{odd}]::{kind}" for odd in BY_TYPE[item][1:]),
        ]
    own = BY_NAME.get(name) if kind in {"text", "integer", "bytea"} else None
    plain = list(BY_TYPE[kind])
    return [own or plain[0], f"null::{kind}", *plain]


@pytest.mark.parametrize("ordered", [False, True])
async def test_invalid_arguments_raise_documented_errors(
    session: Session, *, ordered: bool
) -> None:
    queue = await create_queue(session, ordered=ordered)
    assert queue.group_id == 1
    await create_group(session, queue, "more")
    await push(session, queue, ["1", "2"])
    await claim(session, queue, 1)
    raw: list[str] = []
    catalog = await session.fetch(_CATALOG, PUBLIC)
    assert [row["name"] for row in catalog] == sorted(PUBLIC)
    for row in catalog:
        taken = [
            (name, kind)
            for name, kind, mode in zip(
                row["names"], row["types"], row["modes"] or ["i"] * len(row["types"]), strict=True
            )
            if mode == "i"
        ]
        fitting = [values_for(*argument)[0] for argument in taken]
        calls = [fitting]
        for at, argument in enumerate(taken):
            calls += [
                [*fitting[:at], value, *fitting[at + 1 :]] for value in values_for(*argument)[1:]
            ]
        for arguments in calls:
            statement = f"select laneway.{row['name']}({', '.join(arguments)})"
            transaction = session.transaction()
            await transaction.start()
            try:
                await session.execute(statement)
            except asyncpg.PostgresError as error:
                if not (error.sqlstate or "").startswith("LW"):
                    raw.append(f"{error.sqlstate} {statement}: {error}")
            finally:
                await transaction.rollback()
    assert raw == [], "\n".join(raw)


@pytest.mark.parametrize(
    "call",
    [
        "stream_activity(array[1], now() - interval '1 hour', now() + interval '1 hour', '0')",
        "stream_activity(array[1], now() - interval '1 hour', now() + interval '1 hour', '1 month')",
        "stream_activity(array[1], now() - interval '1 hour', now() + interval '1 hour', '110000000 days')",
        "stream_activity(array[1], '-infinity', now() + interval '1 hour', '1 hour')",
        "start_move('q', null, -1)",
        "start_move('q', null, 0)",
        "list_moves('q', -1)",
        "list_messages(array[1], 'queued', p_limit => -1)",
        "count_messages(array[1], 'queued', p_priority => 1::smallint, p_most => -1)",
        "count_messages(array[1], 'lost', p_priority => 1::smallint)",
    ],
)
async def test_invalid_argument_is_refused_with_a_hint(session: Session, call: str) -> None:
    queue = await create_queue(session, "q")
    await push(session, queue, ["1"])
    with pytest.raises(asyncpg.PostgresError) as refused:
        await session.fetch(f"select * from laneway.{call}")
    assert sqlstate(refused.value) == "LW422"
    assert refused.value.hint


async def test_time_range_may_reach_to_infinity(session: Session) -> None:
    queue = await create_queue(session)
    await push(session, queue, ["1", "2"])
    ever = "'-infinity', '294276-12-31 23:59:59.999999+00'"
    listed = await session.fetch(
        f"select * from laneway.list_messages(array[$1::int], 'queued', null, null, null, {ever})",
        queue.group_id,
    )
    assert len(listed) == 2
    deleted = await session.fetchval(
        f"select deleted from laneway.delete_between($1, {ever})", queue.group_id
    )
    assert deleted == 2
