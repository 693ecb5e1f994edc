"""Activity, anomalies and consumers, over HTTP."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.rest.calls import NOBODY, STRANGER, add, dequeue, issues
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    import httpx

    from tests.postgres import Connect

KEYS = {
    "log_id",
    "message_id",
    "action",
    "timestamp",
    "queue",
    "source_queue",
    "dest_queue",
    "priority",
    "message_type",
    "consumer_id",
    "prev_consumer_id",
    "lock_token",
    "attempt_count",
    "max_attempts",
    "attempts_remaining",
    "message_age_ms",
    "time_in_queue_ms",
    "processing_time_ms",
    "payload",
    "payload_size_bytes",
    "error_reason",
    "triggered_by",
    "batch_id",
    "batch_size",
    "anomaly",
}


async def show(api: httpx.AsyncClient, path: str, **parameters: Any) -> dict[str, Any]:
    answer = await api.get(f"/queue/activity{path}", params=parameters)
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


async def find_anomalies(
    api: httpx.AsyncClient, queue: str, count: int = 1, **parameters: Any
) -> dict[str, Any]:
    """Return the queue's anomalies once there are enough: they are found with a delay."""
    while True:
        found = await show(api, "/anomalies", queue_name=queue, **parameters)
        if len(found["anomalies"]) >= count:
            return found
        await asyncio.sleep(0.02)


async def settle(api: httpx.AsyncClient, verb: str, message: dict[str, Any]) -> None:
    token = message["lock_token"]
    if verb == "ack":
        answer = await api.post("/queue/ack", json={"id": message["id"], "lock_token": token})
    else:
        body = {"lock_token": token, "errorReason": "broken"}
        answer = await api.post(f"/queue/message/{message['id']}/nack", json=body)
    assert answer.status_code == 200, answer.text


async def test_log_lists_every_event_of_a_message(api: httpx.AsyncClient, queue: str) -> None:
    began = time.time()
    message_id = await add(api, queue, {"a": 1}, priority=4)
    await settle(api, "nack", await dequeue(api, queue, consumerId="first"))
    taken = await dequeue(api, queue, consumerId="second")
    await settle(api, "ack", taken)
    shown = await show(api, "", queue_name=queue)
    logs = shown["logs"]
    assert [log["action"] for log in logs] == [
        "acknowledge",
        "dequeue",
        "nack",
        "dequeue",
        "enqueue",
        "create_queue",
    ]
    assert shown["total"] == 6
    assert shown["pagination"] == {
        "total": 6,
        "limit": 100,
        "offset": 0,
        "has_more": False,
        "hasMore": False,
    }
    assert all(log.keys() >= KEYS for log in logs)
    assert all(log["queue"] == queue for log in logs)
    assert [log["message_id"] for log in logs] == [message_id] * 5 + [None]
    assert all(abs(log["timestamp"] - began) < 60 for log in logs)
    acknowledged, dequeued, nacked, _, enqueued, _ = logs
    assert acknowledged["processing_time_ms"] >= 0
    assert [log["payload"] for log in logs] == [{"a": 1}] * 5 + [None]
    assert {log["triggered_by"] for log in logs} == {"api"}
    # Only a move by hand names the states.
    assert {(log["source_queue"], log["dest_queue"]) for log in logs} == {(None, None)}
    assert dequeued["time_in_queue_ms"] >= 0
    assert (dequeued["consumer_id"], dequeued["lock_token"]) == ("second", taken["lock_token"])
    assert (dequeued["attempt_count"], dequeued["attempts_remaining"]) == (2, 1)
    assert nacked["error_reason"] == "broken"
    assert (enqueued["priority"], enqueued["message_type"]) == (4, "job")
    assert enqueued["payload_size_bytes"] == len('{"a":1}')
    assert (enqueued["batch_id"], enqueued["batch_size"]) == (None, None)


async def test_log_shows_who_enqueued(api: httpx.AsyncClient, queue: str) -> None:
    expected = {
        await add(api, queue, 1, consumerId="shop"): "shop",
        await add(api, queue, 2): None,
    }
    # In one call for all, if the server is busy enough.
    names = [None, "shop", "till", "shop"] * 5
    ids = await asyncio.gather(
        *[add(api, queue, n, consumerId=name) for n, name in enumerate(names)]
    )
    expected |= dict(zip(ids, names, strict=True))
    for types in (1, 3):
        batch = [
            {"type": f"t{n % types}", "payload": n, "queue": queue, "consumerId": name}
            for n, name in enumerate(names)
        ]
        ids = (await api.post("/queue/batch", json=batch)).json()["ids"]
        expected |= dict(zip(ids, names, strict=True))
    logs = (await show(api, "", queue_name=queue, action="enqueue"))["logs"]
    assert {log["message_id"]: log["consumer_id"] for log in logs} == expected
    logs = (await show(api, "", queue_name=queue, consumer_id="till"))["logs"]
    tills = {message_id for message_id, name in expected.items() if name == "till"}
    assert {log["message_id"] for log in logs} == tills
    for message_id, name in expected.items():
        [log] = (await show(api, f"/message/{message_id}"))["history"]
        assert log["consumer_id"] == name
    # Producers are no consumers, and the message has none until it is in flight.
    assert (await show(api, "/consumers", consumer_id="till"))["stats"] == {}
    listed = await api.get("/queue/main/messages", params={"queueName": queue})
    assert {message["consumer_id"] for message in listed.json()["messages"]} == {None}
    # Detectors read these events, too.
    found = await find_anomalies(api, queue, 2, type="bulk_enqueue")
    assert {each["anomaly"]["actual"] for each in found["anomalies"]} == {20}


@pytest.mark.parametrize("name", ["x" * 256, "a\0b"])
async def test_impossible_name_of_a_producer_is_refused(
    api: httpx.AsyncClient, queue: str, name: str
) -> None:
    body = {"type": "job", "payload": 1, "queue": queue, "consumerId": name}
    for answer in (
        await api.post("/queue/message", json=body),
        await api.post("/queue/batch", json=[body]),
    ):
        assert [path[-1] for _, path in issues(answer)] == ["consumerId"]


async def test_large_payload_is_not_in_the_log(api: httpx.AsyncClient, queue: str) -> None:
    largest = "x" * (16 * 1024 - 2)
    message_id = await add(api, queue, largest)
    larger = await add(api, queue, largest + "x")
    shown = await show(api, "", queue_name=queue, action="enqueue")
    payloads = {log["message_id"]: log["payload"] for log in shown["logs"]}
    assert payloads == {message_id: largest, larger: None}
    [log] = (await show(api, f"/message/{message_id}"))["history"]
    assert log["payload"] == largest


async def test_history_is_the_same_in_order(api: httpx.AsyncClient, queue: str) -> None:
    message_id = await add(api, queue)
    await settle(api, "ack", await dequeue(api, queue))
    shown = await show(api, f"/message/{message_id}")
    assert shown["message_id"] == message_id
    assert [log["action"] for log in shown["history"]] == ["enqueue", "dequeue", "acknowledge"]
    listed = await show(api, "", message_id=message_id)
    # Findings come after the fact, so that they may be in the one and not yet in the other.
    ids = [log["log_id"] for log in shown["history"]]
    assert [log["log_id"] for log in reversed(listed["logs"])] == ids


@pytest.mark.parametrize("message_id", [NOBODY, "nonsense"])
async def test_unknown_message_has_no_history(api: httpx.AsyncClient, message_id: str) -> None:
    shown = await show(api, f"/message/{message_id}")
    assert shown == {"message_id": message_id, "history": []}
    assert (await show(api, "", message_id=message_id))["logs"] == []


async def test_batch_is_listed_message_by_message_and_paged(
    api: httpx.AsyncClient, queue: str
) -> None:
    batch = [{"type": "job", "payload": n, "queue": queue} for n in range(5)]
    ids = (await api.post("/queue/batch", json=batch)).json()["ids"]
    found: list[Any] = []
    for offset in (0, 2, 4):
        shown = await show(api, "", queue_name=queue, action="enqueue", limit=2, offset=offset)
        assert shown["pagination"]["has_more"] == (offset < 4)
        assert shown["pagination"]["hasMore"] == (offset < 4)
        assert shown["total"] == 5
        found += shown["logs"]
    assert [log["message_id"] for log in found] == ids
    assert len({log["log_id"] for log in found}) == 5
    assert {log["batch_size"] for log in found} == {5}
    assert len({log["batch_id"] for log in found}) == 1


async def test_log_is_filtered(api: httpx.AsyncClient, queue: str) -> None:
    message_id = await add(api, queue)
    await settle(api, "ack", await dequeue(api, queue, consumerId=f"worker of {queue}"))
    now = time.time()

    async def actions(**parameters: Any) -> list[str]:
        logs = (await show(api, "", **parameters))["logs"]
        return [log["action"] for log in logs]

    assert await actions(queue_name=queue, action="enqueue,dequeue") == ["dequeue", "enqueue"]
    assert await actions(consumer_id=f"worker of {queue}") == ["acknowledge", "dequeue"]
    assert await actions(message_id=message_id, action="dequeue") == ["dequeue"]
    assert await actions(queue_name=queue, end_time=now - 600) == []
    assert await actions(queue_name=queue, start_time=now + 600) == []
    assert len(await actions(queue_name=queue, start_time=now - 600, end_time=now + 600)) == 4
    assert await actions(queue_name="no-such-queue") == []


@pytest.mark.parametrize(
    ("parameters", "issue"),
    [
        ({"action": "enqueue,nonsense"}, ("invalid_enum_value", ["action"])),
        ({"limit": 0}, ("too_small", ["limit"])),
        ({"limit": 1001}, ("too_big", ["limit"])),
        ({"offset": -1}, ("too_small", ["offset"])),
        ({"start_time": "yesterday"}, ("invalid_type", ["start_time"])),
        ({"end_time": 1e300}, ("too_big", ["end_time"])),
        ({"has_anomaly": "perhaps"}, ("invalid_type", ["has_anomaly"])),
    ],
)
async def test_bad_filter_is_refused(
    api: httpx.AsyncClient, parameters: dict[str, Any], issue: tuple[str, list[str]]
) -> None:
    assert issues(await api.get("/queue/activity", params=parameters)) == [issue]


async def test_anomalies_are_listed(api: httpx.AsyncClient, queue: str) -> None:
    payload = "x" * 6000
    message_id = await add(api, queue, payload)
    found = await find_anomalies(api, queue)
    [entry] = found["anomalies"]
    anomaly = entry.pop("anomaly")
    assert anomaly.pop("description")
    assert anomaly == {
        "type": "large_payload",
        "severity": "info",
        "threshold": 5000,
        "actual": 6002,
    }
    assert entry.pop("timestamp") == pytest.approx(time.time(), abs=60)
    [log] = (await show(api, "", queue_name=queue, has_anomaly=True))["logs"]
    assert entry == {
        "log_id": log["log_id"],
        "message_id": message_id,
        "action": "enqueue",
        "queue": queue,
        "consumer_id": None,
        "payload": payload,
    }
    assert log["anomaly"]["type"] == "large_payload"
    assert found["summary"] == {
        "total": 1,
        "by_type": {"large_payload": 1},
        "by_severity": {"critical": 0, "warning": 0, "info": 1},
    }
    logs = (await show(api, "", queue_name=queue, has_anomaly=False))["logs"]
    assert [log["action"] for log in logs] == ["create_queue"]
    typed = await show(api, "", queue_name=queue, anomaly_type="flash_message")
    assert typed["logs"] == []


async def test_ack_with_a_wrong_token_is_a_lock_stolen_anomaly(
    api: httpx.AsyncClient, queue: str
) -> None:
    message_id = await add(api, queue)
    await dequeue(api, queue)
    answer = await api.post("/queue/ack", json={"id": message_id, "lock_token": STRANGER})
    assert answer.status_code == 409
    found = await find_anomalies(api, queue, severity="critical")
    [entry] = found["anomalies"]
    assert (entry["anomaly"]["type"], entry["message_id"]) == ("lock_stolen", message_id)


async def test_near_dead_letter_anomalies_are_listed_and_sorted(
    api: httpx.AsyncClient, queue: str
) -> None:
    await add(api, queue, maxAttempts=2)
    for _ in range(2):
        await settle(api, "nack", await dequeue(api, queue))
    # Whether they were also dequeued remarkably soon depends on the machine.
    await find_anomalies(api, queue, type="near_dlq")
    await find_anomalies(api, queue, type="dlq_movement")
    found = await show(api, "/anomalies", queue_name=queue, sort_by="type", sort_order="asc")
    types = [entry["anomaly"]["type"] for entry in found["anomalies"]]
    assert set(types) - {"flash_message"} == {"dlq_movement", "near_dlq"}
    assert types == sorted(types)
    assert found["summary"]["by_severity"]["warning"] == len(types)
    one = await show(api, "/anomalies", queue_name=queue, limit=1)
    assert len(one["anomalies"]) == 1
    assert one["summary"]["total"] == len(types)
    logs = (await show(api, "", queue_name=queue, action="move_to_dlq"))["logs"]
    assert [(log["dest_queue"], log["error_reason"]) for log in logs] == [(None, "broken")]


async def test_timeouts_have_their_own_reasons(api: httpx.AsyncClient, queue: str) -> None:
    await add(api, queue, maxAttempts=2)
    for _ in range(2):
        await dequeue(api, queue, ackTimeout=0.001, timeout=30, consumerId="slow")
    while True:
        wanted = {"queue_name": queue, "action": "timeout_requeue,timeout_to_dlq"}
        logs = (await show(api, "", **wanted))["logs"]
        if len(logs) == 2:
            break
        await asyncio.sleep(0.02)
    assert [log["action"] for log in logs] == ["timeout_to_dlq", "timeout_requeue"]
    assert {log["triggered_by"] for log in logs} == {"relay-actor"}
    assert {log["prev_consumer_id"] for log in logs} == {"slow"}


async def test_manual_operations_are_logged(api: httpx.AsyncClient, queue: str) -> None:
    ids = [await add(api, queue) for _ in range(3)]
    body = {"messages": ids[:1], "fromQueue": "main", "toQueue": "dead"}
    assert (await api.post("/queue/move", json=body)).status_code == 200
    answer = await api.delete(f"/queue/message/{ids[0]}", params={"queueType": "dead"})
    assert answer.json()["success"] is True
    answer = await api.post(
        "/queue/messages/delete", params={"queueType": "main"}, json={"messageIds": ids[1:]}
    )
    assert answer.json()["deletedCount"] == 2
    assert (await api.post(f"/queues/{queue}/purge", json={})).status_code == 200
    logs = (await show(api, "", queue_name=queue))["logs"]
    assert [log["action"] for log in logs] == [
        "purge_queue",
        "bulk_delete",
        "bulk_delete",
        "delete",
        "move",
        *["enqueue"] * 3,
        "create_queue",
    ]
    assert {log["consumer_id"] for log in logs[:5]} == {"user-manual-operation"}
    assert {log["triggered_by"] for log in logs} == {"api"}
    assert (logs[4]["source_queue"], logs[4]["dest_queue"]) == ("main", "dead")
    found = await find_anomalies(api, queue, type="queue_cleared")
    assert found["anomalies"][0]["message_id"] is None


async def test_bulk_operations_are_anomalies(api: httpx.AsyncClient, queue: str) -> None:
    batch = [{"type": "job", "payload": n, "queue": queue} for n in range(10)]
    await api.post("/queue/batch", json=batch)
    found = await find_anomalies(api, queue, type="bulk_enqueue")
    assert found["anomalies"][0]["anomaly"]["actual"] == 10


async def test_many_single_requests_are_no_bulk_anomaly(api: httpx.AsyncClient, queue: str) -> None:
    """They ride in one call, whose largest request counts; a real bulk among them is told."""
    one = {"type": "job", "payload": 1, "queue": queue}
    singles = [api.post("/queue/message", json=one) for _ in range(60)]
    answers = await asyncio.gather(*singles, api.post("/queue/batch", json=[one] * 11))
    assert {answer.status_code for answer in answers} == {201}
    found = await find_anomalies(api, queue, type="bulk_enqueue")
    assert [each["anomaly"]["actual"] for each in found["anomalies"]] == [11]


@pytest.mark.parametrize(
    ("parameters", "place"),
    [({"severity": "bad"}, "severity"), ({"sort_by": "at; drop table"}, "sort_by")],
)
async def test_bad_choice_of_anomalies_is_refused(
    api: httpx.AsyncClient, parameters: dict[str, str], place: str
) -> None:
    answer = await api.get("/queue/activity/anomalies", params=parameters)
    assert issues(answer) == [("invalid_enum_value", [place])]


async def test_consumers_are_counted_at_once(api: httpx.AsyncClient, queue: str) -> None:
    one, other = f"worker of {queue}", f"helper of {queue}"
    batch = [{"type": f"type-{n % 3}", "payload": n, "queue": queue} for n in range(12)]
    await api.post("/queue/batch", json=batch)
    for count in range(1, 4):
        await dequeue(api, queue, consumerId=one)
        stats = (await show(api, "/consumers", consumer_id=one))["stats"]
        assert stats.keys() == {one}
        assert stats[one]["dequeue_count"] == count
        assert stats[one]["last_dequeue"] == pytest.approx(time.time(), abs=60)
    # Of several types, and of several consumers at once.
    polls = [
        api.get("/queue/messages/batch", params={"queue": queue, "count": n, "consumerId": name})
        for n, name in ((5, one), (4, other))
    ]
    assert [answer.json()["count"] for answer in await asyncio.gather(*polls)] == [5, 4]
    stats = (await show(api, "/consumers"))["stats"]
    assert (stats[one]["dequeue_count"], stats[other]["dequeue_count"]) == (8, 4)


async def test_activity_can_be_cleared(database: str) -> None:
    async with run_laneway(database) as server, server.client() as api:
        await add(api, "default", "x" * 6000)
        await find_anomalies(api, "default")
        await dequeue(api, "default", consumerId="worker")
        assert (await show(api, "/consumers"))["stats"].keys() == {"worker"}
        answer = await api.delete("/queue/activity/clear")
        assert answer.status_code == 200
        assert answer.json()["success"] is True
        assert (await show(api, ""))["logs"] == []
        assert (await show(api, "/anomalies"))["summary"]["total"] == 0
        assert (await show(api, "/consumers"))["stats"] == {}
        await add(api, "default")
        assert [log["action"] for log in (await show(api, ""))["logs"]] == ["enqueue"]


async def test_settings_come_from_the_environment(database: str, connect: Connect) -> None:
    settings = {
        "ACTIVITY_LARGE_PAYLOAD_THRESHOLD_BYTES": "3",
        "ACTIVITY_FLASH_MESSAGE_THRESHOLD_MS": "0",
        "ACTIVITY_BURST_THRESHOLD_COUNT": "1",
        "ACTIVITY_LOG_RETENTION_HOURS": "48",
    }
    async with run_laneway(database, **settings) as server, server.client() as api:
        await add(api, "default", "long")
        await dequeue(api, "default", consumerId="worker")
        found = await find_anomalies(api, "default", 2)
        types = {entry["anomaly"]["type"] for entry in found["anomalies"]}
        assert types == {"large_payload", "burst_dequeue"}
        kept = await (await connect()).fetchval("select event_retention from laneway.policy")
        assert kept == timedelta(hours=48)


async def test_disabled_activity_records_nothing(database: str) -> None:
    off = {"ACTIVITY_LOG_ENABLED": "false"}
    async with run_laneway(database, **off) as server, server.client() as api:
        message_id = await add(api, "default", "x" * 6000)
        await dequeue(api, "default")
        await api.post("/queue/ack", json={"id": message_id, "lock_token": STRANGER})
        actions = [log["action"] for log in (await show(api, ""))["logs"]]
        assert actions == ["create_queue"]
        assert (await show(api, "/anomalies"))["anomalies"] == []
