"""Transactions: acknowledgements and pushes happen together or not at all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.queen.calls import ack, data_of, pop, push, until

if TYPE_CHECKING:
    import httpx
    from queen import Queen


async def test_an_acknowledgement_and_pushes_happen_together(queen: Queen, name: str) -> None:
    await push(queen, name, range(2))
    messages = await pop(queen, name, 2)
    result = await (
        queen.transaction()
        .ack(messages)
        .queue(f"{name}-next")
        .partition("p")
        .push([{"data": "a"}, {"data": "b"}])
        .commit()
    )
    assert result["success"]
    assert [part["type"] for part in result["results"]] == ["ack", "ack", "push", "push"]
    assert [part["index"] for part in result["results"]] == [0, 1, 2, 3]
    assert await pop(queen, name) == []
    assert data_of(await pop(queen, f"{name}-next", partition="p")) == ["a", "b"]


async def test_transaction_with_a_lost_lease_changes_nothing(queen: Queen, name: str) -> None:
    await push(queen, name, range(2))
    [first, second] = await pop(queen, name, 2)
    await ack(queen, [first, second])
    transaction = queen.transaction().ack(first).queue(f"{name}-next").push([{"data": 1}])
    with pytest.raises(Exception, match=r"lease .* has ended.* rolled back"):
        await transaction.commit()
    assert await pop(queen, f"{name}-next") == []


async def test_transaction_with_a_refused_part_changes_nothing(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await push(queen, name, range(2))
    messages = await pop(queen, name, 2)
    acks = [
        {
            "type": "ack",
            **{key: message[key] for key in ("transactionId", "partitionId", "leaseId")},
        }
        for message in messages
    ]
    add = {"type": "push", "items": [{"queue": f"{name}-next", "payload": 1}]}
    wrong: list[list[dict[str, Any]]] = [
        [acks[0], add, {**acks[1], "transactionId": "nobody"}],
        [acks[0], add, {**acks[1], "leaseId": "00000000-0000-4000-8000-000000000000"}],
        [acks[0], add, {**acks[1], "consumerGroup": "strangers"}],
    ]
    for operations in wrong:
        answer = await http.post("/transaction", json={"operations": operations})
        assert (answer.status_code, answer.json()["success"]) == (409, False)
        assert "rolled back" in answer.json()["error"]
    answer = await http.post("/transaction", json={"operations": [*acks, {"type": "dance"}]})
    assert answer.status_code == 400
    assert await pop(queen, f"{name}-next") == []
    assert (await ack(queen, messages))["success"]


async def test_transaction_with_a_lost_lease_changes_nothing_even_if_another_consumer_completed_it(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await queen.queue(name).config({"leaseTime": 0.1, "retryDelay": 0}).create()
    await push(queen, name, range(2))

    async def transact(messages: list[dict[str, Any]]) -> int:
        acks = [
            {"type": "ack", **{key: m[key] for key in ("transactionId", "partitionId", "leaseId")}}
            for m in messages
        ]
        add = {"type": "push", "queue": f"{name}-next", "payload": "done"}
        answer = await http.post("/transaction", json={"operations": [*acks, add]})
        return answer.status_code

    late = await pop(queen, name, 2)
    await queen.queue(name).config({"leaseTime": 300}).create()
    messages = await until(lambda: pop(queen, name, 2))
    # What was completed before under the same lease, which holds the rest still, is no harm.
    assert (await ack(queen, messages[0]))["success"]
    assert await transact(messages) == 200
    assert await transact(late) == 409
    assert await transact(messages) == 409
    assert data_of(await pop(queen, f"{name}-next")) == ["done"]


async def test_duplicate_push_does_not_fail_a_transaction(queen: Queen, name: str) -> None:
    await push(queen, name, ["x"])
    [message] = await pop(queen, name)
    following = f"{name}-next"
    for status in ("queued", "duplicate"):
        result = await (
            queen.transaction()
            .queue(following)
            .push([{"transactionId": "once", "data": "y"}])
            .commit()
        )
        assert [part["status"] for part in result["results"]] == [status]
    result = await (
        queen.transaction()
        .ack(message)
        .queue(following)
        .push([{"transactionId": "once", "data": "y"}, {"data": "z"}])
        .commit()
    )
    assert [part.get("status") for part in result["results"]] == [None, "duplicate", "queued"]
    assert data_of(await pop(queen, following)) == ["y", "z"]


async def test_a_message_may_fail_within_a_transaction(queen: Queen, name: str) -> None:
    await queen.queue(name).config({"retryDelay": 0}).create()
    await push(queen, name, ["bad"])
    [message] = await pop(queen, name, group="g")
    await (
        queen.transaction()
        .ack(message, "failed", {"consumer_group": "g"})
        .queue(f"{name}-errors")
        .push([{"data": "bad failed"}])
        .commit()
    )
    assert [m["retryCount"] for m in await pop(queen, name, group="g")] == [1]
    assert data_of(await pop(queen, f"{name}-errors")) == ["bad failed"]


async def test_many_transactions_at_once_move_each_message_once(queen: Queen, name: str) -> None:
    partitions = [f"p{n}" for n in range(8)]
    for partition in partitions:
        await push(queen, name, [f"{partition}-{n}" for n in range(5)], partition=partition)
    target = f"{name}-next"

    async def move() -> None:
        while messages := await pop(queen, name, 1):
            [message] = messages
            result = (
                queen.transaction()
                .ack(message)
                .queue(target)
                .push([{"data": message["data"], "transactionId": message["transactionId"]}])
            )
            await result.commit()

    await asyncio.gather(*(move() for _ in range(4)))
    moved = []
    while messages := await pop(queen, target, 100):
        moved += data_of(messages)
        await ack(queen, messages)
    assert sorted(moved) == sorted(f"{p}-{n}" for p in partitions for n in range(5))
