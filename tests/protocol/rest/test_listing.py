"""GET /queue/{part}/messages, /queue/messages and /queue/{part}/export; POST /queue/import."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.rest.calls import add, dequeue, issues
from tests.protocol.servers import make_queue, run_laneway

if TYPE_CHECKING:
    import httpx

MESSAGE = {
    "id",
    "queue_name",
    "type",
    "payload",
    "priority",
    "status",
    "attempt_count",
    "max_attempts",
    "ack_timeout_seconds",
    "lock_token",
    "locked_until",
    "consumer_id",
    "created_at",
    "dequeued_at",
    "acknowledged_at",
    "last_error",
    "payload_size",
    "_stream_name",
    "_stream_id",
}


async def listing(
    api: httpx.AsyncClient, queue: str | None, part: str = "main", **parameters: Any
) -> dict[str, Any]:
    if queue is not None:
        parameters["queueName"] = queue
    answer = await api.get(f"/queue/{part}/messages", params=parameters)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def list_ids(api: httpx.AsyncClient, queue: str, part: str = "main", **filters: Any) -> Any:
    return [item["id"] for item in (await listing(api, queue, part, **filters))["messages"]]


async def upload(api: httpx.AsyncClient, content: bytes) -> httpx.Response:
    return await api.post("/queue/import", files={"file": ("messages.json", content)})


async def test_each_state_lists_its_messages(api: httpx.AsyncClient, queue: str) -> None:
    ids = [await add(api, queue, {"n": n}, priority=9 - n) for n in range(5)]
    for part in ("processing", "dead", "acknowledged", "archived"):
        dequeued = await dequeue(api, queue, consumerId="c")
        if part != "processing":
            await api.post(
                "/queue/move",
                json={
                    "messages": [dequeued],
                    "fromQueue": "processing",
                    "toQueue": part,
                    "errorReason": "by hand",
                },
            )
    parts = ("processing", "dead", "acknowledged", "archived", "main")
    for message_id, part in zip(ids, parts, strict=True):
        body = await listing(api, queue, part)
        assert body["pagination"] == {
            "total": 1,
            "page": 1,
            "limit": 100,
            "totalPages": 1,
            "hasMore": False,
        }
        (message,) = body["messages"]
        assert set(message) - {"processing_started_at"} == MESSAGE
        state = "queued" if part == "main" else part
        assert (message["id"], message["status"]) == (message_id, state)
        assert (message["_stream_id"], message["_stream_name"]) == (message_id, f"queue_{state}")
        assert message["queue_name"] == queue
        assert (message["lock_token"] is not None) == (part == "processing")
        if part == "dead":
            assert message["last_error"] == "by hand"


async def test_pages_are_consecutive(api: httpx.AsyncClient, queue: str) -> None:
    ids = [await add(api, queue) for _ in range(5)]
    first = await listing(api, queue, limit=2)
    assert [item["id"] for item in first["messages"]] == [ids[4], ids[3]]
    assert first["pagination"] == {
        "total": 5,
        "page": 1,
        "limit": 2,
        "totalPages": 3,
        "hasMore": True,
    }
    last = await listing(api, queue, limit=2, page=3)
    assert [item["id"] for item in last["messages"]] == [ids[0]]
    assert last["pagination"]["hasMore"] is False
    assert await list_ids(api, queue, limit=2, page=9) == []
    assert await list_ids(api, queue, sortOrder="asc") == ids
    assert await list_ids(api, queue, sortOrder="ASC", limit=1) == ids[:1]


async def test_filters_narrow_the_list(api: httpx.AsyncClient, queue: str) -> None:
    mail = await add(api, queue, {"to": "Ada"}, type="mail", priority=3)
    text = await add(api, queue, "a note", type="sms", priority=3)
    call = await add(api, queue, [1], type="call")
    assert await list_ids(api, queue, filterType="mail") == [mail]
    assert set(await list_ids(api, queue, filterType="mail, call")) == {mail, call}
    assert len(await list_ids(api, queue, filterType="all", filterPriority="all")) == 3
    assert set(await list_ids(api, queue, filterPriority=3)) == {mail, text}
    assert await list_ids(api, queue, search="ada") == [mail]
    assert await list_ids(api, queue, search="NOTE") == [text]
    assert await list_ids(api, queue, search=call) == [call]
    assert await list_ids(api, queue, search="nothing like it") == []
    assert await list_ids(api, queue, filterAttempts=1) == []
    body = await listing(api, queue, filterPriority=3, limit=1)
    assert (body["pagination"]["total"], body["pagination"]["hasMore"]) == (2, True)
    dequeued = await dequeue(api, queue, type="mail")
    await api.post(f"/queue/message/{dequeued['id']}/nack", json={"errorReason": "no"})
    assert await list_ids(api, queue, filterAttempts=1) == [mail]


async def test_dates_narrow_the_list(api: httpx.AsyncClient, queue: str) -> None:
    message_id = await add(api, queue)
    now = datetime.now(UTC)
    hour = timedelta(hours=1)
    for since in (
        (now - hour).isoformat(),
        (now - hour).isoformat().replace("+00:00", "Z"),
        (now - 24 * hour).date().isoformat(),
        str((now - hour).timestamp()),
        str(int((now - hour).timestamp() * 1000)),
    ):
        assert await list_ids(api, queue, startDate=since) == [message_id], since
        assert await list_ids(api, queue, endDate=since) == [], since
    assert await list_ids(api, queue, startDate=(now + hour).isoformat()) == []
    assert await list_ids(api, queue, endDate=(now + hour).isoformat()) == [message_id]


@pytest.mark.parametrize(
    ("sort", "fields"),
    [
        ("priority", [{"priority": 1}, {"priority": 5}]),
        ("type", [{"type": "a"}, {"type": "b"}]),
        ("payload_size", [{"payload": "x"}, {"payload": "xxxx"}]),
        ("id", [{}, {}]),
    ],
)
async def test_list_is_sorted_by_a_column(
    api: httpx.AsyncClient, queue: str, sort: str, fields: list[dict[str, Any]]
) -> None:
    ids = [await add(api, queue, **field) for field in fields]
    assert await list_ids(api, queue, sortBy=sort, sortOrder="asc") == ids
    assert await list_ids(api, queue, sortBy=sort) == ids[::-1]
    for order, expected in (("asc", ids), ("desc", ids[::-1])):
        parameters = {"queueName": queue, "sortBy": sort, "sortOrder": order}
        exported = (await api.get("/queue/main/export", params=parameters)).json()
        assert [message["id"] for message in exported] == expected


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"sortBy": "payload"}, "sortBy"),
        ({"sortBy": "created_at; drop table laneway.queue"}, "sortBy"),
        ({"sortOrder": "sideways"}, "sortOrder"),
        ({"page": 0}, "page"),
        ({"page": "two"}, "page"),
        ({"limit": 1001}, "limit"),
        ({"limit": -1}, "limit"),
        ({"filterPriority": "high"}, "filterPriority"),
        ({"filterAttempts": -1}, "filterAttempts"),
        ({"startDate": "yesterday"}, "startDate"),
        ({"endDate": "2024-13-01"}, "endDate"),
        ({"endDate": "0001-01-01T00:00:00+23:00"}, "endDate"),
        ({"startDate": "99999999999999999"}, "startDate"),
    ],
    ids=str,
)
async def test_bad_parameter_is_refused_by_name(
    api: httpx.AsyncClient, parameters: dict[str, Any], name: str
) -> None:
    for action in ("messages", "export"):
        if action == "export" and name in {"page", "limit"}:
            continue
        answer = await api.get(f"/queue/main/{action}", params=parameters)
        assert [path for _, path in issues(answer)] == [[name]]


async def test_text_with_a_nul_is_refused(api: httpx.AsyncClient) -> None:
    for name in ("search", "filterType", "queueName"):
        issues(await api.get("/queue/main/messages", params={name: "\0"}))


async def test_unknown_part_or_queue_is_refused(api: httpx.AsyncClient) -> None:
    for action in ("messages", "export"):
        answer = await api.get(f"/queue/waiting/{action}")
        assert issues(answer) == [("invalid_enum_value", ["queueType"])]
        answer = await api.get(f"/queue/main/{action}", params={"queueName": "nowhere"})
        assert (answer.status_code, answer.json()) == (404, {"message": "Queue not found: nowhere"})


async def test_list_without_a_queue_covers_every_queue(api: httpx.AsyncClient, queue: str) -> None:
    await api.delete("/queue/clear")
    other = f"{queue}-other"
    assert (await api.post("/queues", json={"name": other})).status_code == 201
    ids = [await add(api, queue), await add(api, other)]
    body = await listing(api, None)
    assert [item["id"] for item in body["messages"]] == ids[::-1]
    assert body["pagination"]["total"] == 2


async def test_payload_of_any_kind_is_listed(api: httpx.AsyncClient, queue: str) -> None:
    payloads = ["plain text", "", 17, None, False, [1, "x"], {"a": {"b": "\0"}}]
    for payload in payloads:
        await add(api, queue, payload)
    body = await listing(api, queue, sortOrder="asc")
    assert [item["payload"] for item in body["messages"]] == payloads
    assert (await listing(api, queue, search="plain"))["messages"][0]["payload"] == "plain text"
    status = await api.get("/queue/status", params={"queueName": queue})
    assert len(status.json()["mainQueue"]["messages"]) == len(payloads)


async def test_range_of_time_lists_and_deletes(database: str) -> None:
    """On a server of its own, because it concerns all queues."""
    await make_queue(database, "mail")
    async with run_laneway(database) as server, server.client() as api:
        await check_range_of_time(api, "mail")


async def check_range_of_time(api: httpx.AsyncClient, queue: str) -> None:
    ids = [await add(api, queue, "text") for _ in range(3)]
    await dequeue(api, queue)
    now = datetime.now(UTC)
    around = {
        "startTimestamp": (now - timedelta(minutes=5)).isoformat(),
        "endTimestamp": (now + timedelta(minutes=5)).isoformat(),
    }
    long_ago = {"startTimestamp": "2001-01-01", "endTimestamp": "2001-01-02T00:00:00Z"}
    answer = await api.get("/queue/messages", params=around)
    assert answer.status_code == 200, answer.text
    listed = answer.json()
    assert [message["id"] for message in listed] == ids[::-1]
    assert {message["status"] for message in listed} == {"queued", "processing"}
    assert len((await api.get("/queue/messages", params={**around, "limit": 2})).json()) == 2
    assert (await api.get("/queue/messages", params=long_ago)).json() == []
    answer = await api.delete("/queue/messages", params=long_ago)
    assert answer.json() == {"message": "0 messages removed successfully"}
    answer = await api.delete("/queue/messages", params=around)
    assert answer.status_code == 200
    assert answer.json() == {"message": "3 messages removed successfully"}
    assert (await api.get("/queue/messages", params=around)).json() == []
    later = await add(api, queue)
    assert (await dequeue(api, queue))["id"] == later


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_bad_range_of_time_is_refused(api: httpx.AsyncClient, method: str) -> None:
    good = {"startTimestamp": "2001-01-01", "endTimestamp": "2001-01-02"}
    for name in good:
        answer = await api.request(method, "/queue/messages", params={**good, name: "then"})
        assert issues(answer) == [("invalid_date", [name])]
        answer = await api.request(
            method, "/queue/messages", params={key: good[key] for key in good if key != name}
        )
        assert issues(answer) == [("invalid_type", [name])]


async def test_export_is_a_file_that_can_be_imported_again(
    api: httpx.AsyncClient, queue: str
) -> None:
    # More than one part of an export holds, with payloads that need care.
    batch = [
        {
            "type": f"t{n % 3}",
            "payload": {"n": n, "text": 'a "quoted" é'},
            "priority": n % 5,
            "queue": queue,
            "maxAttempts": 9,
            "ackTimeout": 2.5,
        }
        for n in range(1200)
    ]
    assert (await api.post("/queue/batch", json=batch)).status_code == 201
    answer = await api.get("/queue/main/export", params={"queueName": queue, "sortOrder": "asc"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert re.fullmatch(
        r'attachment; filename="main-queue-export-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.json"',
        answer.headers["content-disposition"],
    )
    exported = answer.json()
    assert sorted(message["payload"]["n"] for message in exported) == list(range(1200))
    times = [message["created_at"] for message in exported]
    assert times == sorted(times)

    await api.post(f"/queues/{queue}/purge")
    answer = await upload(api, answer.content)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"message": "Imported 1200 messages successfully", "count": 1200}
    again = await listing(api, queue, limit=1000, search='"n":1199')
    (message,) = [item for item in again["messages"] if item["payload"]["n"] == 1199]
    assert message["payload"] == batch[1199]["payload"]
    assert (message["type"], message["priority"]) == ("t2", 4)
    assert (message["max_attempts"], message["ack_timeout_seconds"]) == (9, 2.5)


async def test_export_accepts_the_filters_of_a_list(api: httpx.AsyncClient, queue: str) -> None:
    await add(api, queue, type="a")
    wanted = await add(api, queue, type="b")
    parameters = {"queueName": queue, "filterType": "b"}
    exported = (await api.get("/queue/main/export", params=parameters)).json()
    assert [message["id"] for message in exported] == [wanted]
    parameters["filterType"] = "c"
    assert (await api.get("/queue/main/export", params=parameters)).json() == []


async def test_import_takes_one_message_or_many_with_every_field(
    api: httpx.AsyncClient, queue: str
) -> None:
    one = {"payload": "alone", "queue": queue}
    assert (await upload(api, json.dumps(one).encode())).json()["count"] == 1
    (message,) = (await listing(api, queue))["messages"]
    assert (message["type"], message["payload"]) == ("default", "alone")
    many = [{"type": "x", "payload": None, "queue": queue, "priority": 5, "maxAttempts": 2}]
    assert (await upload(api, json.dumps(many).encode())).status_code == 200
    dequeued = await dequeue(api, queue)
    assert (dequeued["type"], dequeued["payload"], dequeued["max_attempts"]) == ("x", None, 2)
    assert (await upload(api, b"[]")).json() == {
        "message": "Imported 0 messages successfully",
        "count": 0,
    }


async def test_import_without_a_usable_file_is_refused(api: httpx.AsyncClient, queue: str) -> None:
    no_file = {"message": "No file uploaded or invalid file"}
    answer = await api.post("/queue/import", json=[{"payload": 1, "queue": queue}])
    assert (answer.status_code, answer.json()) == (400, no_file)
    answer = await api.post("/queue/import", files={"other": ("x", b"[]")})
    assert (answer.status_code, answer.json()) == (400, no_file)
    answer = await api.post("/queue/import", data={"file": "[]"}, files={"x": ("x", b"")})
    assert (answer.status_code, answer.json()) == (400, no_file)
    for kind in ("multipart/form-data", "multipart/form-data; boundary=x"):
        answer = await api.post("/queue/import", content=b"x", headers={"content-type": kind})
        assert (answer.status_code, answer.json()) == (400, no_file)
    for content in (b"", b"{", b"\xff", b"[]]", b'{"payload": 1', b'{"payload": ' + b"[" * 100_000):
        answer = await upload(api, content)
        assert (answer.status_code, answer.json()) == (400, {"message": "Invalid JSON content"})
    # Valid but for a byte that is no text.
    assert (await upload(api, b'{"payload": "\xff"}')).status_code == 400


async def test_bad_message_in_a_file_stores_none(api: httpx.AsyncClient, queue: str) -> None:
    good = {"payload": 1, "queue": queue}
    for bad, path in (
        ({"queue": queue}, [1, "payload"]),
        ({**good, "priority": 10}, [1, "priority"]),
        ({**good, "type": 5}, [1, "type"]),
        ({**good, "maxAttempts": 0}, [1, "maxAttempts"]),
        (17, [1]),
    ):
        answer = await upload(api, json.dumps([good, bad]).encode())
        assert [place for _, place in issues(answer)] == [path]
    answer = await upload(api, json.dumps([good, {"payload": 1, "queue": "nowhere"}]).encode())
    assert (answer.status_code, answer.json()) == (404, {"message": "Queue not found: nowhere"})
    assert await list_ids(api, queue) == []
