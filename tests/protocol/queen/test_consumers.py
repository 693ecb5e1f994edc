"""The client's own loops: consumers, handlers, renewal, buffers."""

from __future__ import annotations

import ast
import asyncio
import json
from base64 import b64decode
from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.queen.calls import ack, data_of, pop, push
from tests.protocol.queen.conftest import open_client

if TYPE_CHECKING:
    import httpx
    from queen import Queen

    from tests.protocol.conftest import Shared
    from tests.protocol.queen.calls import Message


async def test_consumers_share_partitions_and_acknowledge(queen: Queen, name: str) -> None:
    for partition in range(4):
        await push(queen, name, [(partition, n) for n in range(5)], partition=f"p{partition}")
    seen: list[tuple[int, int]] = []
    done = asyncio.Event()

    async def handle(messages: Any) -> None:
        seen.extend(tuple(each) for each in data_of(messages))
        if len(seen) >= 20:
            done.set()

    consuming = (
        queen.queue(name).group("g").concurrency(4).batch(3).timeout_millis(300).idle_millis(500)
    )
    async with asyncio.timeout(20):
        await consuming.consume(handle, signal=done)
    assert sorted(seen) == [(p, n) for p in range(4) for n in range(5)]
    for partition in range(4):
        assert [n for p, n in seen if p == partition] == list(range(5))
    assert await pop(queen, name, group="g") == []


async def test_handler_gets_single_messages_or_batches(queen: Queen, name: str) -> None:
    await push(queen, name, range(3))
    singles: list[Message] = []

    async def one(message: Any) -> None:
        singles.append(message)

    await queen.queue(name).batch(1).limit(3).consume(one)
    assert data_of(singles) == [0, 1, 2]
    await push(queen, name, range(3))
    batches: list[list[Message]] = []

    async def many(messages: Any) -> None:
        batches.append(messages)

    # Neither batch nor partitions are set: they are left to the server.
    await queen.queue(name).limit(3).consume(many)
    assert data_of(batches[0]) == [0, 1, 2]
    result = await queen.queue(name).wait(False).pop_result()
    assert result.messages == []


async def test_failed_handler_gets_the_message_again(queen: Queen, name: str) -> None:
    await queen.queue(name).config({"retryLimit": 1, "retryDelay": 0}).create()
    await push(queen, name, ["fine", "bad", "after"])
    seen: list[str] = []

    async def handle(message: Any) -> None:
        seen.append(message["data"])
        if message["data"] == "bad":
            raise ValueError("no")

    consuming = queen.queue(name).batch(3).each().timeout_millis(300).idle_millis(700)
    async with asyncio.timeout(20):
        await consuming.consume(handle)
    assert seen[:3] == ["fine", "bad", "bad"]
    assert seen[-1] == "after"
    dead = await queen.queue(name).dlq().get()
    assert [(letter["data"], letter["errorMessage"]) for letter in dead["messages"]] == [
        ("bad", "no")
    ]


async def test_callbacks_acknowledge_explicitly(queen: Queen, name: str) -> None:
    await push(queen, name, [1, 2])
    failed: list[Any] = []

    async def handle(message: Any) -> int:
        if message["data"] == 2:
            raise ValueError("two")
        return 7

    async def good(message: Any, result: int) -> None:
        assert result == 7
        await ack(queen, message)

    async def bad(message: Any, error: Exception) -> None:
        failed.append(str(error))
        await ack(queen, message, "dlq", error=str(error))

    await queen.queue(name).batch(1).limit(2).consume(handle).on_success(good).on_error(bad)
    assert failed == ["two"]
    assert (await queen.queue(name).dlq().get())["total"] == 1


@pytest.mark.document("docs/streams.md", "on_error(failed)")
@pytest.mark.parametrize("way", ["as documented", "one by one"])
async def test_shared_group_handles_every_message_though_one_fails(
    queen: Queen, http: httpx.AsyncClient, name: str, way: str, texts: list[str]
) -> None:
    await queen.queue(name).config({"retryLimit": 0}).create()
    await http.post(f"/consumer-groups/mailers/queues/{name}", json={"ordered": False})
    await push(queen, name, range(6))
    seen: list[Any] = []

    async def handle(message: Any) -> None:
        seen.append(message["data"])
        if message["data"] in {0, 3}:
            raise ValueError("no")

    async with asyncio.timeout(20):
        if way == "as documented":
            text = texts[0].replace('"mails"', repr(name))
            code = compile(
                text.replace(".each()", ".each().limit(6)"),
                "snippet",
                "exec",
                flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            )
            await eval(code, {"queen": queen, "send_mail": handle})  # noqa: S307 - ours
        else:
            await queen.queue(name).group("mailers").batch(1).each().limit(6).consume(handle)
    assert sorted(seen) == list(range(6))
    dead = await queen.queue(name).dlq("mailers").get()
    assert sorted(data_of(dead["messages"])) == [0, 3]
    assert (await queen.admin.get_queue_depth(name, "mailers"))["pending"] == 0


async def test_a_lease_is_renewed_while_a_handler_works(queen: Queen, name: str) -> None:
    await queen.queue(name).config({"leaseTime": 1, "retryDelay": 0}).create()
    await push(queen, name, ["slow"])
    seen = []

    async def handle(message: Any) -> None:
        seen.append(message["retryCount"])
        await asyncio.sleep(1.5)

    await queen.queue(name).batch(1).limit(1).renew_lease(True, 300).consume(handle)
    assert seen == [0]
    assert await pop(queen, name) == []


async def test_buffered_messages_arrive_in_order_and_all(queen: Queen, name: str) -> None:
    for n in range(25):
        answer = (
            await queen.queue(name)
            .buffer({"message_count": 10, "time_millis": 50})
            .push([{"data": n}])
        )
        assert answer == {"buffered": True, "count": 1}
    await queen.flush_all_buffers()
    assert queen.get_buffer_stats()["totalBufferedMessages"] == 0
    assert data_of(await pop(queen, name, 100)) == list(range(25))


async def test_pop_may_acknowledge_on_delivery(queen: Queen, name: str) -> None:
    await push(queen, name, range(3))
    taken = await queen.queue(name).batch(2).wait(False).commit_on_delivery().pop()
    assert data_of(taken) == [0, 1]
    assert {message["leaseId"] for message in taken} == {None}
    assert data_of(await pop(queen, name)) == [2]


async def test_handlers_leave_traces(queen: Queen, name: str) -> None:
    await push(queen, name, ["traced"])
    noted: list[dict[str, Any]] = []
    seen: list[Message] = []

    async def handle(message: Any) -> None:
        seen.append(message)
        noted.append(
            await message["trace"](
                {"traceName": [f"{name}-x", "shared"], "eventType": "step", "data": {"text": "hi"}}
            )
        )
        noted.append(await message["trace"]({"data": {"text": "more"}}))

    await queen.queue(name).group("g").batch(1).limit(1).consume(handle)
    assert [answer["success"] for answer in noted] == [True, True]
    [message] = seen
    traces = await queen.admin.get_traces_for_message(
        message["partitionId"], message["transactionId"]
    )
    shown = [
        (trace["data"]["text"], trace["eventType"], trace["traceNames"], trace["consumerGroup"])
        for trace in traces["traces"]
    ]
    assert shown == [("hi", "step", [f"{name}-x", "shared"], "g"), ("more", "info", [], "g")]
    by_name = await queen.admin.get_traces_by_name(f"{name}-x")
    assert (by_name["total"], by_name["traces"][0]["queueName"]) == (1, name)
    names = await queen.admin.get_trace_names(limit=1000)
    assert f"{name}-x" in {item["traceName"] for item in names["traceNames"]}


async def test_several_servers_serve_one_client(name: str, shared: Shared) -> None:
    # The same server under two names.
    async with open_client(
        [shared.server.url, shared.server.url.replace("127.0.0.1", "localhost")]
    ) as both:
        await push(both, name, range(6))
        assert data_of(await pop(both, name)) == list(range(6))


async def test_a_slow_group_does_not_slow_a_fast_one(queen: Queen, name: str) -> None:
    await push(queen, name, range(50))
    release = asyncio.Event()
    slow: list[Any] = []
    quick: list[Any] = []

    async def dawdle(messages: Any) -> None:
        slow.extend(data_of(messages))
        await release.wait()

    async def hurry(messages: Any) -> None:
        quick.extend(data_of(messages))

    async def consume_slowly() -> None:
        await queen.queue(name).group("slow").batch(10).limit(10).consume(dawdle)

    dawdling = asyncio.ensure_future(consume_slowly())
    async with asyncio.timeout(10):
        while not slow:
            await asyncio.sleep(0.01)
        await queen.queue(name).group("fast").batch(10).limit(50).consume(hurry)
    assert (quick, slow) == (list(range(50)), list(range(10)))
    release.set()
    await dawdling
    assert data_of(await pop(queen, name, 1, group="slow")) == [10]


@pytest.mark.parametrize("partition", ["with space", "ümläut", "a.b:c", "100%", "a/b"])
async def test_names_are_stored_unchanged(queen: Queen, name: str, partition: str) -> None:
    await push(queen, f"{name} {partition}", ["x"], partition=partition)
    quoted = partition.replace("%", "%25")
    queue = f"{name} {partition}".replace("%", "%25")
    found = await pop(queen, queue, partition=quoted)
    assert [message["partition"] for message in found] == [partition]


async def test_supervised_consumer_publishes_its_status(queen: Queen, name: str) -> None:
    await push(queen, name, range(2))

    async def handle(_: Any) -> None:
        pass

    supervised = queen.queue(name).supervision({"group": name}).batch(1).limit(2)
    await supervised.consume(handle)
    rows = await queen.kv.list_all("queen-supervisor", f"{name}/")
    keys = {row["key"].rpartition("/")[2]: row["value"] for row in rows}
    assert set(keys) == {"head", "0000"}
    assert keys["head"]["write"] == keys["0000"]["write"]
    status = json.loads(b64decode(keys["0000"]["data"]))
    assert (status["state"], status["pool_status"][0]["completed"]) == ("stopped", 2)
