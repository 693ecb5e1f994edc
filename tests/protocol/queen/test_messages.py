"""Push, pop and acknowledge with the client from PyPI."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.queen.calls import ack, pop, push

if TYPE_CHECKING:
    import httpx
    from queen import Queen


async def test_pushed_messages_are_popped_in_order_and_acknowledged(
    queen: Queen, name: str
) -> None:
    payloads: list[Any] = [{"n": 1}, {"text": "ü\u0000"}, [1, 2], None, "plain", 3.5]
    pushed = await queen.queue(name).push([{"data": payload} for payload in payloads])
    assert [item["status"] for item in pushed] == ["queued"] * len(payloads)

    messages = await queen.queue(name).batch(10).wait(False).pop()
    assert [message["data"] for message in messages] == payloads
    assert [message["id"] for message in messages] == [item["message_id"] for item in pushed]
    assert {message["partition"] for message in messages} == {"Default"}
    assert (await queen.ack(messages))["success"]
    assert await queen.queue(name).batch(10).wait(False).pop() == []


async def test_partitions_appear_when_they_are_first_pushed_to(queen: Queen, name: str) -> None:
    for partition in ("a", "b"):
        await queen.queue(name).partition(partition).push([{"data": partition}])
    of_b = await queen.queue(name).partition("b").batch(10).wait(False).pop()
    assert [message["data"] for message in of_b] == ["b"]
    of_any = await queen.queue(name).batch(10).wait(False).pop()
    assert [message["partition"] for message in of_any] == ["a"]


async def test_lease_blocks_its_partition_until_every_message_is_acknowledged(
    queen: Queen, name: str
) -> None:
    await queen.queue(name).push([{"data": n} for n in range(4)])
    first, second = await queen.queue(name).batch(2).wait(False).pop()
    assert await queen.queue(name).batch(2).wait(False).pop() == []
    assert not (await queen.ack(first))["leaseReleased"]
    assert await queen.queue(name).batch(2).wait(False).pop() == []
    assert (await queen.ack(second))["leaseReleased"]
    rest = await queen.queue(name).batch(2).wait(False).pop()
    assert [message["data"] for message in rest] == [2, 3]


async def test_failed_message_is_redelivered_with_those_behind_it(queen: Queen, name: str) -> None:
    await queen.queue(name).config({"retryDelay": 0}).create()
    await queen.queue(name).push([{"data": n} for n in range(3)])
    messages = await queen.queue(name).batch(3).wait(False).pop()
    assert (await queen.ack(messages[0]))["success"]
    assert (await queen.ack(messages[1], False, {"error": "no"}))["success"]
    again = await queen.queue(name).batch(3).wait(False).pop()
    assert [message["data"] for message in again] == [1, 2]
    assert [message["retryCount"] for message in again] == [1, 0]


async def test_a_long_poll_wakes_when_something_is_pushed(queen: Queen, name: str) -> None:
    waiting = asyncio.ensure_future(queen.queue(name).batch(1).wait(True).pop())
    # The queue is not there yet either: the wait is for both.
    await asyncio.sleep(0.1)
    await queen.queue(name).push([{"data": "hello"}])
    async with asyncio.timeout(5):
        assert [message["data"] for message in await waiting] == ["hello"]


async def test_a_pop_of_nothing_answers_no_content(http: httpx.AsyncClient, name: str) -> None:
    answer = await http.get(f"/pop/queue/{name}")
    assert (answer.status_code, answer.content) == (204, b"")
    answer = await http.get(f"/pop/queue/{name}", params={"wait": "true", "timeout": 50})
    assert answer.status_code == 204


async def test_wrong_types_are_refused_and_nothing_happens(
    http: httpx.AsyncClient, name: str
) -> None:
    bodies: list[dict[str, Any]] = [
        {"items": [{"queue": name, "payload": 1}, {"queue": 7, "payload": 1}]},
        {"items": [{"queue": name}]},
        {"items": [{"queue": name, "payload": 1, "traceId": "no uuid"}]},
        {"items": name},
    ]
    for body in bodies:
        answer = await http.post("/push", json=body)
        assert answer.status_code == 400, body
        assert answer.json()["error"]
    assert (await http.get(f"/pop/queue/{name}")).status_code == 204


async def test_push_of_nothing_answers_nothing(
    queen: Queen, http: httpx.AsyncClient, name: str
) -> None:
    assert await queen.queue(name).push([]) == []
    answer = await http.post("/push", json={"items": []})
    assert (answer.status_code, answer.json()) == (201, [])
    assert (await http.get(f"/resources/queues/{name}")).status_code == 404


async def test_message_names_the_groups_that_consumed_it(queen: Queen, name: str) -> None:
    async def show() -> dict[str, tuple[bool, str, bool]]:
        detail = await queen.admin.get_message(message["partitionId"], message["transactionId"])
        return {
            group["name"]: (
                group["consumed"],
                group["status"],
                group["leaseExpiresAt"] is not None,
            )
            for group in detail["consumerGroups"]
        }

    await push(queen, name, ["x"])
    [message] = await queen.queue(name).batch(1).wait(False).commit_on_delivery().pop()
    assert await show() == {"__QUEUE_MODE__": (True, "completed", False)}
    [popped] = await pop(queen, name, group="g")
    assert (await show())["g"] == (False, "processing", True)
    await ack(queen, popped, "dlq", group="g")
    assert await show() == {
        "__QUEUE_MODE__": (True, "completed", False),
        "g": (True, "dead_letter", False),
    }


@pytest.mark.parametrize("own", [True, False])
async def test_transaction_id_defaults_to_the_message_id(
    http: httpx.AsyncClient, name: str, *, own: bool
) -> None:
    item: dict[str, Any] = {"queue": name, "payload": {"n": 1}}
    if own:
        item["transactionId"] = 'order "7"/ü'
    pushed = (await http.post("/push", json={"items": [item]})).json()[0]
    popped = (await http.get(f"/pop/queue/{name}")).json()
    message = popped["messages"][0]
    assert message["transactionId"] == pushed["transaction_id"]
    assert message["transactionId"] == (item["transactionId"] if own else pushed["message_id"])
    ack = {
        "transactionId": message["transactionId"],
        "partitionId": message["partitionId"],
        "leaseId": popped["leaseId"],
    }
    for noop in (False, True):
        [verdict] = (await http.post("/ack", json=ack)).json()
        assert (verdict["success"], verdict.get("noop", False)) == (True, noop)
        assert (verdict["queueName"], verdict["partitionName"]) == (name, "Default")
