"""Installing the schema: completely, once, concurrently, and never over an unknown one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest

from laneway.sql.errors import PackageBroken, SchemaTampered, SchemaTooNew, ServerTooOld
from laneway.sql.migrate import InstallReport, install, verify
from laneway.sql.package import Migration, Package, Routine, load_package
from tests.catalogue import FILE, make_catalogue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.postgres import Connect

TABLE = Migration(1, "thing", "create table laneway.thing (id integer primary key);")
COLUMN = Migration(2, "thing_name", "alter table laneway.thing add column name text;")
ANSWER = Routine(
    "function",
    "answer",
    "create or replace function laneway.answer() returns integer language sql as 'select 42';",
)
DOUBLE = Routine(
    "function",
    "double",
    "create or replace function laneway.double(p_of integer) returns integer language sql "
    "as 'select 2 * p_of';",
)
THINGS = Routine(
    "view",
    "things",
    "create or replace view laneway.things as select t.id, laneway.answer() as answer "
    "from laneway.thing t;",
)
SMALL = Package(migrations=(TABLE,), functions=(ANSWER, DOUBLE), views=(THINGS,))


@pytest.fixture
async def connection(blank_database: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(blank_database)
    yield connection
    await connection.close()


async def test_shipped_schema_installs_and_verifies(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    report = await install(connection)
    assert report.version == load_package().version
    assert await verify(connection) == []


async def test_install_reports_everything_it_applied(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    assert await install(connection, package=SMALL) == InstallReport(
        version=1,
        migrations=("001_thing",),
        applied=("function answer", "function double", "view things"),
    )
    assert await connection.fetchval("select laneway.double(laneway.answer())") == 84


async def test_second_install_changes_nothing(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    await install(connection, package=SMALL)
    report = await install(connection, package=SMALL)
    assert report == InstallReport(version=1)
    assert not report.changed


async def test_new_migrations_are_applied_to_an_older_database(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    await install(connection, package=SMALL)
    report = await install(connection, package=replace(SMALL, migrations=(TABLE, COLUMN)))
    assert report == InstallReport(version=2, migrations=("002_thing_name",))
    await connection.execute("insert into laneway.thing (id, name) values (1, 'one')")


async def test_changed_function_is_replaced_and_keeps_its_grants(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    await install(connection, package=SMALL)
    await connection.execute("revoke execute on function laneway.answer() from public")
    changed = replace(ANSWER, text=ANSWER.text.replace("42", "43"))
    report = await install(connection, package=replace(SMALL, functions=(changed, DOUBLE)))
    assert report.applied == ("function answer",)
    assert await connection.fetchval("select laneway.answer()") == 43
    assert (
        await connection.fetchval(
            "select count(*) from pg_proc, aclexplode(proacl) a "
            "where oid = 'laneway.answer()'::regprocedure and a.grantee = 0"
        )
        == 0
    )


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(
            "create or replace function laneway.answer() returns bigint language sql "
            "as 'select 44::bigint';",
            id="return type",
        ),
        pytest.param(
            "create or replace function laneway.answer(p_from integer default 44) "
            "returns integer language sql as 'select p_from';",
            id="arguments",
        ),
    ],
)
async def test_changed_signature_leaves_one_function_and_its_views(
    connection: asyncpg.Connection[asyncpg.Record], changed: str
) -> None:
    await install(connection, package=SMALL)
    package = replace(SMALL, functions=(replace(ANSWER, text=changed), DOUBLE))
    await install(connection, package=package)
    await connection.execute("insert into laneway.thing (id) values (1)")
    assert await connection.fetchval("select answer from laneway.things") == 44
    assert await verify(connection, package=package) == []


async def test_changed_view_may_lose_columns(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    await install(connection, package=SMALL)
    fewer = replace(THINGS, text="create or replace view laneway.things as select 7 as seven;")
    await install(connection, package=replace(SMALL, views=(fewer,)))
    assert await connection.fetchval("select seven from laneway.things") == 7


async def test_removed_function_and_view_are_dropped(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    await install(connection, package=SMALL)
    bare = Package(migrations=(TABLE,), functions=(DOUBLE,))
    report = await install(connection, package=bare)
    assert report.dropped == ("view things", "function answer")
    assert await verify(connection, package=bare) == []


async def test_function_dropped_by_hand_is_found_and_restored(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    await install(connection, package=SMALL)
    await connection.execute("drop function laneway.double(integer)")
    problems = await verify(connection, package=SMALL)
    assert [(problem.kind, problem.subject) for problem in problems] == [
        ("missing", "function double")
    ]
    assert (await install(connection, package=SMALL)).applied == ("function double",)


async def test_edited_migration_is_refused(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    await install(connection, package=SMALL)
    edited = replace(SMALL, migrations=(replace(TABLE, text=TABLE.text + " -- edited"), COLUMN))
    with pytest.raises(SchemaTampered, match="001_thing"):
        await install(connection, package=edited)
    assert await connection.fetchval("select count(*) from laneway.migration") == 1
    problems = await verify(connection, package=edited)
    assert [(problem.kind, problem.subject) for problem in problems] == [
        ("changed", "001_thing"),
        ("missing", "002_thing_name"),
    ]


async def test_newer_database_is_refused(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    await install(connection, package=replace(SMALL, migrations=(TABLE, COLUMN)))
    with pytest.raises(SchemaTooNew, match="version 2 but this version of Laneway knows only 1"):
        await install(connection, package=SMALL)
    problems = await verify(connection, package=SMALL)
    assert [(problem.kind, problem.subject) for problem in problems] == [
        ("unknown", "002_thing_name")
    ]


async def test_failing_migration_leaves_nothing_behind(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    broken = Migration(2, "broken", "create table laneway.half (id integer); select 1 / 0;")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await install(connection, package=replace(SMALL, migrations=(TABLE, broken)))
    assert await connection.fetchval("select to_regnamespace('laneway')") is None


async def test_file_that_creates_something_else_is_refused(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    with pytest.raises(PackageBroken, match=r"does not create laneway\.other"):
        await install(connection, package=Package(functions=(replace(ANSWER, name="other"),)))


async def test_objects_that_depend_on_a_function_are_not_dropped(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    await install(connection, package=SMALL)
    await connection.execute("create view public.mine as select laneway.double(2) as four")
    with pytest.raises(asyncpg.DependentObjectsStillExistError):
        await install(connection, package=replace(SMALL, functions=(ANSWER,)))
    assert await connection.fetchval("select four from public.mine") == 4


async def test_blank_database_verifies_as_not_installed(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    problems = await verify(connection)
    assert [(problem.kind, problem.subject) for problem in problems] == [
        ("missing", "schema laneway")
    ]


async def test_racing_installs_apply_everything_once(blank_database: str) -> None:
    connections = [await asyncpg.connect(blank_database) for _ in range(6)]
    try:
        reports = await asyncio.gather(
            *(install(connection, package=SMALL) for connection in connections)
        )
    finally:
        for connection in connections:
            await connection.close()
    assert sorted(report.changed for report in reports) == [False] * 5 + [True]


async def test_old_server_is_refused(
    connection: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = connection.get_server_version()._replace(major=14)
    monkeypatch.setattr(asyncpg.Connection, "get_server_version", lambda _: old)
    with pytest.raises(ServerTooOld, match="needs 15"):
        await install(connection)


async def test_catalogue_matches_the_shipped_files(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    await install(connection)
    assert await make_catalogue(connection) == FILE.read_text(), "run `make docs`"


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (
            "drop index laneway.claim_until",
            "index claim_until of claim is missing, it was shipped as",
        ),
        (
            "alter table laneway.queue drop constraint queue_name_check",
            "constraint queue_name_check of queue is missing, it was shipped as: CHECK",
        ),
        ("drop table laneway.api_key", "table api_key is missing: restore it"),
        (
            "alter table laneway.queue add column colour text",
            "column colour of queue is not shipped: remove it",
        ),
        (
            "alter table laneway.queue alter column lease set default '1 minute'",
            "column lease of queue is: interval not null default '00:01:00'::interval, and was",
        ),
        (
            "alter table laneway.claim alter column until drop not null",
            "column until of claim is: timestamp with time zone, and was shipped as: timestamp",
        ),
        ("alter table laneway.outbox drop column error", "column error of outbox is missing"),
        ("drop sequence laneway.claim_part", "sequence claim_part is missing"),
        (
            "alter sequence laneway.claim_part no cycle",
            "sequence claim_part is: smallint from 10001, 10001 to 32767 by 1, and was",
        ),
        (
            "alter table laneway.staged set logged",
            "table staged is: logged, and was shipped as: unl",
        ),
        ("drop view laneway.consumer_lag", "view consumer_lag is not in the database: run"),
        (
            (
                "create or replace view laneway.workers as select w.worker_id, w.name, w.host, w.pid, "
                "w.queues, w.state, w.asked, w.timeout, w.handled, w.failed, w.started_at, w.heartbeat_at, "
                "w.stopped_at, 0::bigint as held, interval '0' as silence, w.kind, 1 as more"
                " from laneway.worker w"
            ),
            "column more of workers is not shipped: remove it",
        ),
        ("create view laneway.mine as select 1", "view mine is not shipped: remove it"),
        ("create table laneway.mine (n int)", "table mine is not shipped: remove it"),
        (
            "create index mine on laneway.queue (description)",
            "index mine of queue is not shipped: remove it",
        ),
        ("drop index laneway.message_2_place", "index message_2_place of message_2 is missing"),
        ("drop index laneway.event_4_seq", "index event_4_seq of event_4 is missing"),
        ("drop table laneway.message_4", "table message_4 is missing: restore it"),
        ("drop table laneway.segment", "table segment is missing: restore it"),
        (
            (
                "create or replace function laneway.push(p_queue text, p_body json, p_partition text "
                "default '', p_priority int default 0, p_delay interval default null, p_key text default "
                "null, p_headers json default null) returns text language sql as 'select null::text'"
            ),
            "function push is not the one shipped: run",
        ),
    ],
)
async def test_every_difference_is_one_line(connect: Connect, statement: str, problem: str) -> None:
    connection = await connect()
    await connection.execute(statement)
    lines = [f"{item.subject} {item.message}" for item in await verify(connection)]
    assert [line[: len(problem)] for line in lines] == [problem]


async def test_segments_are_no_schema_difference(connect: Connect) -> None:
    connection = await connect()
    await connection.execute("""select laneway.create_queue('any', '{"kind": "unlogged"}')""")
    for _ in range(3):
        await connection.execute("select laneway.rotate(true)")
    await connection.execute("select laneway.drop_log_partition('message', 2)")
    for style in ("sql_standard", "iso_8601"):
        await connection.execute(f"set intervalstyle = {style}")
        assert await verify(connection) == []


async def test_function_changed_by_hand_is_restored(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    await install(connection, package=SMALL)
    await connection.execute(ANSWER.text.replace("42", "43"))
    problems = await verify(connection, package=SMALL)
    assert [(problem.kind, problem.subject) for problem in problems] == [
        ("changed", "function answer")
    ]
    assert (await install(connection, package=SMALL)).applied == ("function answer",)
    assert await connection.fetchval("select laneway.answer()") == 42


async def test_setting_of_a_function_changed_by_hand_is_restored(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    await install(connection)
    await connection.execute("alter function laneway.ack_many reset all")
    await connection.execute("alter function laneway.expire_claims set enable_seqscan = on")
    await connection.execute("alter function laneway.count_seqs set work_mem = '1GB'")
    changed = ("function ack_many", "function count_seqs", "function expire_claims")
    assert tuple(problem.subject for problem in await verify(connection)) == changed
    assert (await install(connection)).applied == changed
    assert await verify(connection) == []


async def test_upgrade_fires_no_schedule_again(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    shipped = load_package()
    names = [migration.name for migration in shipped.migrations]
    before = shipped.migrations[: names.index("schedule_queue")]
    await install(connection, package=Package(migrations=before))
    await connection.execute(
        "insert into laneway.schedule (name, expression, queue_id, fired_for) "
        "values ('tick', '* * * * *', 1, '2020-01-01')"
    )
    await install(connection, package=shipped)
    assert await connection.fetchval("select laneway.create_queue('jobs')") == 1
    fire = "select laneway.fire_schedule('tick', '* * * * *', $1::text::timestamptz, 'jobs', '1')"
    assert await connection.fetchval(fire, "2020-01-01") is False
    assert await connection.fetchval(fire, "2020-01-02") is True


async def test_upgrade_keeps_the_options_set_by_protocols(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    shipped = load_package()
    names = [migration.name for migration in shipped.migrations]
    before = shipped.migrations[: names.index("queue_columns")]
    await install(connection, package=Package(migrations=before))
    streams = {"maxSize": 2, "windowBuffer": 1.5, "maxWaitTimeSeconds": 60, "retryLimit": 7}
    options = {
        "plain": {"other": 1},
        "stream": {"queen": streams | {"deadLetterQueue": False, "encryptionEnabled": True}},
        "unset": {"queen": {"maxSize": 0, "windowBuffer": 0, "maxWaitTimeSeconds": None}},
        "work": {
            "sqs": {"dead_letter_queue": "dead", "arn": "a:work", "most_receives": 4, "tags": {}}
        },
        "astray": {"queen": 1, "sqs": None},
    }
    await connection.executemany(
        "insert into laneway.queue (name, options) values ($1, $2)",
        [(name, json.dumps(value)) for name, value in options.items()],
    )
    guards = "select name, guards from laneway.queue"
    found = {row["name"]: row["guards"] for row in await connection.fetch(guards)}
    assert found == {"plain": 0, "stream": 7, "unset": 0, "work": 0, "astray": 0}
    await install(connection, package=shipped)
    assert {row["name"]: row["guards"] for row in await connection.fetch(guards)} == found
    rows = await connection.fetch(
        "select name, max_messages, rest_window, dead_letter_after, keep_dead_letters,"
        " dead_letter_queue, dead_letter_source, max_receives, encrypted, default_group_optional,"
        " options from laneway.list_queues()"
    )
    unset = (None, None, None, True, None, None, None, False)
    window, age = timedelta(seconds=1.5), timedelta(minutes=1)
    options["work"] = {"sqs": {"tags": {}}}
    assert {row["name"]: (*row[1:10], json.loads(row["options"])) for row in rows} == {
        "plain": (*unset, False, options["plain"]),
        "stream": (2, window, age, False, None, None, None, True, True, options["stream"]),
        "unset": (*unset, True, options["unset"]),
        "work": (None, None, None, True, "dead", "a:work", 4, False, False, options["work"]),
        "astray": (*unset, True, options["astray"]),
    }
    assert await verify(connection) == []
