"""GET /queue/metrics and /queue/status, also with limited keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.protocol.rest.calls import add, dequeue, issues
from tests.protocol.servers import make_queue, run_laneway

if TYPE_CHECKING:
    import httpx

    from tests.protocol.conftest import Shared

METRICS = {
    "queued",
    "processing",
    "acknowledged",
    "dead",
    "archived",
    "main_queue_size",
    "processing_size",
    "processing_queue_size",
    "dead_letter_size",
    "dead_letter_queue_size",
    "acknowledged_size",
    "acknowledged_queue_size",
    "avg_payload_size",
    "max_payload_size",
}


async def fill(api: httpx.AsyncClient, queue: str) -> None:
    """Leave two messages queued, one in flight, one acknowledged, one dead."""
    await add(api, queue, "x" * 98, type="big")
    for _ in range(4):
        await add(api, queue, "x" * 8, type="small")
    dequeued = [await dequeue(api, queue) for _ in range(3)]
    body = {"id": dequeued[1]["id"], "lock_token": dequeued[1]["lock_token"]}
    assert (await api.post("/queue/ack", json=body)).status_code == 200
    body = {"messages": [dequeued[2]["id"]], "fromQueue": "processing", "toQueue": "dead"}
    assert (await api.post("/queue/move", json=body)).json()["movedCount"] == 1


async def test_metrics_count_every_state(api: httpx.AsyncClient, queue: str) -> None:
    await api.delete("/queue/clear")
    before = (await api.get("/queue/metrics")).json()
    await fill(api, queue)
    answer = await api.get("/queue/metrics")
    assert answer.status_code == 200
    metrics = answer.json()
    assert set(metrics) == set(before) == METRICS
    assert (metrics["queued"], metrics["main_queue_size"]) == (2, 2)
    assert metrics["processing"] == metrics["processing_size"] == 1
    assert metrics["processing_queue_size"] == 1
    assert metrics["dead"] == metrics["dead_letter_size"] == 1
    assert metrics["dead_letter_queue_size"] == 1
    assert metrics["acknowledged"] == metrics["acknowledged_size"] == 1
    assert metrics["acknowledged_queue_size"] == 1
    assert metrics["archived"] == 0
    assert 0 < metrics["avg_payload_size"] <= metrics["max_payload_size"]
    assert metrics["max_payload_size"] >= 100


async def test_metrics_of_one_queue_leave_out_the_others(
    api: httpx.AsyncClient, queue: str, shared: Shared
) -> None:
    other = f"{queue}-other"
    await make_queue(shared.dsn, other)
    await add(api, other, "x" * 998)
    await fill(api, queue)
    metrics = (await api.get("/queue/metrics", params={"queueName": queue})).json()
    assert set(metrics) == METRICS
    states = ("queued", "processing", "acknowledged", "dead", "archived")
    assert [metrics[state] for state in states] == [2, 1, 1, 1, 0]
    assert metrics["max_payload_size"] == 100
    metrics = (await api.get("/queue/metrics", params={"queueName": other})).json()
    assert [metrics[state] for state in states] == [1, 0, 0, 0, 0]
    assert metrics["max_payload_size"] == 1000
    answer = await api.get("/queue/metrics", params={"queueName": "nowhere"})
    assert (answer.status_code, answer.json()) == (404, {"message": "Queue not found: nowhere"})


async def test_status_shows_one_queue_with_its_messages(api: httpx.AsyncClient, queue: str) -> None:
    await fill(api, queue)
    answer = await api.get("/queue/status", params={"queueName": queue})
    assert answer.status_code == 200
    status = answer.json()
    parts = {
        "mainQueue": ("main", 2, "queued"),
        "processingQueue": ("processing", 1, "processing"),
        "deadLetterQueue": ("dead", 1, "dead"),
        "acknowledgedQueue": ("acknowledged", 1, "acknowledged"),
        "archivedQueue": ("archived", 0, "archived"),
    }
    assert set(status) == {*parts, "metadata", "availableTypes"}
    for key, (name, length, state) in parts.items():
        part = status[key]
        assert (part["name"], part["length"]) == (name, length)
        assert [message["status"] for message in part["messages"]] == [state] * length
        assert all(message["queue_name"] == queue for message in part["messages"])
    assert status["acknowledgedQueue"]["total"] == 1
    assert status["metadata"] == {"totalProcessed": 1, "totalFailed": 1}
    assert status["availableTypes"] == ["big", "small"]


async def test_status_without_messages_has_the_lengths(api: httpx.AsyncClient, queue: str) -> None:
    await fill(api, queue)
    parameters = {"queueName": queue, "include_messages": "false"}
    status = (await api.get("/queue/status", params=parameters)).json()
    assert status["mainQueue"] == {"name": "main", "length": 2, "messages": []}


async def test_status_of_all_queues_has_their_lengths_and_types(database: str) -> None:
    """On a server of its own, because a status names a thousand types at most."""
    await make_queue(database, "mail")
    async with run_laneway(database) as server, server.client() as api:
        await fill(api, "mail")
        everything = (await api.get("/queue/status")).json()
        assert everything["mainQueue"]["length"] >= 2
        assert {"big", "small"} <= set(everything["availableTypes"])


async def test_bad_status_query_is_refused(api: httpx.AsyncClient) -> None:
    answer = await api.get("/queue/status", params={"include_messages": "perhaps"})
    assert [path for _, path in issues(answer)] == [["include_messages"]]
    answer = await api.get("/queue/status", params={"queueName": "nowhere"})
    assert (answer.status_code, answer.json()) == (404, {"message": "Queue not found: nowhere"})
