"""Ack, nack and touch, one by one and in batches."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.rest.calls import NOBODY, STRANGER, add, dequeue, issues

if TYPE_CHECKING:
    import httpx


async def ack(api: httpx.AsyncClient, message_id: str, token: str | None = None) -> httpx.Response:
    return await api.post("/queue/ack", json={"id": message_id, "lock_token": token})


async def test_acknowledged_message_is_gone(api: httpx.AsyncClient, queue: str) -> None:
    await add(api, queue)
    message = await dequeue(api, queue)
    answer = await ack(api, message["id"], message["lock_token"])
    assert answer.status_code == 200
    assert answer.json() == {"message": "Message acknowledged"}
    assert (await api.get("/queue/message", params={"queue": queue})).status_code == 404


async def test_ack_without_a_token_settles_the_current_lease(
    api: httpx.AsyncClient, queue: str
) -> None:
    await add(api, queue)
    message = await dequeue(api, queue)
    answer = await api.post("/queue/ack", json={"id": message["id"]})
    assert answer.status_code == 200
    again = await api.post("/queue/ack", json={"id": message["id"]})
    assert again.status_code == 400
    assert again.json()["message"] == "Message is not processing"


@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
async def test_dead_letter_says_that_no_reason_was_given(
    api: httpx.AsyncClient, queue: str, *, batch: bool
) -> None:
    added = await api.post(
        "/queue/message", json={"type": "t", "payload": 1, "queue": queue, "maxAttempts": 1}
    )
    assert added.status_code == 201
    message = await dequeue(api, queue)
    if batch:
        body: dict[str, Any] = {
            "nacks": [{"id": message["id"], "lock_token": message["lock_token"]}]
        }
        answer = await api.post("/queue/nack/batch", json=body)
        assert answer.json()["movedToDlq"] == [message["id"]]
    else:
        answer = await api.post(f"/queue/message/{message['id']}/nack")
    assert answer.status_code == 200
    dead = (await api.get("/queue/dead/messages", params={"queueName": queue})).json()["messages"]
    assert [each["last_error"] for each in dead] == ["Nacked without a reason (attempt 1 of 1)"]


@pytest.mark.parametrize("token", [STRANGER, "not a token", ""])
async def test_wrong_token_changes_nothing(api: httpx.AsyncClient, queue: str, token: str) -> None:
    await add(api, queue)
    message = await dequeue(api, queue)
    answer = await ack(api, message["id"], token)
    assert answer.status_code == 409
    assert answer.json()["error"] == "LOCK_LOST"
    assert (await ack(api, message["id"], message["lock_token"])).status_code == 200


async def test_expired_token_is_lock_lost(api: httpx.AsyncClient, queue: str) -> None:
    await add(api, queue)
    first = await dequeue(api, queue, ackTimeout=0.1)
    second = await dequeue(api, queue, timeout=20)
    answer = await ack(api, first["id"], first["lock_token"])
    assert answer.status_code == 409
    assert answer.json() == {"message": "Lock lost", "error": "LOCK_LOST"}
    assert (await ack(api, second["id"], second["lock_token"])).status_code == 200


async def test_ack_of_a_message_not_in_flight_is_400(api: httpx.AsyncClient, queue: str) -> None:
    waiting = await add(api, queue)
    for message_id, words in (
        (NOBODY, "Message not found"),
        ("nonsense", "Message not found"),
        ("99999999999-1-1", "Message not found"),
        (waiting, "Message is not processing"),
    ):
        answer = await api.post("/queue/ack", json={"id": message_id})
        assert answer.status_code == 400, message_id
        assert answer.json()["message"] == words
    assert (await ack(api, NOBODY, STRANGER)).status_code == 400


async def put(api: httpx.AsyncClient, queue: str, state: str) -> tuple[str, str]:
    """Bring a message into a state; return its id and the token of its past lease, if it had one."""
    message_id = await add(api, queue, maxAttempts=1 if state == "dead" else 3)
    if state == "queued":
        return message_id, STRANGER
    message = await dequeue(api, queue)
    token: str = message["lock_token"]
    lease = {"id": message_id, "lock_token": token}
    if state == "acknowledged":
        answer = await api.post("/queue/ack", json=lease)
    elif state == "archived":
        move = {"messages": [message_id], "fromQueue": "processing", "toQueue": "archived"}
        answer = await api.post("/queue/move", json=move)
    else:
        answer = await api.post(f"/queue/message/{message_id}/nack", json={"lock_token": token})
    assert answer.status_code == 200
    return message_id, token


PARTS = {
    "queued": "main",
    "requeued": "main",
    "acknowledged": "acknowledged",
    "dead": "dead",
    "archived": "archived",
}


@pytest.mark.parametrize("state", PARTS)
async def test_state_of_a_message_counts_before_its_token(
    api: httpx.AsyncClient, queue: str, state: str
) -> None:
    message_id, past = await put(api, queue, state)
    for token in (past, "nonsense"):
        lease = {"id": message_id, "lock_token": token}
        acked = await api.post("/queue/ack", json=lease)
        assert (acked.status_code, acked.json()["error"]) == (400, "INVALID_STATE")
        nacked = await api.post(f"/queue/message/{message_id}/nack", json={"lock_token": token})
        assert (nacked.status_code, nacked.json()["error"]) == (404, "INVALID_STATE")
        for body in ({"lock_token": token}, {"lock_token": token, "extend_seconds": 60}):
            touched = await api.put(f"/queue/message/{message_id}/touch", json=body)
            assert touched.status_code == 404
            assert touched.json() == {"message": "Message not found", "error": "NOT_FOUND"}
        for path, items in (("ack", "acks"), ("nack", "nacks")):
            batch = await api.post(f"/queue/{path}/batch", json={items: [lease]})
            [failed] = batch.json()["failed"]
            assert (failed["id"], failed["code"]) == (message_id, "INVALID_STATE")
    # Nothing changed.
    listed = await api.get(f"/queue/{PARTS[state]}/messages", params={"queueName": queue})
    assert [each["id"] for each in listed.json()["messages"]] == [message_id]
    refused = {"queue_name": queue, "action": "ack_refused"}
    assert (await api.get("/queue/activity", params=refused)).json()["logs"] == []


async def test_acked_twice_is_not_processing(api: httpx.AsyncClient, queue: str) -> None:
    await add(api, queue)
    message = await dequeue(api, queue)
    await ack(api, message["id"], message["lock_token"])
    answer = await ack(api, message["id"], message["lock_token"])
    assert answer.status_code == 400


async def test_acked_twice_at_once_is_acked_once(api: httpx.AsyncClient, queue: str) -> None:
    for n in range(20):
        await add(api, queue, n)
    answer = await api.get("/queue/messages/batch", params={"queue": queue, "count": 20})
    dequeued = answer.json()["messages"]
    answers = await asyncio.gather(
        *[ack(api, each["id"], each["lock_token"]) for each in dequeued for _ in range(3)]
    )
    for n in range(20):
        codes = sorted(answer.status_code for answer in answers[3 * n : 3 * n + 3])
        assert codes == [200, 400, 400]


async def test_batch_of_acks_settles_each_on_its_own(api: httpx.AsyncClient, queue: str) -> None:
    for n in range(4):
        await add(api, queue, n)
    dequeued = await api.get("/queue/messages/batch", params={"queue": queue, "count": 3})
    first, second, third = dequeued.json()["messages"]
    waiting = await add(api, queue)
    acks = [
        {"id": first["id"], "lock_token": first["lock_token"]},
        {"id": second["id"], "lock_token": STRANGER},
        {"id": third["id"]},
        {"id": waiting},
        {"id": NOBODY, "lock_token": STRANGER},
        {"id": first["id"], "lock_token": first["lock_token"]},
    ]
    answer = await api.post("/queue/ack/batch", json={"acks": acks})
    assert answer.status_code == 200
    body = answer.json()
    assert body["succeeded"] == [first["id"], third["id"], first["id"]]
    assert [(item["id"], item["code"]) for item in body["failed"]] == [
        (second["id"], "LOCK_LOST"),
        (waiting, "INVALID_STATE"),
        (NOBODY, "NOT_FOUND"),
    ]
    assert all(item["error"] for item in body["failed"])
    assert body["message"] == "3/6 messages acknowledged"


async def test_nacked_message_is_redelivered_first(api: httpx.AsyncClient, queue: str) -> None:
    first = await add(api, queue, 1)
    await add(api, queue, 2)
    message = await dequeue(api, queue)
    answer = await api.post(
        f"/queue/message/{first}/nack",
        json={"errorReason": "broken", "lock_token": message["lock_token"]},
    )
    assert answer.status_code == 200
    assert answer.json() == {"message": "Message nacked successfully"}
    again = await dequeue(api, queue, timeout=20)
    assert again["id"] == first
    assert (again["attempt_count"], again["last_error"]) == (2, "broken")


async def test_nacked_messages_are_redelivered_oldest_first(
    api: httpx.AsyncClient, queue: str
) -> None:
    for n in range(6):
        await add(api, queue, n, type=f"kind-{n % 2}")
    answer = await api.get("/queue/messages/batch", params={"queue": queue, "count": 5})
    dequeued = answer.json()["messages"]
    for n in (4, 1, 3, 0):
        body = {"lock_token": dequeued[n]["lock_token"]}
        assert (await api.post(f"/queue/message/{dequeued[n]['id']}/nack", json=body)).is_success
    again = await api.get("/queue/messages/batch", params={"queue": queue, "count": 3})
    assert [each["payload"] for each in again.json()["messages"]] == [0, 1, 3]
    assert [(await dequeue(api, queue))["payload"] for _ in range(2)] == [4, 5]


@pytest.mark.parametrize("body", [b"", b"{}", b'{"errorReason":null}'])
async def test_nack_without_a_token_settles_the_current_lease(
    api: httpx.AsyncClient, queue: str, body: bytes
) -> None:
    message_id = await add(api, queue)
    await dequeue(api, queue)
    answer = await api.post(f"/queue/message/{message_id}/nack", content=body)
    assert answer.status_code == 200
    assert (await dequeue(api, queue, timeout=20))["attempt_count"] == 2


async def test_refused_nack_has_a_reason(api: httpx.AsyncClient, queue: str) -> None:
    message_id = await add(api, queue)
    answer = await api.post(f"/queue/message/{message_id}/nack")
    assert answer.status_code == 404
    answer = await api.post(f"/queue/message/{NOBODY}/nack")
    assert answer.status_code == 404
    assert answer.json()["message"] == "Message not found"
    await dequeue(api, queue)
    answer = await api.post(f"/queue/message/{message_id}/nack", json={"lock_token": STRANGER})
    assert answer.status_code == 409
    assert answer.json() == {"message": "Lock lost", "error": "LOCK_LOST"}


async def test_message_out_of_attempts_is_dead(api: httpx.AsyncClient, queue: str) -> None:
    await add(api, queue, "once", maxAttempts=1)
    await add(api, queue, "again")
    dequeued = await api.get("/queue/messages/batch", params={"queue": queue, "count": 2})
    nacks = [
        {"id": message["id"], "lock_token": message["lock_token"], "error": "no"}
        for message in dequeued.json()["messages"]
    ]
    nacks.append({"id": NOBODY, "lock_token": STRANGER, "error": "no"})
    answer = await api.post("/queue/nack/batch", json={"nacks": nacks})
    assert answer.status_code == 200
    body = answer.json()
    once, again = (nack["id"] for nack in nacks[:2])
    assert body["movedToDlq"] == [once]
    assert body["requeued"] == [again]
    assert body["succeeded"] == [once, again]
    assert [item["code"] for item in body["failed"]] == ["NOT_FOUND"]


async def test_touch_extends_the_lease(api: httpx.AsyncClient, queue: str) -> None:
    message_id = await add(api, queue)
    message = await dequeue(api, queue, ackTimeout=5)
    token = message["lock_token"]
    for body, seconds in (
        ({"lock_token": token, "extend_seconds": 100.5}, 100.5),
        ({"lock_token": token}, 30),
    ):
        answer = await api.put(f"/queue/message/{message_id}/touch", json=body)
        assert answer.status_code == 200
        touched = answer.json()
        assert touched["message"] == "Lock extended successfully"
        assert touched["lock_token"] == token
        assert touched["new_timeout_at"] == pytest.approx(time.time() + seconds, abs=5)


async def test_refused_touch_has_a_reason(api: httpx.AsyncClient, queue: str) -> None:
    message_id = await add(api, queue)
    await dequeue(api, queue)
    for token in (STRANGER, "nonsense"):
        answer = await api.put(
            f"/queue/message/{message_id}/touch", json={"lock_token": token, "extend_seconds": 1}
        )
        assert answer.status_code == 409
        assert answer.json()["error"] == "LOCK_LOST"
    for unknown in (NOBODY, "nonsense"):
        answer = await api.put(f"/queue/message/{unknown}/touch", json={"lock_token": STRANGER})
        assert answer.status_code == 404
        assert answer.json() == {"message": "Message not found", "error": "NOT_FOUND"}


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("POST", "/queue/ack", {}, ("invalid_type", ["id"])),
        ("POST", "/queue/ack", {"id": 1}, ("invalid_type", ["id"])),
        ("POST", "/queue/ack", {"id": ""}, ("too_small", ["id"])),
        ("POST", "/queue/ack", [], ("invalid_type", [])),
        ("POST", "/queue/ack/batch", {}, ("invalid_type", ["acks"])),
        ("POST", "/queue/ack/batch", {"acks": []}, ("too_small", ["acks"])),
        ("POST", "/queue/ack/batch", {"acks": [{"id": "1-1-1"}] * 101}, ("too_big", ["acks"])),
        ("POST", "/queue/ack/batch", {"acks": [{}]}, ("invalid_type", ["acks", 0, "id"])),
        ("POST", "/queue/nack/batch", {"nacks": []}, ("too_small", ["nacks"])),
        (
            "POST",
            "/queue/nack/batch",
            {"nacks": [{"id": "1-1-1", "error": "x" * 3000}]},
            ("too_big", ["nacks", 0, "error"]),
        ),
        (
            "POST",
            "/queue/message/1-1-1/nack",
            {"errorReason": 1},
            ("invalid_type", ["errorReason"]),
        ),
        ("PUT", "/queue/message/1-1-1/touch", {}, ("invalid_type", ["lock_token"])),
        (
            "PUT",
            "/queue/message/1-1-1/touch",
            {"lock_token": "t", "extend_seconds": 0},
            ("too_small", ["extend_seconds"]),
        ),
    ],
    ids=str,
)
async def test_invalid_input_is_named(
    api: httpx.AsyncClient, method: str, path: str, body: Any, expected: tuple[str, list[Any]]
) -> None:
    assert issues(await api.request(method, path, json=body)) == [expected]


@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
async def test_nack_may_delay_the_next_delivery(
    api: httpx.AsyncClient, queue: str, *, batch: bool
) -> None:
    await add(api, queue)
    message = await dequeue(api, queue)
    nack: dict[str, Any] = {"lock_token": message["lock_token"], "delay": 3600}
    if batch:
        body = {"nacks": [{"id": message["id"], **nack}]}
        answer = await api.post("/queue/nack/batch", json=body)
        assert answer.json()["requeued"] == [message["id"]]
    else:
        answer = await api.post(f"/queue/message/{message['id']}/nack", json=nack)
    assert answer.status_code == 200
    assert (await api.get("/queue/message", params={"queue": queue})).status_code == 404
    shown = await api.get("/queue/main/messages", params={"queueName": queue})
    assert [each["id"] for each in shown.json()["messages"]] == [message["id"]]


async def test_nack_without_a_delay_returns_the_message_at_once(
    api: httpx.AsyncClient, queue: str
) -> None:
    await add(api, queue)
    message = await dequeue(api, queue)
    assert (await api.post(f"/queue/message/{message['id']}/nack")).status_code == 200
    assert (await dequeue(api, queue))["id"] == message["id"]


@pytest.mark.parametrize("delay", [-1, 1e300, "soon"])
async def test_nack_with_an_invalid_delay_changes_nothing(
    api: httpx.AsyncClient, queue: str, delay: object
) -> None:
    await add(api, queue)
    message = await dequeue(api, queue)
    answer = await api.post(f"/queue/message/{message['id']}/nack", json={"delay": delay})
    assert [path for _, path in issues(answer)] == [["delay"]]
    assert (await ack(api, message["id"], message["lock_token"])).status_code == 200
