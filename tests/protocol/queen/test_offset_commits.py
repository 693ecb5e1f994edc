"""Acks over streams commit offsets: an ack of a message also acks those before it in its lease."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import pytest_asyncio

from tests.protocol.queen.calls import ack, data_of, pop, push
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queen import Queen

    from tests.protocol.conftest import Shared
    from tests.protocol.queen.calls import Message

_KEYS = ("transactionId", "partitionId", "leaseId")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def another(shared: Shared) -> AsyncIterator[str]:
    """Yield the address of a second process on the same database."""
    async with run_laneway(shared.dsn) as running:
        yield f"{running.url}/api/v1"


@pytest_asyncio.fixture(params=["here", "elsewhere"], loop_scope="session")
async def settler(
    request: pytest.FixtureRequest, shared: Shared, another: str
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of the process that answered the pop, and one of another."""
    url = f"{shared.server.url}/api/v1" if request.param == "here" else another
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        yield client


async def say(http: httpx.AsyncClient, *words: tuple[Message, str]) -> list[dict[str, Any]]:
    """Settle messages in one request; return its verdicts."""
    acks = [{**{key: message[key] for key in _KEYS}, "status": status} for message, status in words]
    answer = await http.post("/ack/batch", json={"acknowledgments": acks})
    assert answer.status_code == 200, answer.text
    verdicts: list[dict[str, Any]] = answer.json()
    return verdicts


async def describe(queen: Queen, name: str, n: int = 10, **more: Any) -> list[tuple[Any, int]]:
    return [(each["data"], each["retryCount"]) for each in await pop(queen, name, n, **more)]


async def test_ack_of_the_last_message_acks_the_batch(
    queen: Queen, settler: httpx.AsyncClient, name: str
) -> None:
    await push(queen, name, range(5))
    messages = await pop(queen, name, 5)
    [verdict] = await say(settler, (messages[4], "completed"))
    assert (verdict["success"], verdict["leaseReleased"]) == (True, True)
    assert "noop" not in verdict
    assert await pop(queen, name) == []


async def test_ack_of_a_middle_message_acks_those_before_it(
    queen: Queen, settler: httpx.AsyncClient, name: str
) -> None:
    await push(queen, name, range(5))
    messages = await pop(queen, name, 5)
    [verdict] = await say(settler, (messages[2], "completed"))
    assert (verdict["success"], verdict["leaseReleased"]) == (True, False)
    late = await say(settler, (messages[0], "completed"))
    assert [(each["success"], each["noop"]) for each in late] == [(True, True)]
    for status in ("failed", "retry", "dlq"):
        [refused] = await say(settler, (messages[1], status))
        assert not refused["success"]
        assert "already committed" in refused["error"]
    rest = await say(settler, (messages[3], "completed"), (messages[4], "completed"))
    assert [each["success"] for each in rest] == [True, True]
    assert not any("noop" in each for each in rest)
    assert {each["leaseReleased"] for each in rest} == {True}


@pytest.mark.parametrize(("status", "retries"), [("failed", 1), ("retry", 0)])
async def test_failed_message_and_all_behind_it_are_delivered_again(
    queen: Queen, settler: httpx.AsyncClient, name: str, status: str, retries: int
) -> None:
    await queen.queue(name).config({"retryDelay": 0}).create()
    await push(queen, name, range(6))
    messages = await pop(queen, name, 4)
    statuses = ("completed", status, "completed", "dlq")
    # Whatever order the request names them in.
    words = list(zip(messages, statuses, strict=True))[::-1]
    assert all(verdict["success"] for verdict in await say(settler, *words))
    again = await pop(queen, name)
    assert [(each["data"], each["retryCount"]) for each in again] == [
        (1, retries),
        (2, 0),
        (3, 0),
        (4, 0),
        (5, 0),
    ]
    assert (await queen.queue(name).dlq().get())["total"] == 0
    assert (await ack(queen, again[-1]))["success"]
    assert await pop(queen, name) == []


async def test_nack_ends_the_lease_of_its_partition_only(
    queen: Queen, settler: httpx.AsyncClient, name: str
) -> None:
    await queen.queue(name).config({"retryDelay": 0}).create()
    for partition in "ab":
        await push(queen, name, [f"{partition}{n}" for n in range(3)], partition=partition)
    popped = await queen.queue(name).batch(6).partitions(2).wait(False).pop()
    messages = {message["data"]: message for message in popped}
    assert len(messages) == 6
    [verdict] = await say(settler, (messages["a1"], "failed"))
    assert (verdict["success"], verdict["leaseReleased"]) == (True, True)
    # What nobody named is delivered again, without an attempt.
    assert await describe(queen, name, partition="a") == [("a0", 0), ("a1", 1), ("a2", 0)]
    [late] = await say(settler, (messages["a0"], "completed"))
    assert "lease" in late["error"]
    [verdict] = await say(settler, (messages["b2"], "completed"))
    assert (verdict["success"], verdict["leaseReleased"]) == (True, True)
    assert await pop(queen, name, partition="b") == []


async def test_failed_message_waits_for_the_delay_and_retried_one_does_not(
    queen: Queen, http: httpx.AsyncClient, name: str
) -> None:
    await queen.queue(name).config({"retryDelay": 60_000}).create()
    await push(queen, name, range(2))
    messages = await pop(queen, name, 2)
    await say(http, (messages[0], "retry"))
    messages = await pop(queen, name, 2)
    assert [message["retryCount"] for message in messages] == [0, 0]
    await say(http, (messages[1], "failed"))
    assert await pop(queen, name) == []


async def test_retry_never_uses_up_the_retries(
    queen: Queen, http: httpx.AsyncClient, name: str
) -> None:
    await queen.queue(name).config({"retryLimit": 1, "retryDelay": 0}).create()
    await push(queen, name, ["again"])
    for _ in range(4):
        [message] = await pop(queen, name)
        assert message["retryCount"] == 0
        await say(http, (message, "retry"))
    assert (await queen.queue(name).dlq().get())["total"] == 0


async def test_message_out_of_retries_is_dead_and_the_partition_continues(
    queen: Queen, settler: httpx.AsyncClient, name: str
) -> None:
    await queen.queue(name).config({"retryLimit": 1, "retryDelay": 0}).create()
    await push(queen, name, range(4))
    for dead in (False, True):
        messages = await pop(queen, name, 4)
        words = [
            (message, "failed" if message["data"] == 1 else "completed") for message in messages
        ]
        verdicts = await say(settler, *words)
        assert [each["dlq"] for each in verdicts if each["dlq"] or dead] == (
            [True, False, False] if dead else []
        )
    assert await describe(queen, name) == [(2, 0), (3, 0)]
    letters = (await queen.queue(name).dlq().get())["messages"]
    assert [letter["data"] for letter in letters] == [1]


async def test_dead_letter_moves_the_place_on_and_keeps_the_lease(
    queen: Queen, settler: httpx.AsyncClient, name: str
) -> None:
    await push(queen, name, range(4))
    messages = await pop(queen, name, 4)
    [verdict] = await say(settler, (messages[1], "dlq"))
    assert (verdict["success"], verdict["dlq"], verdict["leaseReleased"]) == (True, True, False)
    [late] = await say(settler, (messages[0], "completed"))
    assert late["noop"]
    [verdict] = await say(settler, (messages[3], "completed"))
    assert (verdict["success"], verdict["leaseReleased"]) == (True, True)
    letters = (await queen.queue(name).dlq().get())["messages"]
    assert [letter["data"] for letter in letters] == [1]


async def test_transaction_commits_offsets_or_nothing(
    queen: Queen, http: httpx.AsyncClient, name: str
) -> None:
    await push(queen, name, range(5))
    messages = await pop(queen, name, 5)
    done = await queen.transaction().ack(messages[2]).commit()
    assert done["success"]
    refused = await http.post(
        "/transaction",
        json={
            "operations": [
                {"type": "ack", **{key: messages[4][key] for key in _KEYS}},
                {
                    "type": "ack",
                    **{key: messages[0][key] for key in _KEYS},
                    "status": "failed",
                },
            ]
        },
    )
    assert refused.status_code == 409
    assert "committed" in refused.json()["error"]
    assert "rolled back" in refused.json()["error"]
    operations = (
        {"type": "ack", **{key: message[key] for key in _KEYS}, "status": status}
        for message, status in ((messages[3], "failed"), (messages[4], "completed"))
    )
    answer = await http.post("/transaction", json={"operations": list(operations)})
    assert answer.json()["success"], answer.text
    await queen.queue(name).config({"retryDelay": 0}).create()
    messages = await pop(queen, name, wait=True)
    assert [(each["data"], each["retryCount"]) for each in messages] == [(3, 1), (4, 0)]


async def test_implied_acks_are_in_the_history_and_the_counts(
    queen: Queen, http: httpx.AsyncClient, shared: Shared, name: str
) -> None:
    await push(queen, name, range(10))
    messages = await pop(queen, name, 10)

    async def count_acked() -> int:
        text = (await http.get(f"{shared.server.url}/metrics")).text
        [line] = [line for line in text.splitlines() if '{event="acked"}' in line]
        return int(float(line.split()[-1]))

    before = await count_acked()
    await say(http, (messages[6], "completed"))
    await say(http, (messages[7], "completed"), (messages[9], "failed"))
    assert await count_acked() - before == 8
    shown = (await http.get(f"/resources/queues/{name}")).json()["messages"]
    assert (shown["completed"], shown["pending"] + shown["processing"]) == (8, 2)
    status = await http.get(
        f"/messages/{messages[3]['partitionId']}/{messages[3]['transactionId']}"
    )
    assert status.json()["status"] == "completed"
    assert status.json()["completedAt"] is not None


@pytest.mark.parametrize("way", ["configured", "shared"])
async def test_individual_acks_settle_one_message_each(
    queen: Queen, settler: httpx.AsyncClient, name: str, way: str
) -> None:
    options = {"retryDelay": 0, **({"ackMode": "individual"} if way == "configured" else {})}
    await queen.queue(name).config(options).create()
    if way == "shared":
        path = f"/consumer-groups/pool/queues/{name}"
        await settler.post(path, json={"ordered": False})
    group = "pool" if way == "shared" else None
    await push(queen, name, range(4))
    messages = await pop(queen, name, 4, group=group)
    given = {"consumerGroup": group} if group else {}
    for message, status in ((messages[3], "completed"), (messages[1], "failed")):
        body = {**{key: message[key] for key in _KEYS}, "status": status, **given}
        [verdict] = (await settler.post("/ack", json=body)).json()
        assert verdict["success"], verdict
    body = {**{key: messages[0][key] for key in _KEYS}, **given}
    [verdict] = (await settler.post("/ack", json=body)).json()
    assert verdict["success"], verdict
    left = await describe(queen, name, group=group)
    assert left == ([(1, 1), (2, 0)] if way == "configured" else [(1, 1)])


async def test_ack_mode_is_an_option_of_the_queue(
    queen: Queen, http: httpx.AsyncClient, name: str
) -> None:
    async def configure(**options: Any) -> Any:
        answer = await http.post("/configure", json={"queue": name, "options": options})
        return answer.json()["options"]["ackMode"] if answer.status_code == 201 else answer.json()

    assert await configure() == "commit"
    assert await configure(ackMode="individual") == "individual"
    assert await configure(leaseTime=60) == "individual"
    assert "ackMode" in str(await configure(ackMode="all"))
    await push(queen, name, range(2))
    messages = await pop(queen, name, 2)
    assert (await ack(queen, messages[1]))["success"]
    assert await configure(ackMode="commit") == "commit"
    await push(queen, name, range(2), partition="b")
    others = await pop(queen, name, 2, partition="b")
    assert (await ack(queen, others[1]))["success"]
    assert await pop(queen, name, partition="b") == []


async def test_concurrent_acks_of_one_lease_lose_nothing(
    queen: Queen, http: httpx.AsyncClient, name: str
) -> None:
    await push(queen, name, range(100))
    messages = await pop(queen, name, 100)
    verdicts = await asyncio.gather(
        *(say(http, (message, "completed")) for message in messages[::-1] + messages[::7])
    )
    assert all(verdict["success"] for [verdict] in verdicts)
    assert await pop(queen, name) == []
    assert not (await queen.ack({**messages[0]}, False))["success"]


async def test_consumer_commits_by_its_last_message(queen: Queen, name: str) -> None:
    await queen.queue(name).config({"leaseTime": 5, "retryDelay": 0}).create()
    await push(queen, name, range(20))
    seen: list[Any] = []

    async def handle(messages: Any) -> None:
        seen.extend(data_of(messages))
        await ack(queen, messages[-1], group="g")

    consuming = queen.queue(name).group("g").batch(5).limit(20).auto_ack(False)
    async with asyncio.timeout(20):
        await consuming.consume(handle)
    assert seen == list(range(20))
    assert await pop(queen, name, group="g") == []
