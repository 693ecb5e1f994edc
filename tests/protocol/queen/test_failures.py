"""Failed messages: retries, dead letters and expired leases."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.queen.calls import ack, data_of, pop, push, until
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    import httpx
    from queen import Queen

    from tests.protocol.conftest import Shared


async def test_message_out_of_retries_is_dead_lettered_and_its_partition_continues(
    queen: Queen, name: str
) -> None:
    await queen.queue(name).config({"retryLimit": 2, "retryDelay": 0}).create()
    await push(queen, name, ["bad", "good"])
    for retry in range(3):
        message, *_ = await pop(queen, name, 2)
        assert (message["data"], message["retryCount"]) == ("bad", retry)
        verdict = await ack(queen, message, False, error="broken")
        assert (verdict["success"], verdict["dlq"]) == (True, retry == 2)
    # What was behind it in the batch goes back with it, unspent.
    [following] = await pop(queen, name, 2)
    assert (following["data"], following["retryCount"]) == ("good", 0)
    dead = await queen.queue(name).dlq().get()
    assert dead["total"] == 1
    [letter] = dead["messages"]
    assert (letter["data"], letter["errorMessage"], letter["retryCount"]) == ("bad", "broken", 2)
    assert letter["consumerGroup"] == "__QUEUE_MODE__"


@pytest.mark.parametrize("status", [False, "dlq"])
async def test_a_dead_letter_says_that_no_reason_was_given(
    queen: Queen, name: str, *, status: bool | str
) -> None:
    await queen.queue(name).config({"retryLimit": 0, "retryDelay": 0}).create()
    await push(queen, name, ["bad"])
    [message] = await pop(queen, name, 1)
    assert (await ack(queen, message, status))["dlq"]
    [letter] = (await queen.queue(name).dlq().get())["messages"]
    assert "without a reason" in letter["errorMessage"]


async def test_status_dlq_dead_letters_at_once(queen: Queen, name: str) -> None:
    await push(queen, name, ["a", "b"])
    messages = await pop(queen, name, 2, group="g")
    assert (await ack(queen, messages[0], "dlq", group="g", error="no use"))["dlq"]
    assert (await ack(queen, messages[1], group="g"))["success"]
    dead = await queen.queue(name).dlq("g").get()
    assert [(letter["data"], letter["errorMessage"]) for letter in dead["messages"]] == [
        ("a", "no use")
    ]
    assert (await queen.queue(name).dlq("other").get())["total"] == 0
    assert await pop(queen, name, 2, group="g") == []


async def test_dead_letters_are_retried_or_purged(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await push(queen, name, range(3))
    messages = await pop(queen, name, 3)
    for message in messages:
        await ack(queen, message, "dlq")
    one = messages[0]
    answer = await queen.admin.retry_message(one["partitionId"], one["transactionId"])
    assert answer["consumerGroups"] == ["__QUEUE_MODE__"]
    again = await pop(queen, name)
    assert [(message["data"], message["retryCount"]) for message in again] == [(0, 0)]
    await ack(queen, again)
    assert (await http.post("/dlq/retry", params={"queue": name, "limit": 1})).json()["count"] == 1
    assert data_of(await pop(queen, name)) == [1]
    assert (await http.delete("/dlq", params={"queue": name})).json()["count"] == 1
    assert (await queen.queue(name).dlq().get())["total"] == 0
    missing = await http.post(f"/messages/{one['partitionId']}/no-such-message/retry")
    assert missing.status_code == 404


async def test_completed_message_cannot_be_nacked(queen: Queen, name: str) -> None:
    await push(queen, name, range(2))
    messages = await pop(queen, name, 2)
    await ack(queen, messages[0])
    for status in (False, "retry", "dlq"):
        refused = await ack(queen, messages[0], status)
        assert not refused["success"]
        assert "already committed" in refused["error"]
    repeated = await ack(queen, messages[0])
    assert (repeated["success"], repeated["noop"]) == (True, True)


async def test_an_unknown_message_is_unresolvable(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await push(queen, name, ["here"])
    [message] = await pop(queen, name)
    for wrong in ({"transactionId": "nobody"}, {"partitionId": "999999"}, {"partitionId": "x-y"}):
        body = {"transactionId": message["transactionId"], "partitionId": message["partitionId"]}
        [verdict] = (await http.post("/ack", json={**body, **wrong})).json()
        assert not verdict["success"]
        assert "unresolv" in verdict["error"]
    assert (await ack(queen, message))["success"]


async def test_lease_of_another_consumer_settles_nothing_in_its_request(
    queen: Queen, name: str
) -> None:
    await push(queen, name, range(2), partition="a")
    await push(queen, name, range(2), partition="b")
    mine = await pop(queen, name, 2, partition="a")
    theirs = await pop(queen, name, 2, partition="b")
    # One of them under the lease of another: of that lease, nothing happens.
    answer = await queen.ack([*mine, {**theirs[0], "leaseId": mine[0]["leaseId"]}])
    assert not answer["success"]
    assert {verdict["success"] for verdict in answer["results"]} == {False}
    assert all("lease" in verdict["error"] for verdict in answer["results"])
    assert (await ack(queen, mine))["success"]
    assert (await ack(queen, theirs))["success"]


@pytest.mark.parametrize("order", [1, -1])
async def test_a_lease_that_lost_one_partition_settles_nothing_of_the_others(
    queen: Queen, name: str, http: httpx.AsyncClient, order: int
) -> None:
    for partition in "ab":
        await push(queen, name, range(2), partition=partition)
    messages = await queen.queue(name).batch(4).partitions(2).wait(False).pop()
    assert len(messages) == 4
    path = f"/consumer-groups/__QUEUE_MODE__/queues/{name}/partitions/a/seek"
    await http.post(path, json={"timestamp": "2020-01-01T00:00:00Z"})
    # Whether they come in delivery order or in another.
    answer = await queen.ack(messages[::order])
    assert {verdict["success"] for verdict in answer["results"]} == {False}
    assert all("lease" in verdict["error"] for verdict in answer["results"])
    kept = [message for message in messages if message["partition"] == "b"]
    assert (await ack(queen, kept))["success"]
    assert data_of(await pop(queen, name, 2, partition="a")) == [0, 1]


async def test_message_nacked_in_another_process_refuses_the_rest_of_its_request(
    queen: Queen, name: str, http: httpx.AsyncClient, shared: Shared
) -> None:
    await push(queen, name, range(4))
    messages = await pop(queen, name, 4)
    failed = {key: messages[2][key] for key in ("transactionId", "partitionId", "leaseId")}
    async with run_laneway(shared.dsn) as other:
        body = {**failed, "status": "failed"}
        [verdict] = (await http.post(f"{other.url}/api/v1/ack", json=body)).json()
        assert verdict["success"]
    # The nack ended the lease.
    answer = await queen.ack([*messages[:2], messages[3]])
    assert [result["success"] for result in answer["results"]] == [False] * 3
    assert all("lease" in result["error"] for result in answer["results"])
    assert not (await ack(queen, messages[:2]))["success"]


async def test_concurrent_acknowledgement_batches_are_independent(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    partitions = [f"p{n}" for n in range(6)]
    for partition in partitions:
        await push(queen, name, range(2), partition=partition)
    bundles = [await pop(queen, name, 2, partition=partition) for partition in partitions]
    for partition in partitions[::2]:
        path = f"/consumer-groups/__QUEUE_MODE__/queues/{name}/partitions/{partition}/seek"
        await http.post(path, json={"toEnd": True})
    answers = await asyncio.gather(*(queen.ack(bundle) for bundle in bundles))
    assert [answer["success"] for answer in answers[1::2]] == [True] * 3
    # Their group has passed them, at a word from elsewhere.
    assert [result["noop"] for a in answers[::2] for result in a["results"]] == [True] * 6


async def test_an_expired_lease_counts_as_an_attempt_and_acknowledges_nothing(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await queen.queue(name).config({"retryLimit": 1, "retryDelay": 0}).create()
    await push(queen, name, ["stalled", "next"])
    seen = []
    message: dict[str, Any] = {}
    for _ in range(2):

        async def take() -> Any:
            answer = await http.get(f"/pop/queue/{name}", params={"leaseSeconds": 0.05})
            return answer.json()["messages"] if answer.status_code == 200 else None

        [message] = await until(take)
        seen.append((message["data"], message["retryCount"]))
    assert seen == [("stalled", 0), ("stalled", 1)]
    [following] = await until(lambda: pop(queen, name, 1))
    assert following["data"] == "next"
    dead = await queen.queue(name).dlq().get()
    assert [letter["data"] for letter in dead["messages"]] == ["stalled"]
    late = await ack(queen, message)
    assert (late["success"], late["noop"]) == (True, True)


async def test_an_acknowledgement_under_an_expired_lease_is_refused(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await push(queen, name, [1, 2])
    parameters: dict[str, Any] = {"leaseSeconds": 0.05, "batch": 2}
    stale = (await http.get(f"/pop/queue/{name}", params=parameters)).json()["messages"]
    fresh = await until(lambda: pop(queen, name, 2))
    assert data_of(fresh) == [1, 2]
    for messages in (stale, stale[1]):
        refused = await ack(queen, messages)
        assert not refused["success"]
        assert "lease" in refused["error"]
    assert (await ack(queen, fresh))["success"]


async def test_a_failed_message_is_not_skipped_by_a_later_one_that_is_done(
    queen: Queen, name: str
) -> None:
    await queen.queue(name).config({"retryDelay": 0}).create()
    await push(queen, name, range(4))
    messages = await pop(queen, name, 4)
    marks: list[bool | None] = [True, False, True, None]
    marked = [
        {**message, "_status": mark}
        for message, mark in zip(messages, marks, strict=True)
        if mark is not None
    ]
    answer = await queen.ack(marked)
    assert answer["success"]
    assert [item["dlq"] for item in answer["results"]] == [False, False, False]
    # It and everything behind it comes again, in order, whatever was said of the later ones.
    again = await pop(queen, name, 4)
    assert [(each["data"], each["retryCount"]) for each in again] == [(1, 1), (2, 0), (3, 0)]


async def test_acknowledgement_without_a_lease_moves_no_position(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await push(queen, name, range(3))
    first = (await pop(queen, name, 1))[0]
    await ack(queen, first)
    held = (await pop(queen, name, 1))[0]

    async def say(message: dict[str, Any], status: str) -> dict[str, Any]:
        body = {"status": status}
        body |= {key: message[key] for key in ("transactionId", "partitionId")}
        verdict: dict[str, Any] = (await http.post("/ack", json=body)).json()[0]
        return verdict

    # Passed: neither back to it …
    assert "already committed" in (await say(first, "failed"))["error"]
    # … nor on: the third is not leased.
    [ahead] = [
        m for m in (await queen.admin.list_messages(queue=name))["messages"] if m["data"] == 2
    ]
    verdict = await say(ahead, "completed")
    assert not verdict["success"]
    assert "message not leased" in verdict["error"]
    # In flight: without a lease id, its current lease is used.
    assert (await say(held, "completed"))["success"]
    assert data_of(await pop(queen, name)) == [2]


async def test_retry_delay_applies_to_every_retry(queen: Queen, name: str) -> None:
    await queen.queue(name).config({"retryDelay": 60_000}).create()
    await push(queen, name, ["x"])
    await ack(queen, await pop(queen, name), False)
    assert await pop(queen, name) == []
    await queen.queue(name).config({"retryDelay": 0}).create()
    await push(queen, name, ["y"], partition="p")
    await ack(queen, await pop(queen, name, partition="p"), False)
    assert data_of(await pop(queen, name, partition="p")) == ["y"]


@pytest.mark.parametrize("status", ["done", "", None, 1])
async def test_an_unknown_status_is_refused(
    queen: Queen, name: str, http: httpx.AsyncClient, status: Any
) -> None:
    await push(queen, name, ["x"])
    [message] = await pop(queen, name)
    body = {key: message[key] for key in ("transactionId", "partitionId", "leaseId")}
    answer = await http.post("/ack", json={**body, "status": status})
    assert answer.status_code == 400
