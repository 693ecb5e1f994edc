"""Consumer groups: start, position, lag and seek."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.protocol.queen.calls import ack, data_of, pop, push

if TYPE_CHECKING:
    import httpx
    from queen import Queen


async def test_each_group_reads_every_message_at_its_own_position(queen: Queen, name: str) -> None:
    await push(queen, name, range(4))
    quick = await pop(queen, name, 4, group="quick")
    slow = await pop(queen, name, 1, group="slow")
    assert (data_of(quick), data_of(slow)) == ([0, 1, 2, 3], [0])
    assert (await ack(queen, quick, group="quick"))["success"]
    assert await pop(queen, name, 4, group="slow") == []
    assert (await ack(queen, slow, group="slow"))["success"]
    assert data_of(await pop(queen, name, 9, group="slow")) == [1, 2, 3]
    assert data_of(await pop(queen, name, 9)) == [0, 1, 2, 3]


async def test_a_group_named_default_is_one_like_any_other(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await push(queen, name, [1, 2])
    own = await pop(queen, name, 1)
    messages = await pop(queen, name, 2, group="default")
    assert (data_of(own), data_of(messages)) == ([1], [1, 2])
    assert {message["consumerGroup"] for message in messages} == {"default"}
    shown = (await http.get("/consumer-groups/default")).json()
    assert [queue["processing"] for queue in shown["queues"] if queue["queueName"] == name] == [2]
    listed = (await http.get(f"/resources/queues/{name}")).json()["consumerGroups"]
    assert sorted(listed) == ["__QUEUE_MODE__", "default"]
    assert (await ack(queen, messages[0], group="default"))["success"]
    assert (await ack(queen, messages[1], "dlq", group="default"))["dlq"]
    assert (await queen.queue(name).dlq("default").get())["total"] == 1
    gone = await http.delete(f"/consumer-groups/default/queues/{name}")
    assert gone.json() == {"success": True, "consumerGroup": "default", "queues": [name]}
    assert (await ack(queen, own))["success"]


async def test_encoded_slashes_in_names_are_kept(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    queue, group, partition = f"{name}/partition/p", f"{name}/100%", "a/seek"
    await push(queen, queue, ["x"], partition=partition)
    path = "/".join(quote(part, safe="") for part in ("pop", "queue", queue))
    place = f"/consumer-groups/{quote(group, safe='')}/queues/{quote(queue, safe='')}"
    for where in (path, f"{path}/partition/{quote(partition, safe='')}"):
        [message] = (await http.get(where, params={"consumerGroup": group})).json()["messages"]
        assert (message["queue"], message["consumerGroup"]) == (queue, group)
        earlier = {"timestamp": "2020-01-01"}
        for seek in ("/seek", f"/partitions/{quote(partition, safe='')}/seek"):
            answer = await http.post(f"{place}{seek}", json=earlier)
            assert (answer.status_code, answer.json()["partitions"]) == (200, 1)
    shown = (await http.get(f"/consumer-groups/{quote(group, safe='')}")).json()
    assert (shown["name"], [item["queueName"] for item in shown["queues"]]) == (group, [queue])
    assert (await http.delete(place)).json()["queues"] == [queue]


async def test_names_may_contain_line_feeds(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    queue, partition = f"{name}\n", "a\nb"
    await push(queen, queue, ["x"], partition=partition)
    shown = quote(queue, safe="")
    path = f"/pop/queue/{shown}/partition/{quote(partition, safe='')}"
    [message] = (await http.get(path)).json()["messages"]
    assert (message["queue"], message["partition"]) == (queue, partition)
    assert (await http.get(f"/status/queues/{shown}")).json()["queue"]["name"] == queue
    assert (await http.delete(f"/resources/queues/{shown}")).json()["existed"]


@pytest.mark.parametrize("mode", ["new", "new-only", "new_only"])
async def test_group_may_start_with_new_messages(queen: Queen, name: str, mode: str) -> None:
    await push(queen, name, ["old"])
    assert await pop(queen, name, group="late", mode=mode) == []
    await push(queen, name, ["new"])
    await push(queen, name, ["first"], partition="another")
    found = await pop(queen, name, group="late") + await pop(queen, name, group="late")
    assert sorted(data_of(found)) == ["first", "new"]


@pytest.mark.parametrize("mode", ["all", "from_beginning"])
async def test_group_may_start_with_the_earliest_message(
    queen: Queen, name: str, mode: str
) -> None:
    await push(queen, name, ["old"])
    assert data_of(await pop(queen, name, group="late", mode=mode)) == ["old"]


@pytest.mark.parametrize("field", ["subscriptionMode", "subscriptionFrom"])
async def test_group_may_start_at_a_time_given_as_mode(
    queen: Queen, http: httpx.AsyncClient, name: str, field: str
) -> None:
    await push(queen, name, ["before"])
    moment = datetime.now(UTC).isoformat()
    await push(queen, name, ["after"])
    created = {"ordered": False, field: moment}
    answer = await http.post(f"/consumer-groups/created/queues/{name}", json=created)
    assert answer.status_code == 201
    assert data_of(await pop(queen, name, group="created")) == ["after"]
    parameters = {"consumerGroup": "popped", field: moment}
    found = (await http.get(f"/pop/queue/{name}", params=parameters)).json()["messages"]
    assert data_of(found) == ["after"]


@pytest.mark.parametrize("mode", ["newest", "2024-99-99"])
async def test_an_unknown_start_is_refused(
    queen: Queen, http: httpx.AsyncClient, name: str, mode: str
) -> None:
    await push(queen, name, ["x"])
    group = f"{name}-g"
    parameters = {"consumerGroup": group, "subscriptionMode": mode}
    answer = await http.get(f"/pop/queue/{name}", params=parameters)
    assert answer.status_code == 400
    assert "subscriptionMode" in answer.json()["error"]
    answer = await http.post(
        f"/consumer-groups/{group}/queues/{name}", json={"subscriptionMode": mode}
    )
    assert answer.status_code == 400
    assert (await http.get(f"/consumer-groups/{group}")).status_code == 404


async def test_group_of_new_messages_may_wait_for_a_queue_created_later(
    queen: Queen, name: str
) -> None:
    waiting = asyncio.ensure_future(pop(queen, name, group="early", mode="new", wait=True))
    await asyncio.sleep(0.1)
    await push(queen, name, ["hello"])
    assert data_of(await waiting) == ["hello"]


async def test_group_may_start_at_a_time_and_keeps_it(queen: Queen, name: str) -> None:
    await push(queen, name, ["before"])
    moment = datetime.now(UTC).isoformat()
    await push(queen, name, ["after"])
    found = await pop(queen, name, group="since", since=moment)
    assert data_of(found) == ["after"]
    await ack(queen, found, group="since")
    # Said again, it changes nothing: the group is where it is.
    assert await pop(queen, name, group="since", mode="all") == []


async def test_group_is_repositioned(queen: Queen, name: str, http: httpx.AsyncClient) -> None:
    await push(queen, name, [1], partition="a")
    await push(queen, name, [1], partition="b")
    moment = datetime.now(UTC).isoformat()
    await push(queen, name, [2], partition="a")
    for partition in "ab":
        await pop(queen, name, group="g", partition=partition)
    sought = await queen.admin.seek_consumer_group("g", name, {"timestamp": moment})
    assert (sought["success"], sought["partitions"]) == (True, 2)
    assert data_of(await pop(queen, name, group="g")) == [2]
    path = f"/consumer-groups/g/queues/{name}/partitions/b/seek"
    assert (await http.post(path, json={"timestamp": "2020-01-01"})).json()["partitions"] == 1
    assert data_of(await pop(queen, name, group="g", partition="b")) == [1]
    await queen.admin.seek_consumer_group("g", name, {"toEnd": True})
    assert await pop(queen, name, group="g") == []
    for wrong in ({}, {"toEnd": True, "timestamp": moment}, {"timestamp": "soon"}):
        assert (await http.post(path, json=wrong)).status_code == 400
    nowhere = f"/consumer-groups/g/queues/{name}/partitions/c/seek"
    assert (await http.post(nowhere, json={"toEnd": True})).status_code == 404


async def test_lag_is_reported_in_messages_and_seconds(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await push(queen, name, range(5))
    messages = await pop(queen, name, 2, group="behind")
    listed: Any = await queen.admin.list_consumer_groups()
    groups = {group["name"]: group for group in listed}
    [lag] = [queue for queue in groups["behind"]["queues"] if queue["queueName"] == name]
    assert (lag["pending"], lag["processing"]) == (3, 2)
    shown = await queen.admin.get_consumer_group("behind")
    [queue] = [queue for queue in shown["queues"] if queue["queueName"] == name]
    for part in (queue, *queue["partitions"]):
        assert (part["pending"], part["processing"]) == (3, 2)
    # Messages in flight are unfinished too.
    assert (await queen.admin.get_queue_depth(name, "behind"))["pending"] == 5
    await ack(queen, messages, group="behind")
    shown = await queen.admin.get_consumer_group("behind")
    [partition] = [p for q in shown["queues"] if q["queueName"] == name for p in q["partitions"]]
    assert (partition["pending"], partition["position"], partition["end"]) == (3, 2, 5)
    behind: Any = await queen.admin.get_lagging_consumers(0)
    assert ("behind", name) in {(item["consumerGroup"], item["queueName"]) for item in behind}
    behind = await queen.admin.get_lagging_consumers()
    assert name not in {item["queueName"] for item in behind}
    depth = await queen.admin.get_queue_depth(name, "behind")
    assert (depth["pending"], depth["partitionsPending"]) == (3, 1)
    assert (await http.get("/consumer-groups/nobody")).status_code == 404


async def test_own_group_of_a_queue_that_others_read_counts_from_its_first_pop(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await queen.queue(name).config({"maxSize": 2}).create()

    async def add() -> str:
        answer = await http.post("/push", json={"items": [{"queue": name, "payload": 1}]})
        return str(answer.json()[0]["status"])

    async def list_lagging() -> set[str]:
        found = (await http.get("/consumer-groups/lagging?minLagSeconds=0")).json()
        return {group["consumerGroup"] for group in found if group["queueName"] == name}

    async def list_all() -> set[str]:
        found = (await http.get("/consumer-groups")).json()
        return {group["name"] for group in found if name in group["topics"]}

    assert [await add() for _ in range(3)] == ["queued", "queued", "failed"]
    assert await list_lagging() == {"__QUEUE_MODE__"}
    await ack(queen, await pop(queen, name, 2, group="g"), group="g")
    assert (await list_lagging(), await list_all()) == (set(), {"g"})
    assert [await add() for _ in range(2)] == ["queued", "queued"]
    await ack(queen, await pop(queen, name, 2, group="g"), group="g")
    await pop(queen, name, 1)
    assert (await list_lagging(), await list_all()) == (
        {"__QUEUE_MODE__"},
        {"__QUEUE_MODE__", "g"},
    )
    assert await add() == "failed"


async def test_own_group_of_a_queue_of_another_protocol_counts(
    queen: Queen, queue: str, http: httpx.AsyncClient
) -> None:
    item = {"queue": queue, "payload": 1}
    await http.post("/configure", json={"queue": queue, "options": {"maxSize": 1}})
    await http.post("/push", json={"items": [item]})
    await ack(queen, await pop(queen, queue, 1, group="g"), group="g")
    [pushed] = (await http.post("/push", json={"items": [item]})).json()
    assert pushed["status"] == "failed"


@pytest.mark.parametrize("forget", [True, False])
async def test_deleted_group_starts_over_or_at_its_subscription(
    queen: Queen, name: str, *, forget: bool
) -> None:
    group = f"gone-{name}"
    await push(queen, name, ["old"])
    assert await pop(queen, name, group=group, mode="new") == []
    await push(queen, name, ["new"])
    await queen.delete_consumer_group(group, forget)
    found = await pop(queen, name, group=group)
    assert data_of(found) == (["old", "new"] if forget else ["new"])


async def test_subscription_applies_to_current_and_later_queues(queen: Queen, name: str) -> None:
    group = f"set-{name}"
    await push(queen, name, ["old"])
    await push(queen, f"{name}-b", ["old"])
    await ack(queen, await pop(queen, name, group=group), group=group)
    moment = datetime.now(UTC).isoformat()
    await push(queen, name, ["new"])
    await push(queen, f"{name}-b", ["new"])
    answer = await queen.update_consumer_group_timestamp(group, moment)
    assert answer["queues"] == [name]
    assert data_of(await pop(queen, name, group=group)) == ["new"]
    assert data_of(await pop(queen, f"{name}-b", group=group)) == ["new"]


async def test_pop_during_a_deletion_finds_nothing(name: str, http: httpx.AsyncClient) -> None:
    async def ask(group: str) -> int:
        place = f"/pop/queue/{name}?batch=50&partitions=5&consumerGroup={group}"
        return (await http.get(place)).status_code

    items = [{"queue": name, "partition": str(n % 10), "payload": n} for n in range(50)]
    for _ in range(15):
        await http.post("/push", json={"items": items})
        gone = asyncio.create_task(http.delete(f"/resources/queues/{name}"))
        pops = [ask(group) for _ in range(4) for group in ("__QUEUE_MODE__", "a", "b")]
        assert set(await asyncio.gather(*pops)) <= {200, 204}
        await gone


async def test_the_queues_own_group_is_not_deleted(http: httpx.AsyncClient) -> None:
    answer = await http.delete("/consumer-groups/__QUEUE_MODE__")
    assert answer.status_code == 400
    assert "own group" in answer.json()["error"]


async def test_one_queue_has_ordered_and_shared_groups(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await push(queen, name, range(4))
    made = await http.post(f"/consumer-groups/pool/queues/{name}", json={"ordered": False})
    assert (made.status_code, made.json()["ordered"]) == (201, False)
    # Workers of a shared group hold messages of one partition at the same time …
    first = await pop(queen, name, 2, group="pool")
    second = await pop(queen, name, 2, group="pool")
    assert (data_of(first), data_of(second)) == ([0, 1], [2, 3])
    # … those of an ordered one do not.
    assert data_of(await pop(queen, name, 2, group="line")) == [0, 1]
    assert await pop(queen, name, 2, group="line") == []
    assert (await ack(queen, second, group="pool"))["success"]
    assert (await ack(queen, first, group="pool"))["success"]


@pytest.mark.parametrize("moment", ["yesterday", "0001-01-01T00:00:00+14:00"])
async def test_invalid_time_is_refused(
    queen: Queen, name: str, http: httpx.AsyncClient, moment: str
) -> None:
    await push(queen, name, ["1"])
    answers = [
        await http.get(f"/pop/queue/{name}", params={"subscriptionFrom": moment}),
        await http.get("/messages", params={"queue": name, "from": moment}),
        await http.post(
            f"/consumer-groups/__QUEUE_MODE__/queues/{name}/seek", json={"timestamp": moment}
        ),
    ]
    assert [answer.status_code for answer in answers] == [400] * 3
    assert all("is not a date" in answer.json()["error"] for answer in answers)
    assert data_of(await pop(queen, name)) == ["1"]
