"""Manual changes of messages: edit, delete, move, clear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.rest.calls import NOBODY, TOO_LARGE, add, dequeue, issues

if TYPE_CHECKING:
    import httpx

PARTS = ("main", "processing", "dead", "acknowledged", "archived")


async def move(
    api: httpx.AsyncClient, ids: list[Any], source: str, target: str, **fields: Any
) -> int:
    body = {"messages": ids, "fromQueue": source, "toQueue": target, **fields}
    answer = await api.post("/queue/move", json=body)
    assert answer.status_code == 200, answer.text
    count: int = answer.json()["movedCount"]
    assert answer.json()["message"] == f"{count} messages moved successfully"
    return count


async def show(api: httpx.AsyncClient, queue: str, part: str) -> list[dict[str, Any]]:
    answer = await api.get(f"/queue/{part}/messages", params={"queueName": queue})
    assert answer.status_code == 200, answer.text
    messages: list[dict[str, Any]] = answer.json()["messages"]
    return messages


async def test_every_field_of_a_message_is_edited(api: httpx.AsyncClient, queue: str) -> None:
    message_id = await add(api, queue, {"old": True})
    changes = {
        "type": "new",
        "payload": "plain text",
        "priority": 7,
        "max_attempts": 1,
        "ack_timeout_seconds": 2.5,
    }
    url = f"/queue/message/{message_id}"
    answer = await api.put(url, params={"queueType": "main"}, json=changes)
    assert answer.status_code == 200
    assert answer.json()["success"] is True
    data = answer.json()["data"]
    assert data["id"] == message_id
    assert {name: data[name] for name in changes} == changes
    dequeued = await dequeue(api, queue)
    assert dequeued["id"] == message_id
    assert {name: dequeued[name] for name in changes} == changes


async def test_edit_keeps_fields_that_it_does_not_name(api: httpx.AsyncClient, queue: str) -> None:
    message_id = await add(api, queue, {"a": 1}, type="kept", priority=2)
    answer = await api.put(
        f"/queue/message/{message_id}", params={"queueType": "main"}, json={"payload": None}
    )
    data = answer.json()["data"]
    assert (data["payload"], data["type"], data["priority"]) == (None, "kept", 2)


@pytest.mark.parametrize("part", ["processing", "dead"])
async def test_message_is_edited_only_in_the_named_state(
    api: httpx.AsyncClient, queue: str, part: str
) -> None:
    message_id = await add(api, queue)
    await dequeue(api, queue)
    if part == "dead":
        await move(api, [message_id], "processing", "dead")
    url = f"/queue/message/{message_id}"
    answer = await api.put(url, params={"queueType": part}, json={"payload": [1]})
    assert answer.json()["data"]["payload"] == [1]
    assert answer.json()["data"]["status"] == part
    # It is not in the other parts.
    for other in {"main", "processing", "dead"} - {part}:
        answer = await api.put(url, params={"queueType": other}, json={"payload": [2]})
        assert answer.status_code == 404
        assert answer.json() == {"success": False, "message": "Message not found"}
    assert (await show(api, queue, part))[0]["payload"] == [1]


async def test_acknowledged_message_is_shown_as_it_was_edited(
    api: httpx.AsyncClient, queue: str
) -> None:
    message_id = await add(api, queue, "old", type="before")
    changes = {"payload": "new", "type": "after", "priority": 4}
    url = f"/queue/message/{message_id}"
    assert (await api.put(url, params={"queueType": "main"}, json=changes)).is_success
    dequeued = await dequeue(api, queue)
    await api.post("/queue/ack", json={"id": message_id, "lock_token": dequeued["lock_token"]})
    (message,) = await show(api, queue, "acknowledged")
    assert (message["payload"], message["type"], message["priority"]) == ("new", "after", 4)
    for kind, count in (("after", 1), ("before", 0)):
        parameters = {"queueName": queue, "filterType": kind}
        found = await api.get("/queue/acknowledged/messages", params=parameters)
        assert len(found.json()["messages"]) == count, found.text


async def test_manually_acknowledged_message_keeps_its_consumer(
    api: httpx.AsyncClient, queue: str
) -> None:
    message_id = await add(api, queue)
    dequeued = await dequeue(api, queue, consumerId="worker-1")
    assert await move(api, [message_id], "processing", "acknowledged") == 1
    (message,) = await show(api, queue, "acknowledged")
    assert message["attempt_count"] == 1
    assert message["dequeued_at"] == pytest.approx(dequeued["dequeued_at"], abs=0.01)
    assert message["acknowledged_at"] >= message["dequeued_at"]
    assert message["consumer_id"] is not None


@pytest.mark.parametrize("message_id", [NOBODY, "not-an-id", "1-1"])
async def test_unknown_message_is_not_edited_and_not_deleted(
    api: httpx.AsyncClient, message_id: str
) -> None:
    url, parameters = f"/queue/message/{message_id}", {"queueType": "main"}
    answer = await api.put(url, params=parameters, json={"priority": 1})
    assert answer.status_code == 404
    assert answer.json() == {"success": False, "message": "Message not found"}
    answer = await api.delete(url, params=parameters)
    assert (answer.status_code, answer.json()) == (200, {"success": False})


@pytest.mark.parametrize(
    ("part", "changes", "path"),
    [
        (None, {"priority": 1}, ["queueType"]),
        ("archived", {"priority": 1}, ["queueType"]),
        ("main", {"priority": 10}, ["priority"]),
        ("main", {"priority": -1}, ["priority"]),
        ("main", {"type": 5}, ["type"]),
        ("main", {"type": "\0"}, []),
        ("main", {"max_attempts": 0}, ["max_attempts"]),
        ("main", {"ack_timeout_seconds": 0}, ["ack_timeout_seconds"]),
        ("main", {}, []),
        ("main", [], []),
    ],
    ids=str,
)
async def test_bad_edit_is_refused_and_changes_nothing(
    api: httpx.AsyncClient, queue: str, part: str | None, changes: Any, path: list[str]
) -> None:
    message_id = await add(api, queue)
    before = await show(api, queue, "main")
    parameters = {} if part is None else {"queueType": part}
    answer = await api.put(f"/queue/message/{message_id}", params=parameters, json=changes)
    assert [place for _, place in issues(answer)] == [path]
    assert await show(api, queue, "main") == before


async def test_edit_to_a_payload_that_is_too_large_is_refused(
    api: httpx.AsyncClient, queue: str
) -> None:
    message_id = await add(api, queue)
    url = f"/queue/message/{message_id}"
    answer = await api.put(url, params={"queueType": "main"}, json={"payload": TOO_LARGE})
    assert answer.status_code == 413
    assert "max_bytes" in answer.json()["message"]
    answer = await api.put(url, params={"queueType": "main"}, content=b"{")
    assert answer.status_code == 400
    assert answer.json() == {"message": "Malformed JSON in request body"}


async def test_message_is_deleted_only_from_the_named_state(
    api: httpx.AsyncClient, queue: str
) -> None:
    message_id = await add(api, queue)
    url = f"/queue/message/{message_id}"
    for part, success in (("dead", False), ("main", True), ("main", False)):
        answer = await api.delete(url, params={"queueType": part})
        assert (answer.status_code, answer.json()) == (200, {"success": success})
    assert await show(api, queue, "main") == []
    assert issues(await api.delete(url)) == [("invalid_type", ["queueType"])]
    answer = await api.delete(url, params={"queueType": "lost"})
    assert issues(answer) == [("invalid_enum_value", ["queueType"])]


async def test_many_messages_are_deleted_at_once(api: httpx.AsyncClient, queue: str) -> None:
    ids = [await add(api, queue) for _ in range(4)]
    answer = await api.post(
        "/queue/messages/delete",
        params={"queueType": "main"},
        json={"messageIds": [*ids[:3], ids[0], NOBODY, "nonsense"]},
    )
    assert answer.status_code == 200
    assert answer.json() == {
        "success": True,
        "deletedCount": 3,
        "message": "3 messages deleted successfully",
    }
    assert [message["id"] for message in await show(api, queue, "main")] == ids[3:]
    answer = await api.post("/queue/messages/delete", json={"messageIds": ids})
    assert issues(answer) == [("invalid_type", ["queueType"])]
    answer = await api.post("/queue/messages/delete", params={"queueType": "main"}, json={})
    assert issues(answer) == [("invalid_type", ["messageIds"])]


async def test_message_moved_to_processing_is_leased_to_the_actor(
    api: httpx.AsyncClient, queue: str
) -> None:
    message_id = await add(api, queue)
    assert await move(api, [{"id": message_id, "more": 1}], "main", "processing") == 1
    (message,) = await show(api, queue, "processing")
    assert message["consumer_id"] == "user-manual-operation"
    assert (message["attempt_count"], message["status"]) == (1, "processing")
    assert message["locked_until"] is not None
    body = {"id": message_id, "lock_token": message["lock_token"]}
    assert (await api.post("/queue/ack", json=body)).status_code == 200


async def test_redriven_message_has_its_attempts_reset(api: httpx.AsyncClient, queue: str) -> None:
    message_id = await add(api, queue)
    await dequeue(api, queue)
    assert await move(api, [message_id], "processing", "dead", errorReason="poison") == 1
    (message,) = await show(api, queue, "dead")
    assert (message["last_error"], message["attempt_count"]) == ("poison", 1)
    assert await move(api, [message_id], "dead", "main") == 1
    (message,) = await show(api, queue, "main")
    assert (message["id"], message["attempt_count"]) == (message_id, 0)
    assert (await dequeue(api, queue))["attempt_count"] == 1


async def test_archived_message_keeps_its_last_error(api: httpx.AsyncClient, queue: str) -> None:
    message_id = await add(api, queue)
    await dequeue(api, queue)
    await move(api, [message_id], "processing", "dead", errorReason="poison")
    assert await move(api, [message_id], "dead", "archived") == 1
    (message,) = await show(api, queue, "archived")
    assert (message["last_error"], message["attempt_count"]) == ("poison", 1)


async def test_message_moves_between_all_states(api: httpx.AsyncClient, queue: str) -> None:
    message_id = await add(api, queue)
    at = "main"
    for source in PARTS:
        for target in PARTS:
            if source == target:
                continue
            if at != source:
                assert await move(api, [message_id], at, source) == 1
            assert await move(api, [message_id], source, target) == 1, (source, target)
            at = target
            assert [item["id"] for item in await show(api, queue, at)] == [message_id]


async def test_only_messages_in_the_named_state_move(api: httpx.AsyncClient, queue: str) -> None:
    other = f"{queue}-other"
    assert (await api.post("/queues", json={"name": other})).status_code == 201
    ids = [await add(api, queue), await add(api, other)]
    dequeued = await add(api, queue, priority=9)
    await dequeue(api, queue)
    assert await move(api, [*ids, dequeued, NOBODY, "nonsense"], "main", "dead") == 2
    assert await move(api, [], "main", "dead") == 0


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, ["messages"]),
        ({"messages": [1]}, ["messages", 0]),
        ({"messages": [{}]}, ["messages", 0, "id"]),
        ({"messages": [], "fromQueue": "x", "toQueue": "dead"}, ["fromQueue"]),
        ({"messages": [], "fromQueue": "main", "toQueue": "x"}, ["toQueue"]),
        ({"messages": [], "fromQueue": "main", "toQueue": "main"}, ["toQueue"]),
        (
            {"messages": [], "fromQueue": "main", "toQueue": "dead", "errorReason": "x" * 2001},
            ["errorReason"],
        ),
    ],
    ids=str,
)
async def test_bad_move_is_refused(
    api: httpx.AsyncClient, body: dict[str, Any], path: list[str | int]
) -> None:
    answer = await api.post("/queue/move", json=body)
    assert [place for _, place in issues(answer)] == [path]


async def test_state_of_one_queue_is_cleared(api: httpx.AsyncClient, queue: str) -> None:
    ids = [await add(api, queue) for _ in range(3)]
    await move(api, ids[:1], "main", "dead")
    await move(api, ids[1:2], "main", "archived")
    answer = await api.delete("/queue/dead/clear", params={"queueName": queue})
    assert answer.status_code == 200
    assert answer.json() == {
        "success": True,
        "queueType": "dead",
        "message": "dead queue cleared successfully",
    }
    left = {part: len(await show(api, queue, part)) for part in PARTS}
    assert left == {"main": 1, "processing": 0, "dead": 0, "acknowledged": 0, "archived": 1}
    answer = await api.delete("/queue/main/clear", params={"queueName": "nowhere"})
    assert (answer.status_code, answer.json()) == (404, {"message": "Queue not found: nowhere"})
    assert issues(await api.delete("/queue/x/clear")) == [("invalid_enum_value", ["queueType"])]


async def test_empty_name_does_not_clear_every_queue(api: httpx.AsyncClient, queue: str) -> None:
    message_id = await add(api, queue)
    answer = await api.delete("/queue/main/clear?queueName=")
    assert issues(answer) == [("too_small", ["queueName"])]
    assert [message["id"] for message in await show(api, queue, "main")] == [message_id]


async def test_state_of_all_queues_is_cleared(api: httpx.AsyncClient, queue: str) -> None:
    other = f"{queue}-other"
    assert (await api.post("/queues", json={"name": other})).status_code == 201
    for each in (queue, other):
        await add(api, each)
    assert (await api.delete("/queue/main/clear")).status_code == 200
    # Messages that other tests left in flight may return meanwhile.
    assert [await show(api, each, "main") for each in (queue, other)] == [[], []]


async def test_all_queues_are_cleared(api: httpx.AsyncClient, queue: str) -> None:
    for _ in range(2):
        await add(api, queue)
    await dequeue(api, queue)
    answer = await api.delete("/queue/clear")
    assert answer.status_code == 200
    assert answer.json() == {"message": "All queues cleared successfully"}
    metrics = (await api.get("/queue/metrics")).json()
    assert [metrics[name] for name in ("queued", "processing", "acknowledged", "dead")] == [0] * 4
