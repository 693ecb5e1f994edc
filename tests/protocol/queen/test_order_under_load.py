"""Order and exactly-once settlement under concurrent load."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg
import httpx

from tests.protocol.queen.calls import ack, data_of, pop, push
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from queen import Queen

    from tests.protocol.conftest import Shared

PARTITIONS = 5
MESSAGES = 40
CONSUMERS = 8


class Hold(NamedTuple):
    """A consumer's own record: from when to when it took itself to hold a partition."""

    partition: str
    began: float
    ended: float


async def test_order_is_kept_for_competing_consumers_that_fail_and_crash(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await queen.queue(name).config({"retryLimit": 1000, "retryDelay": 0}).create()
    for partition in range(PARTITIONS):
        await push(queen, name, range(MESSAGES), partition=f"p{partition}")
    chance = random.Random(4)  # noqa: S311 - to fail now and then
    loop = asyncio.get_running_loop()
    done: dict[str, list[int]] = {f"p{n}": [] for n in range(PARTITIONS)}
    holds: list[Hold] = []

    def finished() -> bool:
        return sum(map(len, done.values())) == PARTITIONS * MESSAGES

    async def consume() -> None:
        while not finished():
            parameters: dict[str, Any] = {"batch": 5, "leaseSeconds": 5, "wait": "true"}
            parameters |= {"timeout": 200, "consumerGroup": "g"}
            fate = chance.random()
            if fate < 0.1:
                # This one will crash: its lease is short, so that the test is, too.
                parameters["leaseSeconds"] = 0.2
            answer = await http.get(f"/pop/queue/{name}", params=parameters)
            began = loop.time()
            if answer.status_code == 204:
                continue
            messages = answer.json()["messages"]
            partition = messages[0]["partition"]
            assert data_of(messages) == sorted(data_of(messages))
            await asyncio.sleep(chance.random() * 0.01)
            if fate < 0.1:
                holds.append(Hold(partition, began, loop.time()))
                continue
            # Up to the one that fails, if one does.
            good = messages if fate < 0.7 else messages[: chance.randrange(len(messages))]
            # Written down before it is said: nobody may be given it after that.
            taken = done[partition]
            assert data_of(good) == list(range(len(taken), len(taken) + len(good)))
            taken += data_of(good)
            acks = [_ack(message, "completed") for message in good]
            if len(good) < len(messages):
                acks.append(_ack(messages[len(good)], "failed"))
            holds.append(Hold(partition, began, loop.time()))
            body = {"acknowledgments": acks, "consumerGroup": "g"}
            verdicts = (await http.post("/ack/batch", json=body)).json()
            assert all(verdict["success"] for verdict in verdicts)

    async with asyncio.timeout(60):
        await asyncio.gather(*(consume() for _ in range(CONSUMERS)))
    assert done == {partition: list(range(MESSAGES)) for partition in done}
    for held_partition in done:
        held = sorted((h.began, h.ended) for h in holds if h.partition == held_partition)
        assert all(ended <= began for (_, ended), (began, _) in pairwise(held))


async def test_a_push_that_began_earlier_and_commits_later_is_not_lost(
    queen: Queen, name: str, shared: Shared
) -> None:
    await push(queen, name, ["first"])
    await ack(queen, await pop(queen, name))
    connection = await asyncpg.connect(shared.dsn)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(
        "select laneway.push_many(array(select queue_id from laneway.queue where name = $1), "
        "array['\"early\"'::json], array['Default'])",
        name,
    )
    later = asyncio.ensure_future(push(queen, name, ["late"]))
    await asyncio.sleep(0.1)
    assert await pop(queen, name) == []
    await transaction.commit()
    await connection.close()
    await later
    assert data_of(await pop(queen, name)) == ["early", "late"]


async def test_one_transaction_id_pushed_by_many_at_once_is_one_message(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    keys = [f"key-{n}" for n in range(5)]

    async def repeat(seed: int) -> list[str]:
        items = [{"queue": name, "payload": key, "transactionId": key} for key in keys]
        random.Random(seed).shuffle(items)  # noqa: S311 - in another order each
        answer = await http.post("/push", json={"items": items})
        assert answer.status_code == 201, answer.text
        return [result["status"] for result in answer.json()]

    answers = await asyncio.gather(*(repeat(seed) for seed in range(10)))
    assert Counter(status for answer in answers for status in answer) == {
        "queued": 5,
        "duplicate": 45,
    }
    assert sorted(data_of(await pop(queen, name, 100))) == keys


async def test_a_transaction_of_a_server_that_is_killed_is_whole_or_absent(
    queen: Queen, name: str, shared: Shared
) -> None:
    source, target = name, f"{name}-next"
    await (
        queen.queue(source).config({"leaseTime": 0.3, "retryDelay": 0, "retryLimit": 1000}).create()
    )
    await push(queen, source, range(60))
    chance = random.Random(7)  # noqa: S311 - to be killed at any moment

    async def move(url: str) -> None:
        """Move messages one by one for as long as the server lives."""
        async with httpx.AsyncClient(base_url=f"{url}/api/v1", timeout=10) as client:
            while True:
                answer = await client.get(f"/pop/queue/{source}", params={"batch": 1})
                if answer.status_code == 204:
                    await asyncio.sleep(0.02)
                    continue
                [message] = answer.json()["messages"]
                item = {"queue": target, "payload": message["data"]}
                operations = [
                    {"type": "push", "items": [item]},
                    {"type": "ack", **_ack(message, "completed")},
                ]
                body = {"operations": operations, "requiredLeases": [message["leaseId"]]}
                await client.post("/transaction", json=body)

    for _ in range(3):
        async with run_laneway(shared.dsn) as doomed:
            moving = asyncio.ensure_future(move(doomed.url))
            await asyncio.sleep(0.05 + chance.random() * 0.2)
            doomed.process.send_signal(signal.SIGKILL)
            await asyncio.wait([moving], timeout=10)
            moving.cancel()
            await asyncio.gather(moving, return_exceptions=True)
    # Another takes up what is left.
    moved: list[int] = []
    async with asyncio.timeout(30):
        moving = asyncio.ensure_future(move(shared.server.url))
        while len(moved) < 60:
            messages = await pop(queen, target, 100, wait=True)
            moved += data_of(messages)
            await ack(queen, messages)
        moving.cancel()
        await asyncio.gather(moving, return_exceptions=True)
    # Each once, in order: no move was half done.
    assert moved == list(range(60))


def _ack(message: dict[str, Any], status: str) -> dict[str, Any]:
    keys = ("transactionId", "partitionId", "leaseId")
    return {"status": status, **{key: message[key] for key in keys}}
