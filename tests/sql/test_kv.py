"""Keys and values in SQL: versions, expiry, counters, pages, and two sessions at one key."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laneway.domain.kv import KvOperation, KvRow
from laneway.engine.procedures.kv import apply_kv, sweep_kv, turn_kv
from tests.sql.calls import start_and_block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.postgres import Connect
    from tests.sql.calls import Session

MINUTE = timedelta(minutes=1)
SPACE = "orders"


async def do(session: Session, *operations: KvOperation) -> list[KvRow]:
    return [KvRow._make(row) for row in await apply_kv(session, operations)]


async def one(session: Session, operation: KvOperation) -> KvRow:
    [row] = await do(session, operation)
    return row


def put(key: str, value: Any, **more: Any) -> KvOperation:
    return KvOperation("put", SPACE, key, json.dumps(value), **{"ttl": MINUTE, **more})


def incr(key: str, delta: str = "1", **more: Any) -> KvOperation:
    return KvOperation("incr", SPACE, key, delta=Decimal(delta), **{"ttl": MINUTE, **more})


def read(key: str) -> KvOperation:
    return KvOperation("get", SPACE, key)


def delete(key: str, **more: Any) -> KvOperation:
    return KvOperation("delete", SPACE, key, **more)


def check(key: str, expect: int, **more: Any) -> KvOperation:
    return KvOperation("check", SPACE, key, expect=expect, **more)


def prefix(text: str, limit: int = 100, after: str | None = None, **more: Any) -> KvOperation:
    return KvOperation(
        **{"kind": "prefix", **more}, namespace=SPACE, key=text, after=after, limit=limit
    )


async def let_expire(session: Session) -> None:
    await session.execute("update laneway.kv set expires_at = clock_timestamp() - interval '1 s'")


async def test_written_key_is_read_with_its_version_and_expiry(session: Session) -> None:
    written = await one(session, put("a", {"n": 1}))
    assert written.applied
    assert written.version is not None
    assert written.version > 0
    found = await one(session, read("a"))
    assert (json.loads(found.value or ""), found.version) == ({"n": 1}, written.version)
    assert found.expires_at is not None
    assert found.updated_at is not None
    assert found.expires_at - found.updated_at == MINUTE
    again = await one(session, put("a", None, ttl=None))
    assert again.version is not None
    assert again.version > written.version
    found = await one(session, read("a"))
    assert (found.value, found.expires_at) == ("null", None)
    assert await do(session, read("b")) == []
    assert await do(session, KvOperation("get", "others", "a")) == []


async def test_expected_version_decides_a_write(session: Session) -> None:
    missed = await one(session, put("a", 1, expect=7))
    assert (missed.applied, missed.reason, missed.version, missed.value) == (
        False,
        "absent",
        0,
        None,
    )
    assert await do(session, read("a")) == []
    first = await one(session, put("a", 1, expect=0))
    assert first.applied
    late = await one(session, put("a", 2, expect=0))
    assert (late.reason, late.value, late.version) == ("exists", "1", first.version)
    second = await one(session, put("a", 3, expect=first.version))
    stale = await one(session, put("a", 4, expect=first.version))
    assert (stale.applied, stale.reason, stale.value, stale.version) == (
        False,
        "version",
        "3",
        second.version,
    )
    assert (await one(session, delete("a", expect=first.version))).reason == "version"
    gone = await one(session, delete("a", expect=second.version))
    assert (gone.applied, gone.value, gone.version) == (True, "3", second.version)
    assert (await one(session, delete("a"))).reason == "absent"
    assert (await one(session, delete("a", expect=0))).applied


async def test_check_applies_or_returns_what_is_there(session: Session) -> None:
    assert (await one(session, check("a", 0))).applied
    written = await one(session, put("a", "x"))
    assert written.version is not None
    assert (await one(session, check("a", written.version))).applied
    assert (await one(session, check("a", 0))).reason == "exists"
    assert (await one(session, check("a", written.version + 1))).reason == "version"
    assert (await one(session, check("b", 5))).reason == "absent"
    assert (await one(session, read("a"))).version == written.version


async def test_versions_of_a_key_rise_also_after_deletion_and_expiry(session: Session) -> None:
    versions = []
    for _ in range(3):
        versions.append((await one(session, put("a", 1, expect=0))).version)
        await one(session, delete("a"))
        versions.append((await one(session, put("a", 1, expect=0))).version)
        await let_expire(session)
    assert versions == sorted(versions, key=lambda version: version or 0)
    assert len(set(versions)) == len(versions)


async def test_expired_key_does_not_exist_before_it_is_swept(session: Session) -> None:
    written = await one(session, put("a", 1))
    await let_expire(session)
    assert await do(session, read("a"), prefix("a")) == []
    assert (await one(session, put("a", 2, expect=written.version))).reason == "absent"
    assert (await one(session, delete("a"))).reason == "absent"
    born = await session.fetchval("select created_at from laneway.kv")
    assert (await one(session, put("a", 3, expect=0))).applied
    assert await session.fetchval("select created_at from laneway.kv") > born


async def test_sweep_deletes_what_has_expired_alone(session: Session) -> None:
    await do(session, *(put(f"old{n}", n) for n in range(5)))
    await let_expire(session)
    await do(session, put("new", 1), put("forever", 1, ttl=None))
    assert [await sweep_kv(session, limit=3) for _ in range(3)] == [3, 2, 0]
    rows = await session.fetch("select key from laneway.kv order by key")
    assert [row["key"] for row in rows] == ["forever", "new"]


async def test_sweep_leaves_a_key_that_is_written_again_meanwhile(
    session: Session, connect: Connect
) -> None:
    await one(session, put("a", 1))
    await let_expire(session)
    other = await connect()
    async with other.transaction():
        await one(other, put("a", 2))
        assert await sweep_kv(session, limit=10) == 0
    assert await sweep_kv(session, limit=10) == 0
    assert (await one(session, read("a"))).value == "2"


async def test_counter_stays_within_its_bounds(session: Session) -> None:
    assert (await one(session, incr("n", "10", most=Decimal(5)))).reason == "limit"
    assert await do(session, read("n")) == []
    for expected in ("1", "2", "3"):
        counted = await one(session, incr("n", most=Decimal(3)))
        assert (counted.applied, counted.value) == (True, expected)
    refused = await one(session, incr("n", most=Decimal(3)))
    assert (refused.applied, refused.reason, refused.value) == (False, "limit", "3")
    assert (await one(session, incr("n", "-4", least=Decimal(0)))).reason == "limit"
    assert (await one(session, read("n"))).value == "3"
    assert (await one(session, incr("d", "0.1"))).value == "0.1"
    assert (await one(session, incr("d", "0.2"))).value == "0.3"


async def test_counter_keeps_its_expiry_until_it_is_over(session: Session) -> None:
    first = await one(session, incr("n"))
    more = await one(session, incr("n", ttl=timedelta(hours=1)))
    forever = await one(session, incr("n", ttl=None))
    assert first.expires_at == more.expires_at == forever.expires_at is not None
    await let_expire(session)
    assert (await one(session, incr("n"))).value == "1"


@pytest.mark.parametrize("value", [{"n": 1}, "7", [1], True])
async def test_what_is_no_number_cannot_be_counted_until_it_expires(
    session: Session, value: Any
) -> None:
    await one(session, put("n", value))
    counted = await one(session, incr("n"))
    assert (counted.applied, counted.reason, counted.value) == (False, "type", "0")
    await let_expire(session)
    assert (await one(session, incr("n"))).value == "1"


async def test_too_long_numbers_cannot_be_counted(session: Session) -> None:
    for text in ("1e100000", "9" * 201, "1e-999"):
        await one(session, KvOperation("put", SPACE, "n", text))
        assert (await one(session, incr("n"))).reason == "type"
    await one(session, KvOperation("put", SPACE, "n", "9" * 200))
    assert (await one(session, incr("n"))).value == f"1{'0' * 200}"


async def test_prefix_is_read_in_pages_and_byte_order(session: Session) -> None:
    keys = ["a%b", "a%bc", "axb", "aXb", "a_b", "ab", "a%", "b", "A", "a\U0001f600", "aé"]
    await do(session, *(put(key, key) for key in keys))
    wanted = sorted((key for key in keys if key.startswith("a")), key=str.encode)
    rows = await do(session, prefix("a"))
    assert [row.key for row in rows] == wanted
    assert not any(row.more for row in rows)
    assert [row.key for row in await do(session, prefix("a%b"))] == ["a%b", "a%bc"]
    assert [row.key for row in await do(session, prefix("a_b"))] == ["a_b"]
    paged: list[str | None] = []
    after: str | None = None
    while True:
        rows = await do(session, prefix("a", 2, after, kind="keys"))
        assert all(row.value is None for row in rows)
        found = [row.key for row in rows if not row.more]
        paged += found
        if not rows[-1].more:
            break
        after = found[-1]
    assert paged == wanted


async def test_reads_by_prefix_stop_at_a_limit_of_bytes(session: Session) -> None:
    big = "x" * 60_000
    await do(session, *(put(f"k{n:03}", big) for n in range(80)))
    rows = await do(session, prefix("k", 1000))
    assert rows[-1].more
    assert 69 <= len(rows) - 1 <= 71
    many = [KvOperation("many", SPACE, f"k{n:03}") for n in range(80)]
    rows = await do(session, *many, prefix("k", 1000))
    assert sum(1 for row in rows if row.value) == 70
    assert [row.idx for row in rows if row.more] == [*range(70, 80), 80]


async def test_operations_of_a_call_see_each_other(session: Session) -> None:
    before, first, between, *_ = await do(
        session, check("a", 0), put("a", 1), read("a"), put("a", 2), delete("a"), incr("a", "5")
    )
    assert (before.applied, first.applied, between.value) == (True, True, "1")
    assert (await one(session, read("a"))).value == "5"


async def test_required_operation_undoes_the_whole_call(session: Session) -> None:
    there = await one(session, put("b", {"by": 1}))
    statement = "select * from laneway.apply_kv($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
    calls = turn_kv([put("a", 1), put("b", 2, expect=0, required=True)])
    with pytest.raises(asyncpg.PostgresError) as caught:
        await session.fetch(statement, *calls)
    assert caught.value.sqlstate == "LW428"
    detail = json.loads(getattr(caught.value, "detail", ""))
    assert detail == {"index": 1, "reason": "exists", "version": there.version, "value": {"by": 1}}
    assert await do(session, read("a")) == []
    assert (await one(session, put("a", 1, required=True))).applied


async def test_of_two_sessions_one_claims_a_key(session: Session, connect: Connect) -> None:
    other = await connect()
    transaction = session.transaction()
    await transaction.start()
    assert (await one(session, put("a", "first", expect=0))).applied
    late = await start_and_block(await connect(), other, one(other, put("a", "second", expect=0)))
    await transaction.commit()
    lost = await late
    assert (lost.applied, lost.reason, lost.value) == (False, "exists", '"first"')


async def test_absent_key_that_was_checked_appears_only_afterwards(
    session: Session, connect: Connect
) -> None:
    other = await connect()
    transaction = session.transaction()
    await transaction.start()
    assert (await one(session, check("a", 0, required=True))).applied
    late = await start_and_block(await connect(), other, one(other, put("a", 1)))
    await transaction.commit()
    assert (await late).applied


async def test_deleted_key_is_written_with_a_later_version(
    session: Session, connect: Connect
) -> None:
    first = await one(session, put("a", 1))
    other = await connect()
    transaction = session.transaction()
    await transaction.start()
    await one(session, delete("a"))
    late = await start_and_block(await connect(), other, one(other, put("a", 2, expect=0)))
    await transaction.commit()
    written = await late
    assert written.applied
    assert (written.version or 0) > (first.version or 0)


async def test_concurrent_increments_are_all_counted(connect: Connect) -> None:
    sessions = [await connect() for _ in range(4)]

    async def count(session: Session) -> None:
        for _ in range(25):
            await do(session, incr("a"), incr("b", "2"))

    await asyncio.gather(*map(count, sessions))
    assert (await one(sessions[0], read("a"))).value == "100"
    assert (await one(sessions[0], read("b"))).value == "200"


@dataclass
class Model:
    """What the keys should be: value and version of each."""

    keys: dict[str, tuple[Any, int]] = field(default_factory=dict)
    newest: int = 0

    def judge(self, operation: KvOperation, row: KvRow) -> None:
        live = self.keys.get(operation.key)
        version = live[1] if live else 0
        expect = operation.expect
        reason = None
        if expect is not None and expect != version:
            reason = "exists" if expect == 0 else "version" if live else "absent"
        if operation.kind == "delete" and expect is None and not live:
            reason = "absent"
        if operation.kind == "incr" and live and not isinstance(live[0], int):
            reason = "type"
        assert (row.applied, row.reason) == (reason is None, reason)
        if reason is not None:
            assert row.version == version
            return
        if operation.kind == "delete":
            self.keys.pop(operation.key, None)
        elif operation.kind in {"put", "incr"}:
            value = (
                json.loads(operation.value or "")
                if operation.kind == "put"
                else (live[0] if live else 0) + int(operation.delta or 0)
            )
            assert row.version is not None
            assert row.version > self.newest
            self.newest = row.version
            self.keys[operation.key] = (value, row.version)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "delete", "check", "incr"]),
        st.sampled_from(["a", "ab", "b"]),
        st.sampled_from([None, "absent", "present", "stale"]),
        st.one_of(st.integers(-3, 3), st.just("text")),
    ),
    min_size=1,
    max_size=30,
)


async def test_any_sequence_of_writes_does_what_a_dictionary_would(session: Session) -> None:
    sequences: list[Sequence[Any]] = []

    @settings(
        max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(STEPS)
    def collect(steps: Sequence[Any]) -> None:
        sequences.append(steps)

    collect()
    for steps in sequences:
        await session.execute("truncate laneway.kv")
        model = Model()
        for kind, key, expected, value in steps:
            current = model.keys.get(key)
            expect = {None: None, "absent": 0, "stale": 1}.get(expected, current and current[1])
            if kind == "check" and expect is None:
                expect = 0
            operation = KvOperation(
                kind,
                SPACE,
                key,
                value=json.dumps(value) if kind == "put" else None,
                expect=None if kind == "incr" else expect,
                delta=Decimal(2) if kind == "incr" else None,
            )
            model.judge(operation, await one(session, operation))
        rows = await do(session, prefix("a"), prefix("b"))
        assert {row.key: (json.loads(row.value or ""), row.version) for row in rows} == model.keys
