"""Locks and semaphores through the client, and transactions that depend on them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from queen.errors import LockNotHeldError

from tests.protocol.queen.calls import ack, data_of, pop, until

if TYPE_CHECKING:
    import httpx
    from queen import Queen

MINUTE = {"ttl_seconds": 60}


async def test_lock_has_one_owner_whose_transactions_commit(queen: Queen, name: str) -> None:
    first, second = (queen.lock(name, **MINUTE) for _ in range(2))
    assert await first.acquire()
    assert not await second.acquire()
    token = first.token or 0
    shown = await queen.locks.get(name)
    assert shown
    [holder] = shown["holders"]
    assert (holder["owner"], holder["token"], holder["slot"]) == (first.owner, token, 0)
    assert holder["since"] <= holder["renewedAt"] < holder["expiresAt"]
    row = await queen.kv.get("queen-locks", f"{name}#0")
    assert (row["version"], row["value"]["owner"]) == (token, first.owner)
    assert await queen.transaction().guard(first).queue(name).push([{"data": 1}]).commit()
    assert data_of(await pop(queen, name)) == [1]
    assert await first.release()
    assert not await queen.locks.get(name)
    assert await second.acquire()
    assert (second.token or 0) > token
    await second.release()


async def test_repeated_call_of_an_owner_finds_its_permit(queen: Queen, name: str) -> None:
    first = await queen.locks.acquire(name, owner="me", **MINUTE)
    again = await queen.locks.acquire(name, owner="me", **MINUTE)
    assert first
    assert again
    assert (again["already"], again["token"]) == (True, first["token"])
    assert first["guard"] == {
        "op": "check",
        "ns": "queen-locks",
        "key": f"{name}#0",
        "expect": first["token"],
        "required": True,
    }
    renewed = await queen.locks.renew(name, token=first["token"], owner="me", **MINUTE)
    resent = await queen.locks.renew(name, token=first["token"], owner="me", **MINUTE)
    assert resent["token"] > renewed["token"] > first["token"]
    stranger = await queen.locks.renew(name, token=first["token"], owner="you", **MINUTE)
    assert not stranger
    assert (stranger["reason"], stranger["holders"]) == ("lost", [{"slot": 0, "owner": "me"}])
    held = await queen.locks.acquire(name, owner="you", **MINUTE)
    assert (held["reason"], held["holders"]) == ("held", [{"slot": 0, "owner": "me"}])
    assert not await queen.locks.release(name, token=first["token"])
    assert await queen.locks.release(name, token=resent["token"])


async def test_former_owner_of_an_expired_lock_commits_nothing(queen: Queen, name: str) -> None:
    former = queen.lock(name, ttl_seconds=1, auto_renew=False)
    present = queen.lock(name, **MINUTE)
    assert await former.acquire()
    token, guard = former.token or 0, former.guard()
    await until(present.acquire)
    assert (present.token or 0) > token
    assert not former.held
    late = await (
        queen.transaction()
        .kv.check(guard["ns"], guard["key"], expect=guard["expect"], required=True)
        .queue(name)
        .push([{"data": "late"}])
        .commit()
    )
    assert (late["success"], late["reason"], late["kvReason"]) == (
        False,
        "kv_precondition",
        "version",
    )
    assert (late["failedIndex"], late["value"]["owner"]) == (1, present.owner)
    with pytest.raises(LockNotHeldError):
        await queen.transaction().guard(former).queue(name).push([{"data": "late"}]).commit()
    assert await queen.transaction().guard(present).queue(name).push([{"data": "now"}]).commit()
    assert data_of(await pop(queen, name)) == ["now"]
    await present.release()


async def test_guarded_transactions_survive_the_locks_renewals(queen: Queen, name: str) -> None:
    lock = queen.lock(name, ttl_seconds=30, renew_every=0.02)
    assert await lock.acquire()
    first = lock.token or 0
    steps = 0

    async def step() -> bool:
        nonlocal steps
        assert await queen.transaction().guard(lock).queue(name).push([{"data": steps}]).commit()
        steps += 1
        return steps >= 20 and (lock.token or 0) > first

    await until(step, seconds=30)
    assert lock.held
    assert not lock.lost.is_set()
    messages = []
    while some := await pop(queen, name, 100):
        messages += data_of(some)
        await ack(queen, some)
    assert messages == list(range(steps))
    await lock.release()


async def test_handle_learns_that_its_lock_is_lost(queen: Queen, name: str) -> None:
    lock = queen.lock(name, ttl_seconds=30, auto_renew=False)
    reasons: list[str] = []
    lock.on_lost(reasons.append)
    assert await lock.acquire()
    # As an operator breaks a lock.
    assert await queen.kv.delete("queen-locks", f"{name}#0")
    assert not await lock.renew()
    assert (reasons, lock.lost.is_set(), lock.held) == (["renew"], True, False)
    with pytest.raises(LockNotHeldError):
        lock.guard()


async def test_semaphore_grants_no_more_than_its_permits(queen: Queen, name: str) -> None:
    permits = [queen.semaphore(name, 3, **MINUTE) for _ in range(12)]
    taken = await asyncio.gather(*(permit.acquire() for permit in permits))
    holders = [permit for permit, got in zip(permits, taken, strict=True) if got]
    assert {holder.slot for holder in holders} == {0, 1, 2}
    assert len(holders) == 3
    extra = queen.semaphore(name, 3, **MINUTE)
    assert not await extra.acquire()
    assert len((await queen.locks.get(name))["holders"]) == 3
    freed = holders[0].slot
    waiting = asyncio.ensure_future(extra.acquire(wait=20))
    await holders[0].release()
    assert await waiting
    assert extra.slot == freed
    for permit in (*holders, extra):
        await permit.release()


async def test_lock_as_a_context_and_at_the_clients_end(queen: Queen, name: str) -> None:
    async with queen.lock(name, **MINUTE) as lock:
        assert lock.held
        with pytest.raises(LockNotHeldError):
            async with queen.lock(name, **MINUTE):
                pass
    done = await queen.lock(name, **MINUTE).run(lambda lock: asyncio.sleep(0, lock.token))
    assert done["acquired"]
    kept = queen.lock(name, **MINUTE)
    assert await kept.acquire()
    assert await queen.locks.release_all() == 1
    assert not await queen.locks.get(name)


async def test_operations_of_a_batch_are_independent(queen: Queen, name: str) -> None:
    names = [f"{name}-{n}" for n in range(3)]
    await queen.locks.acquire(names[1], owner="other", **MINUTE)
    results = await queen.locks.batch(
        [{"op": "acquire", "name": each, "ttlSeconds": 60, "owner": "me"} for each in names]
    )
    assert [result["acquired"] for result in results] == [True, False, True]
    assert [result["index"] for result in results] == [0, 1, 2]


async def test_refused_operations_on_locks_are_named(http: httpx.AsyncClient, name: str) -> None:
    acquire = {"op": "acquire", "name": name, "ttlSeconds": 60}
    wrong: list[list[Any]] = [
        [{"op": "acquire", "name": name}],
        [{**acquire, "forever": True}],
        [{**acquire, "ttlSeconds": 0}],
        [{**acquire, "name": "a#b"}],
        [{**acquire, "name": "a\nb"}],
        [{**acquire, "name": ""}],
        [{**acquire, "name": "é" * 200}],
        [{**acquire, "owner": ""}],
        [{**acquire, "limit": 0}],
        [{**acquire, "limit": 1025}],
        [{"op": "renew", "name": name, "ttlSeconds": 1}],
        [{"op": "release", "name": name}],
        [{"op": "release", "name": name, "token": 0}],
        [{"op": "release", "name": name, "token": "7"}],
        [{"op": "release", "name": name, "token": 7, "slot": 1024}],
        [{"op": "lock", "name": name}],
        [acquire, {"op": "get", "name": name}],
        [{"op": "get", "name": f"{name}-{n}"} for n in range(65)],
        [{**acquire, "name": f"{name}-{n}", "limit": 1024} for n in range(5)],
    ]
    for operations in wrong:
        answer = await http.post("/locks", json={"operations": operations})
        assert answer.status_code == 400, (operations, answer.text)
        assert answer.json()["code"] == "locks_bad_request"
    answer = await http.post("/locks", json={"operations": [{"op": "get", "name": name}]})
    assert answer.json()["results"][0]["held"] is False
    assert (await http.post("/locks", json={"operations": []})).json() == {"results": []}
