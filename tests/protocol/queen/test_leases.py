"""Leases: over several partitions, renewed and expired."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.queen.calls import ack, data_of, pop, push, until
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    import httpx
    from queen import Queen

    from tests.protocol.conftest import Shared


async def test_lease_of_several_partitions_stays_within_its_batch(queen: Queen, name: str) -> None:
    for partition in "abcd":
        await push(queen, name, [f"{partition}{n}" for n in range(3)], partition=partition)
    messages = await queen.queue(name).batch(7).partitions(3).wait(False).pop()
    assert len(messages) <= 7
    held = {message["partition"] for message in messages}
    assert 1 < len(held) <= 3
    assert len({message["leaseId"] for message in messages}) == 1
    for partition in held:
        got = [m["data"] for m in messages if m["partition"] == partition]
        assert got == [f"{partition}{n}" for n in range(len(got))]
    # Nobody else gets what is held; all of it is settled under the one lease.
    rest = await queen.queue(name).batch(100).partitions(10).wait(False).pop()
    assert held.isdisjoint({message["partition"] for message in rest})
    assert (await queen.ack([*messages[::-1]]))["success"]
    assert (await queen.ack(rest))["success"]
    left = []
    while more := await queen.queue(name).batch(100).partitions(10).wait(False).pop():
        left += data_of(more)
        assert (await queen.ack(more))["success"]
    assert len(left) + len(messages) + len(rest) == 12


async def test_a_lease_ends_with_its_batch_though_two_messages_have_one_transaction_id(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await queen.queue(name).config({"dedupWindowSeconds": 0.1}).create()

    async def push_again(key: str, data: str) -> bool:
        item = {"queue": name, "transactionId": key, "payload": data}
        [pushed] = (await http.post("/push", json={"items": [item]})).json()
        return bool(pushed["status"] == "queued")

    assert await push_again("same", "first")
    await until(lambda: push_again("same", "again"))
    assert await push_again("other", "last")
    messages = await pop(queen, name, 3)
    assert data_of(messages) == ["first", "again", "last"]
    answer = await queen.ack(messages)
    assert [result["leaseReleased"] for result in answer["results"]] == [True] * 3
    # Nobody holds the partition any more, also where they are settled one by one.
    for data in ("next", "after that"):
        assert await push_again(data, data)
    await until(lambda: push_again("next", "end"))
    following = await pop(queen, name, 3)
    assert data_of(following) == ["next", "after that", "end"]
    for message in following:
        assert (await ack(queen, message))["success"]
    assert not (await http.post(f"/lease/{following[0]['leaseId']}/extend")).json()[0]["success"]


async def test_one_renewal_extends_every_partition_of_a_lease(queen: Queen, name: str) -> None:
    for partition in "abc":
        await push(queen, name, [partition], partition=partition)
    messages = await queen.queue(name).batch(10).partitions(3).wait(False).pop()
    assert len(messages) == 3
    answer: Any = await queen.renew(messages)
    [renewed] = answer
    assert (renewed["success"], renewed["renewed"]) == (True, 3)
    until_then = datetime.fromisoformat(renewed["newExpiresAt"])
    assert abs(until_then - datetime.now(UTC) - timedelta(seconds=60)) < timedelta(seconds=30)
    await ack(queen, messages)
    gone: Any = await queen.renew(messages[0])
    assert not gone["success"]
    assert gone["error"]


async def test_a_renewed_lease_outlives_its_first_end(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await push(queen, name, ["long"])
    [message] = (await http.get(f"/pop/queue/{name}", params={"leaseSeconds": 0.5})).json()[
        "messages"
    ]
    answer = await http.post(f"/lease/{message['leaseId']}/extend", json={"seconds": 60})
    [extended] = answer.json()
    assert (extended["success"], extended["renewed"], extended["leaseId"]) == (
        True,
        1,
        message["leaseId"],
    )
    await asyncio.sleep(0.7)
    assert await pop(queen, name) == []
    assert (await ack(queen, message))["success"]
    for wrong in ({"seconds": 0}, {"seconds": "long"}, {"seconds": -1}):
        path = f"/lease/{message['leaseId']}/extend"
        assert (await http.post(path, json=wrong)).status_code == 400
    [unknown] = (await http.post("/lease/nonsense/extend")).json()
    assert not unknown["success"]


async def test_expired_lease_frees_its_partition(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await queen.queue(name).config({"retryDelay": 0}).create()
    await push(queen, name, range(3))
    parameters: dict[str, Any] = {"leaseSeconds": 0.1, "batch": 2}
    stalled = (await http.get(f"/pop/queue/{name}", params=parameters)).json()["messages"]
    # Who waits gets it as soon as it is free, in order.
    async with asyncio.timeout(5):
        found = await pop(queen, name, 3, wait=True)
    assert data_of(found) == [0, 1, 2]
    assert [message["retryCount"] for message in found] == [1, 1, 0]
    assert not (await ack(queen, stalled))["success"]


@pytest.mark.parametrize("ordered", [True, False])
async def test_expired_lease_does_not_wait_for_the_retry_delay(
    queen: Queen, name: str, http: httpx.AsyncClient, *, ordered: bool
) -> None:
    await queen.queue(name).config({"retryDelay": 3_600_000}).create()
    await http.post(f"/consumer-groups/g/queues/{name}", json={"ordered": ordered})
    await push(queen, name, range(2))
    parameters: dict[str, Any] = {"leaseSeconds": 0.1, "batch": 2, "consumerGroup": "g"}
    await http.get(f"/pop/queue/{name}", params=parameters)
    async with asyncio.timeout(20):
        found = await pop(queen, name, 2, group="g", wait=True)
    assert [message["retryCount"] for message in found] == [1] * len(found)


async def test_lease_is_valid_in_another_process(
    queen: Queen, name: str, shared: Shared, http: httpx.AsyncClient
) -> None:
    for partition in "ab":
        await push(queen, name, [1, 2], partition=partition)
    messages = await queen.queue(name).batch(10).partitions(2).wait(False).pop()
    assert len(messages) == 4
    async with run_laneway(shared.dsn) as other:
        url = f"{other.url}/api/v1"
        answer = await http.post(f"{url}/lease/{messages[0]['leaseId']}/extend", json={})
        assert answer.json()[0]["renewed"] == 2
        keys = ("transactionId", "partitionId", "leaseId")
        acks = [{key: message[key] for key in keys} for message in messages]
        answer = await http.post(f"{url}/ack/batch", json={"acknowledgments": acks})
        assert [verdict["success"] for verdict in answer.json()] == [True] * 4
        # A long poll here wakes for what is pushed there.
        waiting = asyncio.ensure_future(pop(queen, name, wait=True))
        await asyncio.sleep(0.1)
        item = {"queue": name, "partition": "c", "payload": "from there"}
        await http.post(f"{url}/push", json={"items": [item]})
        async with asyncio.timeout(5):
            assert data_of(await waiting) == ["from there"]


async def test_message_of_a_disconnected_client_is_released(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await queen.queue(name).create()
    waiting = asyncio.ensure_future(
        http.get(f"/pop/queue/{name}", params={"wait": "true", "timeout": 20_000})
    )
    await asyncio.sleep(0.1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await push(queen, name, ["kept"])
    [message] = await until(lambda: pop(queen, name))
    assert (message["data"], message["retryCount"]) == ("kept", 0)


async def test_waiting_pops_cause_no_database_calls(
    queen: Queen, name: str, shared: Shared, http: httpx.AsyncClient
) -> None:
    await queen.queue(name).create()

    async def count_claims() -> float:
        text = (await http.get(f"{shared.server.url}/metrics")).text
        [line] = [line for line in text.splitlines() if 'calls_total{kind="claim"}' in line]
        return float(line.split()[-1])

    before = await count_claims()
    parameters: dict[str, Any] = {"wait": "true", "timeout": 600}
    polls = [http.get(f"/pop/queue/{name}", params=parameters) for _ in range(20)]
    assert {answer.status_code for answer in await asyncio.gather(*polls)} == {204}
    # They came in a few calls, and then waited; once a second somebody looks for all of them.
    assert await count_claims() - before <= 2 * len(polls)
