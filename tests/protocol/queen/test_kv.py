"""Keys and values through the client: versions, conditions, counters, pages."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from queen.errors import KvError

from tests.protocol.queen.calls import until

if TYPE_CHECKING:
    import httpx
    from queen import Queen

    from tests.protocol.conftest import Shared


async def test_key_is_written_and_read(queen: Queen, name: str) -> None:
    written = await queen.kv.put(name, "a/b", {"n": 1}, ttl_seconds=60)
    assert written
    assert (written["op"], written["key"], written["value"]) == ("put", "a/b", {"n": 1})
    found = await queen.kv.get(name, "a/b")
    assert found
    assert (found["value"], found["version"]) == ({"n": 1}, written["version"])
    assert found["expiresAt"] == written["expiresAt"] > found["updatedAt"]
    missing = await queen.kv.get(name, "c")
    assert not missing
    assert (missing["found"], missing["value"], missing["version"]) == (False, None, 0)
    await queen.kv.put(name, "null", None, forever=True)
    found = await queen.kv.get(name, "null")
    assert found
    assert (found["value"], found["expiresAt"]) == (None, None)


async def test_each_way_to_give_an_expiry(queen: Queen, name: str) -> None:
    await queen.kv.put(name, "a", 1, ttl=timedelta(minutes=1))
    await queen.kv.put(name, "b", 1, until=datetime.now(UTC) + timedelta(minutes=1))
    for key in "ab":
        found = await queen.kv.get(name, key)
        left = datetime.fromisoformat(found["expiresAt"]) - datetime.fromisoformat(
            found["updatedAt"]
        )
        assert timedelta(seconds=50) < left <= timedelta(minutes=1)


async def test_of_many_claims_one_wins(queen: Queen, name: str) -> None:
    results = await asyncio.gather(
        *(queen.kv.put_if_absent(name, "k", {"by": n}, ttl_seconds=60) for n in range(8))
    )
    [winner] = [result for result in results if result]
    losers = [result for result in results if not result]
    assert {result["reason"] for result in losers} == {"exists"}
    assert all(result["value"] == winner["value"] for result in losers)
    assert all(result["version"] == winner["version"] for result in losers)
    assert await queen.kv.once(name, "once", ttl_seconds=60)
    assert not await queen.kv.once(name, "once", ttl_seconds=60)


async def test_condition_that_is_not_met_writes_nothing(queen: Queen, name: str) -> None:
    lost = await queen.kv.put(name, "k", 1, ttl_seconds=60, expect=42)
    assert (lost["applied"], lost["reason"], lost["version"]) == (False, "absent", 0)
    assert not await queen.kv.get(name, "k")
    first = await queen.kv.put(name, "k", 1, ttl_seconds=60)
    second = await queen.kv.put(name, "k", 2, ttl_seconds=60, expect=first["version"])
    stale = await queen.kv.put(name, "k", 3, ttl_seconds=60, expect=first["version"])
    assert (stale["reason"], stale["version"], stale["value"]) == ("version", second["version"], 2)
    assert (await queen.kv.delete(name, "k", expect=first["version"]))["reason"] == "version"
    assert await queen.kv.check(name, "k", expect=second["version"])
    assert (await queen.kv.check(name, "k", expect=0))["reason"] == "exists"
    assert await queen.kv.delete(name, "k", expect=second["version"])
    assert (await queen.kv.delete(name, "k"))["reason"] == "absent"
    assert await queen.kv.check(name, "k", expect=0)


async def test_required_operation_undoes_its_batch(
    queen: Queen, http: httpx.AsyncClient, name: str
) -> None:
    there = await queen.kv.put(name, "b", "theirs", ttl_seconds=60)
    operations = [
        queen.kv.op.get_many(name, ["x", "y"]),
        queen.kv.op.put(name, "a", 1, ttl_seconds=60),
        queen.kv.op.put_if_absent(name, "b", 1, ttl_seconds=60, required=True),
    ]
    answer = await http.post("/kv", json={"operations": operations})
    assert answer.status_code == 200
    assert answer.json() == {
        "ok": False,
        "reason": "kv_precondition",
        "failedIndex": 2,
        "kvReason": "exists",
        "version": there["version"],
        "value": "theirs",
    }
    assert not await queen.kv.get(name, "a")
    with pytest.raises(KvError) as caught:
        await queen.kv.check(name, "b", expect=1, required=True)
    assert caught.value.code == "kv_result_missing"  # as with Queen's own server


async def test_expired_key_is_gone(queen: Queen, name: str) -> None:
    await queen.kv.put(name, "k", {"count": 0}, ttl_seconds=1)

    async def is_gone() -> bool:
        return not await queen.kv.get(name, "k")

    await until(is_gone)
    assert (await queen.kv.incr(name, "k", ttl_seconds=60))["value"] == 1
    assert await queen.kv.delete(name, "k")
    assert await queen.kv.put_if_absent(name, "k", 1, ttl_seconds=60)


async def test_expired_keys_are_swept(queen: Queen, name: str, shared: Shared) -> None:
    await queen.kv.put(name, "k", 1, ttl_seconds=1)

    async def is_swept() -> bool:
        connection = await asyncpg.connect(shared.dsn)
        try:
            rows = await connection.fetch("select from laneway.kv where namespace = $1", name)
        finally:
            await connection.close()
        return not rows

    await until(is_swept, seconds=40)


async def test_counter_admits_up_to_its_bound(queen: Queen, name: str) -> None:
    refused = await queen.kv.incr(name, "n", delta=10, max=5, ttl_seconds=60)
    assert (refused["applied"], refused["reason"], refused["value"]) == (False, "limit", 0)
    assert not await queen.kv.get(name, "n")
    for expected in (1, 2, 3):
        assert (await queen.kv.incr(name, "n", max=3, ttl_seconds=60))["value"] == expected
    refused = await queen.kv.incr(name, "n", max=3, ttl_seconds=60)
    assert (refused["reason"], refused["value"]) == ("limit", 3)
    first = await queen.kv.get(name, "n")
    await queen.kv.incr(name, "n", delta=-1, min=0, ttl_seconds=3600)
    assert (await queen.kv.get(name, "n"))["expiresAt"] == first["expiresAt"]
    assert (await queen.kv.incr(name, "d", delta=0.1, ttl_seconds=60))["value"] == 0.1
    assert (await queen.kv.incr(name, "d", delta=0.2, ttl_seconds=60))["value"] == 0.3
    await queen.kv.put(name, "text", "x", ttl_seconds=60)
    assert (await queen.kv.incr(name, "text", ttl_seconds=60))["reason"] == "type"


async def test_concurrent_counters_lose_nothing(queen: Queen, name: str) -> None:
    await asyncio.gather(*(queen.kv.incr(name, "n", ttl_seconds=60) for _ in range(40)))
    assert (await queen.kv.get(name, "n"))["value"] == 40


async def test_several_keys_are_read_at_once(queen: Queen, name: str) -> None:
    await queen.kv.put(name, "a", 1, ttl_seconds=60)
    await queen.kv.put(name, "b", 2, ttl_seconds=60)
    found = await queen.kv.get_many(name, ["a", "b", "c"])
    assert {row["key"]: row["value"] for row in found["rows"]} == {"a": 1, "b": 2}
    assert (found["missing"], found["truncated"]) == (["c"], False)


async def test_prefix_is_read_in_pages(queen: Queen, name: str) -> None:
    keys = [f"walk:{n}" for n in range(5)]
    for key in keys:
        await queen.kv.put(name, key, {"of": key}, ttl_seconds=60)
    await queen.kv.put(name, "walk%_:x", 1, ttl_seconds=60)
    page = await queen.kv.get_prefix(name, "walk:", limit=2)
    assert [row["key"] for row in page["rows"]] == keys[:2]
    assert (page["truncated"], page["nextAfter"]) == (True, keys[1])
    rows = await queen.kv.list_all(name, "walk:", limit=2)
    assert [row["key"] for row in rows] == keys
    rows = await queen.kv.list_all(name, "walk:", keys_only=True)
    assert [("value" in row, row["key"]) for row in rows] == [(False, key) for key in keys]
    weird = await queen.kv.get_prefix(name, "walk%_:", limit=5000)
    assert [row["key"] for row in weird["rows"]] == ["walk%_:x"]
    assert (weird["truncated"], weird["nextAfter"]) == (False, None)


async def test_results_stand_where_their_operations_did(queen: Queen, name: str) -> None:
    op = queen.kv.op
    results = await queen.kv.batch(
        [
            op.put(name, "a", "one", ttl_seconds=60),
            op.get(name, "nothing"),
            op.get_many(name, ["a", "b"]),
            op.incr(name, "n", delta=2, ttl_seconds=60),
            op.get_prefix(name, "a"),
            op.delete(name, "a"),
        ]
    )
    assert [result["index"] for result in results] == list(range(6))
    assert [result["op"] for result in results] == [
        "put",
        "get",
        "getMany",
        "incr",
        "getPrefix",
        "delete",
    ]
    assert [row["key"] for row in results[4]["rows"]] == ["a"]
    assert await queen.kv.batch([]) == []


async def test_refused_operation_changes_nothing_and_is_named(
    queen: Queen, http: httpx.AsyncClient, name: str
) -> None:
    put = {"op": "put", "ns": name, "key": "k", "value": 1}
    wrong: list[dict[str, Any]] = [
        put,
        {**put, "ttlSeconds": 60, "forever": True},
        {**put, "forever": False},
        {**put, "ttlSeconds": 0},
        {**put, "ttlSeconds": 1.5},
        {**put, "ttlSeconds": "60"},
        {**put, "ttlSeconds": 10**12},
        {**put, "ttlSeconds": 60, "expect": None},
        {**put, "ttlSeconds": 60, "expect": -1},
        {**put, "ttlSeconds": 60, "required": 1},
        {**put, "ttlSeconds": 60, "ns": "NO NAMESPACE"},
        {**put, "ttlSeconds": 60, "ns": f"{name}\n"},
        {**put, "ttlSeconds": 60, "key": ""},
        {**put, "ttlSeconds": 60, "key": "a\0b"},
        {**put, "ttlSeconds": 60, "tenant": "x"},
        {"op": "put", "ns": name, "key": "k", "ttlSeconds": 60},
        {"op": "putIfAbsent", "ns": name, "key": "k", "value": 1, "forever": True, "expect": 0},
        {"op": "incr", "ns": name, "key": "k", "delta": "1", "forever": True},
        {"op": "incr", "ns": name, "key": "k", "delta": True, "forever": True},
        {"op": "incr", "ns": name, "key": "k", "delta": 1e300, "forever": True},
        {"op": "check", "ns": name, "key": "k"},
        {"op": "getPrefix", "ns": name, "prefix": ""},
        {"op": "getMany", "ns": name, "keys": "k"},
        {"op": "scan", "ns": name, "key": "k"},
    ]
    good = {**put, "key": "good", "ttlSeconds": 60}
    for operation in wrong:
        answer = await http.post("/kv", json={"operations": [good, operation]})
        assert answer.status_code == 400, (operation, answer.text)
        assert answer.json()["code"] == "kv_bad_request"
    for more in ({"key": "é" * 257}, {"value": "x" * 70_000}):
        answer = await http.post("/kv", json={"operations": [good, {**good, **more}]})
        assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    many = {"op": "getMany", "ns": name, "keys": [str(n) for n in range(4000)]}
    for operations in ([good] * 257, [many, {"op": "getPrefix", "ns": name, "prefix": "a"}]):
        answer = await http.post("/kv", json={"operations": operations})
        assert answer.status_code == 400
    answer = await http.post("/kv", content=b"{")
    assert (answer.status_code, answer.json()["code"]) == (400, "kv_bad_request")
    assert not await queen.kv.get(name, "good")
    with pytest.raises(KvError) as caught:
        await queen.kv.put("NO NAMESPACE", "k", 1, ttl_seconds=60)
    assert (caught.value.status, caught.value.code) == (400, "kv_bad_request")


async def test_largest_keys_and_values_are_kept(queen: Queen, name: str) -> None:
    key, value = "é" * 256, "x" * (65_536 - 2)
    assert await queen.kv.put(name, key, value, ttl_seconds=60)
    assert (await queen.kv.get(name, key))["value"] == value
    await asyncio.gather(
        *(queen.kv.put(name, f"big{n:02}", value, ttl_seconds=60) for n in range(70))
    )
    page = await queen.kv.get_prefix(name, "big", limit=1000)
    assert page["truncated"]
    assert 60 < len(page["rows"]) < 70
    assert len(await queen.kv.list_all(name, "big", limit=1000)) == 70
    cut = await queen.kv.get_many(name, [f"big{n:02}" for n in range(70)] + ["none"])
    assert (cut["truncated"], cut["missing"]) == (True, [])
