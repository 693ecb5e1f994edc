"""Locks in SQL: one holder at a time, tokens that rise, permits of semaphores."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from laneway.domain.kv import LOCKS, KvOperation, LockOperation
from laneway.engine.procedures.kv import apply_kv, apply_locks
from tests.sql.calls import start_and_block

if TYPE_CHECKING:
    from tests.postgres import Connect
    from tests.sql.calls import Session

MINUTE = timedelta(minutes=1)


async def do(session: Session, *operations: LockOperation) -> list[Any]:
    return list(await apply_locks(session, operations))


async def acquire(session: Session, name: str = "job", owner: str = "a", limit: int = 1) -> Any:
    [verdict, *holders] = await do(
        session, LockOperation("acquire", name, owner, MINUTE, limit=limit)
    )
    return {**verdict, "holders": [dict(holder) for holder in holders]}


async def renew(session: Session, token: int, owner: str | None = None, slot: int = 0) -> Any:
    return (
        await do(session, LockOperation("renew", "job", owner, MINUTE, slot=slot, token=token))
    )[0]


async def release(session: Session, token: int, slot: int = 0) -> Any:
    return (await do(session, LockOperation("release", "job", slot=slot, token=token)))[0]


async def show(session: Session, name: str = "job") -> list[Any]:
    return (await do(session, LockOperation("get", name)))[1:]


async def let_expire(session: Session) -> None:
    await session.execute("update laneway.kv set expires_at = clock_timestamp() - interval '1 s'")


async def test_lock_has_one_owner_until_it_is_released(session: Session) -> None:
    first = await acquire(session)
    assert (first["applied"], first["already"], first["slot"]) == (True, False, 0)
    refused = await acquire(session, owner="b")
    assert (refused["applied"], refused["reason"]) == (False, "held")
    assert [(h["slot"], h["owner"], h["token"]) for h in refused["holders"]] == [
        (0, "a", first["token"])
    ]
    assert (await release(session, first["token"] + 1))["reason"] == "lost"
    assert (await release(session, first["token"]))["applied"]
    assert (await release(session, first["token"]))["reason"] == "lost"
    assert await show(session) == []
    second = await acquire(session, owner="b")
    assert second["applied"]
    assert second["token"] > first["token"]


async def test_tokens_rise_over_release_expiry_renewal_and_removal(session: Session) -> None:
    tokens = []
    for _ in range(3):
        taken = await acquire(session)
        tokens += [taken["token"], (await renew(session, taken["token"]))["token"]]
        await let_expire(session)
        tokens.append((await acquire(session, owner="b"))["token"])
        assert (await renew(session, tokens[-2], "a"))["reason"] == "lost"
        await session.execute("delete from laneway.kv")
        tokens.append((await acquire(session))["token"])
        assert (await release(session, tokens[-1]))["applied"]
    assert tokens == sorted(set(tokens))


async def test_expired_lock_is_free(session: Session) -> None:
    first = await acquire(session)
    await let_expire(session)
    assert await show(session) == []
    second = await acquire(session, owner="b")
    assert second["applied"]
    for lost in (await renew(session, first["token"], "a"), await release(session, first["token"])):
        assert (lost["applied"], lost["reason"]) == (False, "lost")
    [permit] = await show(session)
    assert (permit["owner"], permit["token"]) == ("b", second["token"])


async def test_repeated_acquire_of_an_owner_keeps_its_permit(session: Session) -> None:
    first = await acquire(session)
    again = await acquire(session)
    assert (again["applied"], again["already"], again["token"]) == (True, True, first["token"])
    [before] = await show(session)
    renewed = await renew(session, first["token"], "a")
    resent = await renew(session, first["token"], "a")
    assert resent["token"] > renewed["token"] > first["token"]
    assert (await renew(session, first["token"]))["reason"] == "lost"
    assert (await renew(session, first["token"], "b"))["reason"] == "lost"
    [after] = await show(session)
    assert after["since"] == before["since"]
    assert after["renewed_at"] > before["renewed_at"]


async def test_semaphore_grants_its_permits_and_no_more(session: Session) -> None:
    taken = [await acquire(session, owner=f"w{n}", limit=3) for n in range(3)]
    assert [each["slot"] for each in taken] == [0, 1, 2]
    refused = await acquire(session, owner="w3", limit=3)
    assert (refused["reason"], [h["owner"] for h in refused["holders"]]) == (
        "held",
        ["w0", "w1", "w2"],
    )
    again = await acquire(session, owner="w1", limit=3)
    assert (again["already"], again["slot"]) == (True, 1)
    assert (await release(session, taken[1]["token"], slot=1))["applied"]
    assert (await acquire(session, owner="w3", limit=3))["slot"] == 1
    assert len(await show(session)) == 3


async def test_names_that_begin_alike_are_different_locks(session: Session) -> None:
    names = ["gpu", "gpu1", "gpu/1", "gp", "gpu "]
    for name in names:
        assert (await acquire(session, name, owner=name))["applied"]
    for name in names:
        assert [permit["owner"] for permit in await show(session, name)] == [name]


async def test_keys_that_are_no_slots_are_no_permits(session: Session) -> None:
    for key in ("job#", "job#x", "job#07", "job#-1", "job#10000", "job"):
        await apply_kv(session, [KvOperation("put", LOCKS, key, "1")])
    assert await show(session) == []
    await apply_kv(session, [KvOperation("put", LOCKS, "job#0", '"by hand"')])
    [permit] = await show(session)
    assert permit["owner"] is None
    assert (await acquire(session))["reason"] == "held"
    await apply_kv(session, [KvOperation("delete", LOCKS, "job#0")])
    assert (await acquire(session))["applied"]


async def test_of_two_sessions_one_acquires(session: Session, connect: Connect) -> None:
    other = await connect()
    transaction = session.transaction()
    await transaction.start()
    assert (await acquire(session))["applied"]
    late = await start_and_block(await connect(), other, acquire(other, owner="b"))
    await transaction.commit()
    assert (await late)["reason"] == "held"


async def test_expired_lock_is_acquired_after_a_guarded_transaction_ends(
    session: Session, connect: Connect
) -> None:
    token = (await acquire(session))["token"]
    other = await connect()
    transaction = session.transaction()
    await transaction.start()
    guard = KvOperation("check", LOCKS, "job#0", expect=token, required=True)
    await apply_kv(session, [guard])
    await other.execute("update laneway.kv set expires_at = clock_timestamp() - interval '1 s'")
    late = await start_and_block(await connect(), other, acquire(other, owner="b"))
    await transaction.commit()
    assert (await late)["applied"]


async def test_lock_never_has_two_owners_under_concurrency(connect: Connect) -> None:
    sessions = [await connect() for _ in range(4)]
    holding: set[str] = set()
    tokens: list[int] = []

    async def work(session: Session, owner: str) -> None:
        for _ in range(15):
            taken = await acquire(session, owner=owner)
            if taken["applied"]:
                assert not holding
                holding.add(owner)
                tokens.append(taken["token"])
                await asyncio.sleep(0)
                holding.discard(owner)
                assert (await release(session, taken["token"]))["applied"]

    await asyncio.gather(*(work(each, f"w{n}") for n, each in enumerate(sessions)))
    assert tokens
    assert tokens == sorted(set(tokens))


async def test_crossing_calls_on_several_locks_all_end(connect: Connect) -> None:
    sessions = [await connect() for _ in range(4)]
    names = [f"lock{n}" for n in range(6)]

    async def work(session: Session, number: int) -> None:
        order = names if number % 2 else names[::-1]
        for _ in range(10):
            rows = await do(
                session,
                *(LockOperation("acquire", name, f"w{number}", MINUTE) for name in order),
            )
            held = {order[row["idx"]]: row["token"] for row in rows if row["applied"]}
            if held:
                await do(
                    session,
                    *(LockOperation("release", name, token=token) for name, token in held.items()),
                )

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(each, n) for n, each in enumerate(sessions)))
    for name in names:
        assert await show(sessions[0], name) == []
