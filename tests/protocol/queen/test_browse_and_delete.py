"""Routes that show and delete queues, messages and statistics."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import asyncpg
import pytest

from tests.protocol.queen.calls import ack, data_of, pop, push

if TYPE_CHECKING:
    import httpx
    from queen import Queen

    from tests.protocol.conftest import Shared


async def test_queues_are_listed_with_their_counts(queen: Queen, name: str) -> None:
    queue = f"{name}.task"
    await push(queen, queue, range(3), partition="a")
    await push(queen, queue, range(2), partition="b")
    held = await pop(queen, queue, 2, partition="a")
    await ack(queen, held[0])
    listed = await queen.admin.list_queues(search=name)
    assert (listed["total"], [item["name"] for item in listed["queues"]]) == (1, [queue])
    [shown] = listed["queues"]
    assert (shown["namespace"], shown["task"], shown["partitions"]) == (name, "task", 2)
    messages = {"total": 5, "pending": 3, "processing": 1, "completed": 1, "deadLetter": 0}
    assert shown["messages"] == messages
    detail = await queen.admin.get_queue(queue)
    assert {item["partition"]: item["pending"] for item in detail["partitionList"]} == {
        "a": 1,
        "b": 2,
    }
    depth = await queen.admin.get_queue_depth(queue)
    assert (depth["pending"], depth["partitionsPending"]) == (4, 2)
    partitions = await queen.admin.get_partitions(queue=queue)
    assert [item["partition"] for item in partitions["partitions"]] == ["a", "b"]
    namespaces = await queen.admin.get_namespaces()
    [namespace] = [n for n in namespaces["namespaces"] if n["namespace"] == name]
    assert (namespace["queues"], namespace["messages"]["total"]) == (1, 5)
    tasks = await queen.admin.get_tasks()
    assert "task" in {item["task"] for item in tasks["tasks"]}
    overview = await queen.admin.get_overview()
    assert overview["queues"] >= 1
    assert overview["messages"]["total"] >= 5


async def test_messages_are_listed_by_state_partition_and_time(queen: Queen, name: str) -> None:
    await push(queen, name, ["done", "held"], partition="a")
    moment = datetime.now(UTC).isoformat()
    await push(queen, name, ["waiting"], partition="b")
    done, _ = await pop(queen, name, 2, partition="a")
    await ack(queen, done)

    async def listed(**filters: str | int) -> list[str]:
        return data_of((await queen.admin.list_messages(queue=name, **filters))["messages"])

    assert await listed() == ["waiting", "held", "done"]
    assert await listed(limit=1, offset=1) == ["held"]
    assert await listed(status="completed") == ["done"]
    assert await listed(status="processing") == ["held"]
    assert await listed(status="pending") == ["waiting"]
    assert await listed(partition="a") == ["held", "done"]
    assert await listed(**{"from": moment}) == ["waiting"]
    assert await listed(to=moment) == ["held", "done"]
    assert await listed(consumerGroup="nobody") == []


async def test_message_is_shown_dead_lettered_retried_and_deleted(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    trace = "11111111-1111-4111-8111-111111111111"
    item = {"data": {"n": 1}, "transactionId": "one", "traceId": trace}
    [pushed] = await queen.queue(name).push([item])
    lane = pushed["partition_id"]
    shown = await queen.admin.get_message(lane, "one")
    assert (shown["id"], shown["status"], shown["data"]) == (
        pushed["message_id"],
        "pending",
        {"n": 1},
    )
    assert shown["traceId"] == trace
    path = f"/messages/{lane}/one"
    assert (await http.post(f"{path}/dlq")).status_code == 200
    assert (await queen.admin.get_message(lane, "one"))["status"] == "dead_letter"
    assert (await queen.admin.retry_message(lane, "one"))["success"]
    [again] = await pop(queen, name)
    assert (again["data"], again["traceId"]) == ({"n": 1}, trace)
    await queen.admin.delete_message(lane, "one")
    assert not (await ack(queen, again))["success"]
    assert (await http.get(path)).status_code == 404
    for missing in ("/messages/x/y", f"/messages/{lane}/none", "/messages/99999999/none"):
        assert (await http.get(missing)).status_code == 404
        assert (await http.delete(missing)).status_code == 404


async def test_queues_are_cleared_and_deleted(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await push(queen, name, range(3))
    await pop(queen, name, 1, group="g")
    cleared = (await http.delete(f"/queues/{name}/clear")).json()
    assert (cleared["cleared"], cleared["count"]) == (True, 3)
    assert await pop(queen, name) == await pop(queen, name, group="g") == []
    deleted = await queen.queue(name).delete()
    assert deleted == {"deleted": True, "existed": True, "queue": name}
    assert await queen.queue(name).delete() == {
        "deleted": False,
        "existed": False,
        "queue": name,
    }
    assert (await http.delete(f"/queues/{name}/clear")).status_code == 404
    await push(queen, name, ["anew"])
    assert data_of(await pop(queen, name)) == ["anew"]


async def test_statistics_count_pushes_pops_and_acks(queen: Queen, name: str) -> None:
    await push(queen, name, range(4))
    messages = await pop(queen, name, 4)
    await ack(queen, messages[:3])
    await ack(queen, messages[3], "dlq")
    series = await queen.admin.get_analytics(queue=name, interval="minute")
    totals = {
        key: sum(step[key] for step in series["throughput"])
        for key in ("pushed", "popped", "completed", "deadLetter")
    }
    assert totals == {"pushed": 4, "popped": 4, "completed": 3, "deadLetter": 1}
    detail = await queen.admin.get_queue_detail(name)
    assert detail["queue"]["messages"]["deadLetter"] == 1
    stats = await queen.admin.get_queue_stats(limit=1000)
    assert name in {queue["name"] for queue in stats["queues"]}
    status = await queen.admin.get_status()
    assert sum(step["pushed"] for step in status["throughput"]) >= 4
    health = await queen.admin.health()
    assert (health["status"], health["database"]) == ("healthy", "connected")


@pytest.mark.parametrize("moment", ["0001-01-01", "0001-01-01T00:00:00+14:00", "x"])
@pytest.mark.parametrize("parameter", ["from", "to"])
async def test_impossible_times_of_statistics_are_refused(
    http: httpx.AsyncClient, parameter: str, moment: str
) -> None:
    answer = await http.get("/status/analytics", params={parameter: moment, "interval": "day"})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(f"{parameter}: ")


async def test_metrics_are_served_for_prometheus(
    queen: Queen, name: str, shared: Shared, http: httpx.AsyncClient
) -> None:
    await push(queen, name, ["x"])
    text = (await http.get(f"{shared.server.url}/metrics/prometheus")).text
    assert "laneway_messages_total" in text


async def test_every_error_has_a_message_code_and_status(
    http: httpx.AsyncClient,
) -> None:
    answers = {
        "/resources/queues/nobody": (404, "queue_not_found"),
        "/nothing": (404, "no_such_route"),
        "/push": (405, "method_not_allowed"),
        "/messages?limit=0": (400, "invalid_request"),
        "/messages?from=soon": (400, "invalid_request"),
        "/pop/queue/x?batch=-1": (400, "invalid_request"),
    }
    for path, expected in answers.items():
        answer = await http.get(path)
        assert (answer.status_code, answer.json()["code"]) == expected, path
        assert answer.json()["error"]
    answer = await http.post("/push", content=b"{")
    assert answer.status_code == 400


async def test_headers_of_other_protocols_are_kept(queen: Queen, name: str, shared: Shared) -> None:
    await push(queen, name, [1])
    connection = await asyncpg.connect(shared.dsn)
    await connection.execute(
        "select laneway.push_many(array[q.queue_id], array['2'::json], array['Default'],"
        """ p_headers => array['{"traceId": "abc"}'::json]) from laneway.queue q where q.name = $1""",
        name,
    )
    await connection.close()
    assert data_of(await pop(queen, name)) == [1, 2]
