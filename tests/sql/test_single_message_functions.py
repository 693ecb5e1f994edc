"""The functions for single messages, for use in psql."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import asyncpg
import pytest

from laneway.domain.errors import InvalidId
from laneway.domain.ids import MessageId

if TYPE_CHECKING:
    from tests.postgres import Connect


async def test_message_is_pushed_popped_extended_and_acked(connect: Connect) -> None:
    sql = await connect()
    await sql.execute("""select laneway.create_queue('mail', '{"backoff": "0"}')""")
    low = await sql.fetchval("""select laneway.push('mail', '{"n": 1}')""")
    high = await sql.fetchval(
        "select laneway.push('mail', '2', 'p', 5, p_headers => '{\"h\": 1}', p_key => 'k')"
    )
    assert await sql.fetchval("select laneway.push('mail', '3', 'p', 5, p_key => 'k')") == high
    rows = await sql.fetch("select * from laneway.pop('mail', 5, '1 min', p_consumer => 'me')")
    assert [row["id"] for row in rows] == [high, low]
    assert [json.loads(row["body"]) for row in rows] == [2, {"n": 1}]
    assert rows[0]["partition"] == "p"
    token = rows[0]["token"]
    assert await sql.fetchval("select laneway.extend($1, $2, '1 hour')", high, token) is not None
    assert await sql.fetchval("select laneway.ack($1, $2)", high, token) is True
    assert await sql.fetchval("select laneway.ack($1, $2)", high, token) is False
    assert await sql.fetchval("select laneway.extend($1, $2, '1 s')", high, token) is None
    token = rows[1]["token"]
    assert await sql.fetchval("select laneway.nack($1, $2, 'no')", low, token) == "requeued"
    assert await sql.fetchval("select laneway.nack($1, $2, 'no')", low, token) == "lost"
    (again,) = await sql.fetch("select * from laneway.pop('mail')")
    assert (again["id"], again["attempt"]) == (low, 2)
    dead = await sql.fetchval(
        "select laneway.nack($1, $2, 'never', p_dead => true)", low, again["token"]
    )
    assert dead == "dead"
    (metrics,) = await sql.fetch("select * from laneway.metrics('mail')")
    assert (metrics["acknowledged"], metrics["dead"], metrics["total"]) == (1, 1, 0)


async def test_names_are_values_not_identifiers(connect: Connect) -> None:
    sql = await connect()
    name = "mail'; drop table x; --"
    await sql.execute("select laneway.create_queue($1)", name)
    await sql.execute("select laneway.push($1, '1')", name)
    assert len(await sql.fetch("select * from laneway.pop($1)", name)) == 1


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("select laneway.push('nowhere', '1')", "LW404"),
        ("select * from laneway.pop('nowhere')", "LW404"),
        ("select laneway.ack('x', gen_random_uuid())", "LW422"),
        ("select laneway.nack('1-2', gen_random_uuid())", "LW422"),
        ("select laneway.extend('2-1-1', gen_random_uuid(), '-1 minute')", "LW422"),
        ("select laneway.extend('2-1-1', gen_random_uuid(), '0')", "LW422"),
        ("select laneway.extend('2-1-1', gen_random_uuid(), null)", "LW422"),
        ("select * from laneway.metrics('nowhere')", "LW404"),
        ("select laneway.create_queue('')", "LW422"),
        ("select laneway.create_queue(null)", "LW422"),
    ],
)
async def test_invalid_calls_are_refused(connect: Connect, statement: str, code: str) -> None:
    sql = await connect()
    with pytest.raises(asyncpg.PostgresError) as caught:
        await sql.fetch(statement)
    assert caught.value.sqlstate == code


@pytest.mark.parametrize(
    "text",
    ["2147483647-2147483647-9223372036854775807", "0-0-0", "2-1234567890-1", "1234567890-1-1"],
)
async def test_every_id_that_python_reads_is_read(connect: Connect, text: str) -> None:
    row = await (await connect()).fetchrow("select * from laneway.parse_id($1)", text)
    assert row is not None
    assert MessageId(*row) == MessageId.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "2147483648-1-1",
        "1-9999999999-1",
        "1-1-9223372036854775808",
        "01-1-1",
        "1-1",
        "1-1-1-1",
        "1-1-1\n",
        "",
        "1-1--1",
        "99999999999-1-1",
    ],
)
async def test_text_that_python_refuses_as_an_id_is_refused(connect: Connect, text: str) -> None:
    with pytest.raises(InvalidId):
        MessageId.parse(text)
    with pytest.raises(asyncpg.PostgresError, match="is not a message id") as caught:
        await (await connect()).fetch("select * from laneway.parse_id($1)", text)
    assert caught.value.sqlstate == "LW422"


@pytest.mark.parametrize(
    ("function", "priority"),
    [("push", "-1"), ("push", "32768"), ("outbox_push", "(-1)::smallint")],
)
async def test_priority_out_of_range_is_refused(
    connect: Connect, function: str, priority: str
) -> None:
    sql = await connect()
    await sql.execute("select laneway.create_queue('mail')")
    with pytest.raises(asyncpg.PostgresError, match="priority must be from 0 to 32767") as caught:
        await sql.execute(f"select laneway.{function}('mail', '1', p_priority => {priority})")
    assert caught.value.sqlstate == "LW422"


@pytest.mark.parametrize(
    ("settings", "words", "hint"),
    [
        ('{"max_attempts": -5}', 'setting "max_attempts" is invalid: -5', "1 or more"),
        ('{"lease": null}', 'setting "lease" must not be null', "columns"),
        ('{"lease": "banana"}', 'setting "lease" is invalid: banana', "an interval"),
        (
            '{"max_attempts": 99999999999}',
            'setting "max_attempts" is invalid: 99999999999',
            "32767",
        ),
        ('{"max_bytes": 4294967296}', 'setting "max_bytes" is invalid: 4294967296', "2147483647"),
        (
            '{"delay": "1 s", "record_events": 7}',
            'setting "record_events" is invalid: 7',
            "true or false",
        ),
        ('{"backoff_factor": 1e400}', 'setting "backoff_factor" is invalid: 1e400', "a number"),
        ('{"dedup_scope": "x"}', 'setting "dedup_scope" is invalid: x', "queue or partition"),
    ],
)
async def test_invalid_setting_is_named(
    connect: Connect, settings: str, words: str, hint: str
) -> None:
    sql = await connect()
    await sql.execute("select laneway.create_queue('mail')")
    for function, name in (("update_queue", "mail"), ("create_queue", "other")):
        with pytest.raises(asyncpg.PostgresError) as caught:
            await sql.execute(f"select laneway.{function}($1, $2)", name, settings)
        told = (caught.value.sqlstate, caught.value.args[0])
        assert told == ("LW422", f'queue "{name}": {words}')
        assert hint in getattr(caught.value, "hint", "")


async def test_racing_workers_fire_a_schedule_once(connect: Connect) -> None:
    first, second = await connect(), await connect()
    await first.execute("select laneway.create_queue('jobs')")
    fire = "select laneway.fire_schedule('tick', '* * * * *', $1, 'jobs', '1')"
    now = await first.fetchval("select now()")
    transaction = first.transaction()
    await transaction.start()
    assert await first.fetchval(fire, now) is True
    await transaction.commit()
    assert await second.fetchval(fire, now) is False
    assert len(await first.fetch("select * from laneway.pop('jobs', 5)")) == 1


async def test_job_is_not_fired_before_its_time(connect: Connect) -> None:
    """It would not fire until then: anyone who may push could silence it for good."""
    sql = await connect()
    await sql.execute("select laneway.create_queue('jobs')")
    fire = (
        "select laneway.fire_schedule('tick', '* * * * *', now() + $1::text::interval, 'jobs', '1')"
    )
    with pytest.raises(asyncpg.PostgresError, match="is not due until") as caught:
        await sql.fetchval(fire, "1 hour")
    assert caught.value.sqlstate == "LW422"
    assert await sql.fetchval(fire, "0") is True


async def test_jobs_of_one_name_on_two_queues_fire_each(connect: Connect) -> None:
    sql = await connect()
    now = await sql.fetchval("select now()")
    fire = "select laneway.fire_schedule('tick', '* * * * *', $1, $2, '1')"
    for queue in ("one", "two"):
        await sql.execute("select laneway.create_queue($1)", queue)
        assert await sql.fetchval(fire, now, queue) is True
        assert await sql.fetchval(fire, now, queue) is False
        assert len(await sql.fetch("select * from laneway.pop($1, 5)", queue)) == 1


async def test_job_of_a_deleted_queue_is_removed(connect: Connect) -> None:
    sql = await connect()
    fire = "select laneway.fire_schedule('tick', '* * * * *', now(), 'jobs', '1')"
    for _ in range(2):
        await sql.execute("select laneway.create_queue('jobs')")
        assert await sql.fetchval(fire) is True
        await sql.execute("select laneway.delete_queue('jobs', true)")
    assert await sql.fetchval("select count(*) from laneway.schedule") == 1
