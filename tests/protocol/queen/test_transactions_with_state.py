"""Keys and timers in transactions: they commit or roll back with the messages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.queen.calls import ack, data_of, pop, push, until

if TYPE_CHECKING:
    import httpx
    from queen import Queen

HOUR = 3_600_000


async def test_of_two_transactions_at_one_gate_one_pushes(queen: Queen, name: str) -> None:
    async def enter(attempt: int) -> Any:
        return await (
            queen.transaction()
            .queue(name)
            .push([{"data": attempt}, {"data": attempt}])
            .once(name, "gate", ttl_seconds=300)
            .commit()
        )

    results = await asyncio.gather(*(enter(n) for n in range(6)))
    [won] = [result for result in results if result]
    lost = [result for result in results if not result]
    assert len(lost) == 5
    for result in lost:
        assert (result["success"], result["ok"], result["reason"], result["results"]) == (
            False,
            False,
            "kv_precondition",
            [],
        )
        # Two pushes have the first two results.
        assert (result["failedIndex"], result["kvReason"], result["value"]) == (2, "exists", True)
    assert [(part["index"], part["type"]) for part in won["results"]] == [
        (0, "push"),
        (1, "push"),
        (2, "kv"),
    ]
    assert (won["results"][2]["opIndex"], won["results"][2]["applied"]) == (0, True)
    assert lost[0]["version"] == won["results"][2]["version"]
    assert len(data_of(await pop(queen, name))) == 2


async def test_refused_ack_undoes_keys_and_timers(queen: Queen, name: str) -> None:
    await push(queen, name, [1])
    [message] = await pop(queen, name, 1)
    await queen.timers.schedule(name, "kept", 1, delay_ms=HOUR)
    with pytest.raises(Exception, match="unresolv"):
        await (
            queen.transaction()
            .ack({**message, "transactionId": "nobody"})
            .kv.put(name, "marker", 1, ttl_seconds=300)
            .timer(name)
            .key("t")
            .payload(1)
            .after_ms(HOUR)
            .schedule()
            .timer(name)
            .key("kept")
            .cancel()
            .commit()
        )
    assert not await queen.kv.get(name, "marker")
    assert [row["timerKey"] for row in await queen.timers.list_all(name)] == ["kept"]
    assert (await ack(queen, message))["success"]


async def test_lost_condition_undoes_acks_and_timers(queen: Queen, name: str) -> None:
    await push(queen, name, [1])
    [message] = await pop(queen, name, 1)
    result = await (
        queen.transaction()
        .ack(message)
        .kv.put(name, "a", 1, ttl_seconds=300)
        .kv.get_many(name, ["a", "b"])
        .kv.check(name, "b", expect=7, required=True)
        .timer(f"{name}-new")
        .key("t")
        .payload(1)
        .after_ms(HOUR)
        .schedule()
        .commit()
    )
    # The ack, a put and a read come before it.
    assert (result["success"], result["failedIndex"], result["kvReason"]) == (False, 3, "absent")
    assert not await queen.kv.get(name, "a")
    assert not await queen.timers.peek(f"{name}-new", "t")
    assert (await ack(queen, message))["success"]


async def test_everything_commits_together(queen: Queen, name: str) -> None:
    await push(queen, name, [1])
    [message] = await pop(queen, name, 1)
    await queen.timers.schedule(name, "timeout", 1, delay_ms=HOUR)
    result = await (
        queen.transaction()
        .ack(message)
        .queue(f"{name}-next")
        .push([{"data": "next"}])
        .kv.put(name, "saga", {"state": "open"}, ttl_seconds=300)
        .kv.get(name, "saga")
        .kv.incr(name, "steps", ttl_seconds=300)
        .kv.delete(name, "nothing")
        .timer(name)
        .key("timeout")
        .cancel()
        .timer(f"{name}-late")
        .key("soon")
        .payload({"saga": 1})
        .after_ms(100)
        .schedule()
        .commit()
    )
    assert result
    parts = result["results"]
    assert [(part["index"], part["type"], part.get("opIndex")) for part in parts] == [
        (0, "ack", None),
        (1, "push", None),
        (2, "kv", 0),
        (3, "kv", 1),
        (4, "kv", 2),
        (5, "kv", 3),
        (6, "timer", 0),
        (7, "timer", 1),
    ]
    assert (parts[3]["found"], parts[3]["value"]) == (True, {"state": "open"})
    assert (parts[4]["value"], parts[5]["reason"]) == (1, "absent")
    assert [part["status"] for part in parts[6:]] == ["cancelled", "scheduled"]
    assert await pop(queen, name) == []
    assert data_of(await pop(queen, f"{name}-next")) == ["next"]
    assert data_of(await until(lambda: pop(queen, f"{name}-late"))) == [{"saga": 1}]


async def test_transaction_may_be_about_keys_or_timers_alone(queen: Queen, name: str) -> None:
    assert await queen.transaction().kv.put(name, "a", 1, ttl_seconds=300).commit()
    assert (await queen.kv.get(name, "a"))["value"] == 1
    timer = queen.transaction().timer(name).key("t").payload(1).after_ms(HOUR)
    assert await timer.schedule().commit()
    assert await queen.timers.peek(name, "t")


async def test_new_queue_is_made_once_for_messages_and_timers(queen: Queen, name: str) -> None:
    result = await (
        queen.transaction()
        .queue(name)
        .push([{"data": "now"}])
        .timer(name)
        .key("t")
        .payload("later")
        .after_ms(0)
        .schedule()
        .commit()
    )
    assert result
    assert data_of(await pop(queen, name, 1)) == ["now"]


async def test_refused_transaction_with_keys_changes_nothing(
    queen: Queen, http: httpx.AsyncClient, name: str
) -> None:
    add = {"type": "push", "items": [{"queue": name, "payload": 1}]}
    put = {"op": "put", "ns": name, "key": "k", "value": 1, "ttlSeconds": 60}
    get = {"op": "getMany", "ns": name, "keys": [str(n) for n in range(257)]}
    timer = {"op": "cancel", "queue": name, "timerKey": "t"}
    for more in (
        {"kv": [put, {"op": "put"}]},
        {"kv": [put, {"op": "getPrefix", "ns": name, "prefix": "a"}]},
        {"kv": [put, get]},
        {"kv": [put] * 65},
        {"kv": [put], "timers": [timer, timer]},
        {"kv": [put], "timers": [{**timer, "op": "fire"}]},
    ):
        answer = await http.post("/transaction", json={"operations": [add], **more})
        assert answer.status_code == 400, answer.text
    answer = await http.post("/transaction", json={"operations": []})
    assert answer.status_code == 400
    assert not await queen.kv.get(name, "k")
    assert (await http.get(f"/resources/queues/{name}")).status_code == 404


async def test_counted_and_pushed_are_the_same_number(queen: Queen, name: str) -> None:
    """Transactions that count under one key, each pushing with a limit."""

    async def admit() -> bool:
        result = await (
            queen.transaction()
            .kv.incr(name, "quota", max=5, ttl_seconds=300, required=True)
            .queue(name)
            .push([{"data": 1}])
            .commit()
        )
        return bool(result)

    admitted = await asyncio.gather(*(admit() for _ in range(12)))
    assert sum(admitted) == 5
    assert len(await pop(queen, name, 100)) == 5
