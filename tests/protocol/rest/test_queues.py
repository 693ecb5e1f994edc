"""/queues: create, show, update, rename, purge, delete."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.protocol.rest.calls import add, dequeue, issues

if TYPE_CHECKING:
    import httpx

KEYS = {
    "name",
    "queue_type",
    "ack_timeout_seconds",
    "max_attempts",
    "partition_interval",
    "retention_interval",
    "durable_claims",
    "max_bytes",
    "description",
    "created_at",
    "updated_at",
    "message_count",
    "processing_count",
    "dead_count",
}


def name_queue() -> str:
    return f"made-{uuid4().hex[:12]}"


async def make(api: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    answer = await api.post("/queues", json={"name": name_queue(), **fields})
    assert answer.status_code == 201, answer.text
    queue: dict[str, Any] = answer.json()["queue"]
    return queue


async def test_queue_is_created_with_defaults(api: httpx.AsyncClient) -> None:
    name = name_queue()
    answer = await api.post("/queues", json={"name": name})
    assert answer.status_code == 201
    assert answer.json()["message"] == f"Queue '{name}' created successfully"
    queue = answer.json()["queue"]
    assert set(queue) == KEYS
    assert datetime.fromisoformat(queue.pop("created_at")).tzinfo is not None
    assert datetime.fromisoformat(queue.pop("updated_at")).tzinfo is not None
    assert queue == {
        "name": name,
        "queue_type": "standard",
        "ack_timeout_seconds": 30,
        "max_attempts": 3,
        "partition_interval": None,
        "retention_interval": None,
        "durable_claims": True,
        "max_bytes": 16_777_216,
        "description": None,
        "message_count": 0,
        "processing_count": 0,
        "dead_count": 0,
    }


@pytest.mark.parametrize("kind", ["standard", "unlogged", "partitioned"])
async def test_queue_of_every_type_delivers_and_settles(api: httpx.AsyncClient, kind: str) -> None:
    queue = await make(
        api,
        queue_type=kind,
        ack_timeout_seconds=2.5,
        max_attempts=7,
        partition_interval="1 day",
        retention_interval="1 week 12:00:00",
        description="for orders",
    )
    assert queue["queue_type"] == kind
    assert (queue["ack_timeout_seconds"], queue["max_attempts"]) == (2.5, 7)
    assert queue["partition_interval"] == "1 day"
    assert queue["retention_interval"] == "7 days 12:00:00"
    assert queue["description"] == "for orders"
    await add(api, queue["name"], {"n": 1})
    dequeued = await dequeue(api, queue["name"])
    assert (dequeued["ack_timeout_seconds"], dequeued["max_attempts"]) == (2.5, 7)
    body = {"id": dequeued["id"], "lock_token": dequeued["lock_token"]}
    assert (await api.post("/queue/ack", json=body)).status_code == 200
    shown = (await api.get(f"/queues/{queue['name']}")).json()
    assert (shown["message_count"], shown["processing_count"]) == (0, 0)


async def test_name_that_is_in_use_is_refused(api: httpx.AsyncClient, queue: str) -> None:
    answer = await api.post("/queues", json={"name": queue})
    assert (answer.status_code, answer.json()) == (409, {"message": "Queue already exists"})


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"name": ""}, ["name"]),
        ({"name": "a b"}, ["name"]),
        ({"name": "line\n"}, ["name"]),
        ({"name": "x" * 65}, ["name"]),
        ({"queue_type": "fifo"}, ["queue_type"]),
        ({"ack_timeout_seconds": 0}, ["ack_timeout_seconds"]),
        ({"max_attempts": 0}, ["max_attempts"]),
        ({"max_attempts": 1.5}, ["max_attempts"]),
        ({"description": "x" * 501}, ["description"]),
        ({"retention_interval": "soon"}, ["retention_interval"]),
        ({"retention_interval": "101 years"}, ["retention_interval"]),
        ({"retention_interval": "1 day", "partition_interval": "0 days"}, []),
        ({"partition_interval": "1 day"}, ["partition_interval"]),
        ({"description": "\0"}, []),
        ({"ack_timeout_seconds": 1e-9}, []),
    ],
    ids=str,
)
async def test_bad_queue_is_refused_and_not_made(
    api: httpx.AsyncClient, fields: dict[str, Any], path: list[str]
) -> None:
    name = name_queue()
    answer = await api.post("/queues", json={"name": name, **fields})
    assert [place for _, place in issues(answer)] == [path]
    assert (await api.get(f"/queues/{name}")).status_code == 404


async def test_queue_without_a_name_is_refused(api: httpx.AsyncClient) -> None:
    assert issues(await api.post("/queues", json={})) == [("invalid_type", ["name"])]


async def test_queues_are_shown_with_counts(api: httpx.AsyncClient, queue: str) -> None:
    for _ in range(3):
        await add(api, queue)
    dequeued = await dequeue(api, queue)
    await api.post(
        "/queue/move",
        json={"messages": [dequeued["id"]], "fromQueue": "processing", "toQueue": "dead"},
    )
    await dequeue(api, queue)
    shown = (await api.get(f"/queues/{queue}")).json()
    assert set(shown) == KEYS
    assert (shown["message_count"], shown["processing_count"], shown["dead_count"]) == (1, 1, 1)
    listed = (await api.get("/queues")).json()
    assert set(listed) == {"queues", "total"}
    assert listed["total"] == len(listed["queues"])
    assert shown in listed["queues"]


async def test_payload_larger_than_the_queue_allows_is_413(api: httpx.AsyncClient) -> None:
    queue = await make(api, max_bytes=10)
    message = {"type": "t", "queue": queue["name"], "payload": "x" * 8}
    assert (await api.post("/queue/message", json=message)).status_code == 201
    refused = await api.post("/queue/message", json={**message, "payload": "x" * 9})
    assert refused.status_code == 413
    assert "max_bytes" in refused.json()["message"]
    await api.patch(f"/queues/{queue['name']}", json={"max_bytes": 11})
    assert (
        await api.post("/queue/message", json={**message, "payload": "x" * 9})
    ).status_code == 201


async def test_payload_may_have_16_mib(api: httpx.AsyncClient) -> None:
    queue = await make(api)
    message = {"type": "t", "queue": queue["name"], "payload": "x" * (16 * 1024 * 1024 - 2)}
    assert (await api.post("/queue/message", json=message)).status_code == 201
    got = (await api.get("/queue/message", params={"queue": queue["name"]})).json()
    assert got["payload"] == message["payload"]


async def test_update_keeps_fields_that_it_does_not_name(api: httpx.AsyncClient) -> None:
    queue = await make(api, description="old", retention_interval="2 days")
    url = f"/queues/{queue['name']}"
    changes = {"ack_timeout_seconds": 5, "max_attempts": 9, "partition_interval": "06:00:00"}
    changes |= {"durable_claims": False, "max_bytes": 1000}
    answer = await api.patch(url, json=changes)
    assert answer.status_code == 200
    assert answer.json()["message"] == f"Queue '{queue['name']}' updated successfully"
    changed = answer.json()["queue"]
    assert changed.pop("updated_at") > queue.pop("updated_at")
    assert changed == {**queue, **changes}
    answer = await api.patch(url, json={"description": None, "partition_interval": None})
    assert answer.json()["queue"]["description"] is None
    assert answer.json()["queue"]["partition_interval"] is None
    assert (await api.patch(url, json={})).json()["queue"] == answer.json()["queue"]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"queue_type": "unlogged"}, ["queue_type"]),
        ({"max_attempts": None}, ["max_attempts"]),
        ({"ack_timeout_seconds": -1}, ["ack_timeout_seconds"]),
        ({"max_bytes": 0}, ["max_bytes"]),
        ({"partition_interval": "1 hour"}, ["partition_interval"]),
        ({"description": "x" * 501}, ["description"]),
    ],
    ids=str,
)
async def test_bad_change_is_refused(
    api: httpx.AsyncClient, queue: str, changes: dict[str, Any], path: list[str]
) -> None:
    before = (await api.get(f"/queues/{queue}")).json()
    assert issues(await api.patch(f"/queues/{queue}", json=changes))[0][1] == path
    assert (await api.get(f"/queues/{queue}")).json() == before


async def test_retention_with_steps_cannot_be_removed(api: httpx.AsyncClient) -> None:
    queue = await make(api, retention_interval="1 day", partition_interval="1 hour")
    answer = await api.patch(f"/queues/{queue['name']}", json={"retention_interval": None})
    assert issues(answer) == [("custom", ["partition_interval"])]


async def test_renamed_queue_keeps_its_messages(api: httpx.AsyncClient, queue: str) -> None:
    message_id = await add(api, queue)
    new_name = name_queue()
    answer = await api.post(f"/queues/{queue}/rename", json={"newName": new_name})
    assert answer.status_code == 200
    assert answer.json()["queue"]["name"] == new_name
    assert answer.json()["queue"]["message_count"] == 1
    assert (await api.get(f"/queues/{queue}")).status_code == 404
    assert (await dequeue(api, new_name))["id"] == message_id


async def test_bad_rename_is_refused(api: httpx.AsyncClient, queue: str) -> None:
    url = f"/queues/{queue}/rename"
    assert issues(await api.post(url, json={"newName": "a/b"})) == [("invalid_string", ["newName"])]
    assert issues(await api.post(url, json={})) == [("invalid_type", ["newName"])]
    other = {"name": f"{queue}-other"}
    assert (await api.post("/queues", json=other)).status_code == 201
    answer = await api.post(url, json={"newName": f"{queue}-other"})
    assert (answer.status_code, answer.json()) == (409, {"message": "Queue already exists"})


async def test_purge_removes_one_state_or_all(api: httpx.AsyncClient, queue: str) -> None:
    for _ in range(4):
        await add(api, queue)
    await dequeue(api, queue)
    url = f"/queues/{queue}/purge"
    answer = await api.post(url, json={"status": "processing"})
    assert answer.status_code == 200
    assert answer.json() == {
        "message": f"Purged 1 messages from queue '{queue}'",
        "deleted_count": 1,
    }
    assert (await api.post(url)).json()["deleted_count"] == 3
    assert (await api.post(url, json={"status": "all"})).json()["deleted_count"] == 0
    assert issues(await api.post(url, json={"status": "lost"}))[0][1] == ["status"]


async def test_only_force_deletes_a_queue_that_is_not_empty(
    api: httpx.AsyncClient, queue: str
) -> None:
    await add(api, queue)
    answer = await api.delete(f"/queues/{queue}")
    assert answer.status_code == 400
    assert "not empty" in answer.json()["message"]
    assert (await api.delete(f"/queues/{queue}", params={"force": "false"})).status_code == 400
    answer = await api.delete(f"/queues/{queue}", params={"force": "true"})
    assert answer.status_code == 200
    assert answer.json() == {
        "message": f"Queue '{queue}' deleted successfully",
        "deleted_messages": 1,
    }
    assert (await api.get(f"/queues/{queue}")).status_code == 404


async def test_empty_queue_is_deleted_without_force(api: httpx.AsyncClient, queue: str) -> None:
    assert (await api.delete(f"/queues/{queue}")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("PATCH", "", {"max_attempts": 1}),
        ("DELETE", "", None),
        ("DELETE", "?force=true", None),
        ("POST", "/purge", {}),
        ("POST", "/rename", {"newName": "elsewhere"}),
    ],
)
async def test_unknown_queue_is_not_found(
    api: httpx.AsyncClient, method: str, path: str, body: object
) -> None:
    answer = await api.request(method, f"/queues/nowhere{path}", json=body)
    assert (answer.status_code, answer.json()) == (404, {"message": "Queue not found: nowhere"})
