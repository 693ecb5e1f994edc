"""Known pitfalls of brokers with this protocol that no other test covers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING

import asyncpg

from laneway.engine.notifications import CATALOG, HELLO, SESSION, WAKE
from tests.protocol.rest.calls import add, dequeue
from tests.protocol.servers import make_queue, run_laneway

if TYPE_CHECKING:
    import httpx

    from tests.postgres import Connect
    from tests.protocol.conftest import Shared

SECRET = "a-secret-that-nobody-prints"  # noqa: S105 - what is tested
MARKUP = "<img src=x onerror=alert(1)></script><script>alert(1)</script>"
MANY = 20_000


async def test_secret_is_never_returned(database: str) -> None:
    async with run_laneway(database, "--log-level", "debug", SECRET_KEY=SECRET) as server:
        async with server.client() as api:
            for path in ("/reference", "/doc", "/docs", "/health", "/queue/config"):
                answer = await api.get(path)
                assert SECRET not in answer.text, path
                assert SECRET not in str(answer.headers), path
        async with server.client(**{"X-API-KEY": SECRET}) as api:
            for path in ("/reference", "/queue/config", f"{server.url}/metrics", "/nowhere"):
                answer = await api.get(path)
                assert answer.status_code in {200, 404}
                assert SECRET not in answer.text, path
        assert SECRET not in server.log


async def test_markup_in_messages_is_never_served_as_html(
    api: httpx.AsyncClient, queue: str
) -> None:
    message_id = await add(api, queue, MARKUP, type="<b>")
    shown = {"queueName": queue}
    for path, parameters in (
        ("/queue/main/messages", shown),
        ("/queue/status", {**shown, "include_messages": "true"}),
        (f"/queue/activity/message/{message_id}", {}),
        (f"/queue/{MARKUP}/messages", {}),
        (f"/nowhere/{MARKUP}", {}),
        ("/queue/message", {"queue": MARKUP}),
        ("/queue/message", {"timeout": MARKUP}),
    ):
        answer = await api.get(path, params=parameters)
        assert answer.headers["content-type"].startswith("application/json"), path
        answer.json()
    export = await api.get("/queue/main/export", params=shown)
    assert export.headers["content-type"].startswith("application/json")
    assert export.headers["content-disposition"].startswith("attachment;")
    assert [message["payload"] for message in export.json()] == [MARKUP]


async def test_text_payload_is_listed_edited_and_dequeued(
    api: httpx.AsyncClient, queue: str
) -> None:
    for payload in ("plain text", '"', "{not json", ""):
        message_id = await add(api, queue, payload)
        listed = await api.get("/queue/main/messages", params={"queueName": queue})
        assert [message["payload"] for message in listed.json()["messages"]] == [payload]
        edited = await api.put(
            f"/queue/message/{message_id}",
            params={"queueType": "main"},
            json={"payload": payload + "!"},
        )
        assert edited.json()["data"]["payload"] == payload + "!"
        message = await dequeue(api, queue)
        assert message["payload"] == payload + "!"
        await api.post("/queue/ack", json={"id": message_id})


async def test_settled_messages_are_deleted_after_their_retention(
    shared: Shared, api: httpx.AsyncClient
) -> None:
    name = "short-memory"
    body = {"name": name, "retention_interval": "1 second"}
    assert (await api.post("/queues", json=body)).status_code == 201
    for number in range(5):
        await add(api, name, number)
        await api.post("/queue/ack", json={"id": (await dequeue(api, name))["id"]})
    kept = await add(api, name, "kept")
    connection = await asyncpg.connect(shared.dsn)
    try:
        async with asyncio.timeout(60):
            # What maintenance does once a minute.
            while await count(api, name, "acknowledged"):
                await connection.execute("select laneway.retain()")
                await asyncio.sleep(0.1)
    finally:
        await connection.close()
    listed = await api.get("/queue/main/messages", params={"queueName": name})
    assert [message["id"] for message in listed.json()["messages"]] == [kept]


async def test_batch_notifies_other_processes_once(
    shared: Shared, api: httpx.AsyncClient, queue: str
) -> None:
    await make_queue(shared.dsn, "after")
    connection = await asyncpg.connect(shared.dsn, server_settings={"application_name": SESSION})
    heard: Counter[str] = Counter()
    arrived = asyncio.Event()

    def hear(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        _, _, ids = str(payload).partition(":")
        heard.update(part.removesuffix("+") for part in ids.split(","))
        arrived.set()

    async def wait_for(name: str) -> str:
        number = await connection.fetchval(
            "select queue_id::text from laneway.queue where name = $1", name
        )
        async with asyncio.timeout(30):
            while not heard[number]:
                arrived.clear()
                await arrived.wait()
        return str(number)

    try:
        await connection.add_listener(WAKE, hear)
        await connection.execute("select pg_notify($1, $2)", CATALOG, f"another:{HELLO}")
        batch = [{"type": "job", "payload": n, "queue": queue} for n in range(100)]
        assert (await api.post("/queue/batch", json=batch)).status_code == 201
        number = await wait_for(queue)
        # Told after all that there was to tell of the batch.
        await add(api, "after")
        await wait_for("after")
        assert heard[number] == 1
    finally:
        await connection.close()


async def test_list_does_not_read_the_whole_queue(database: str, connect: Connect) -> None:
    async with run_laneway(database, ACTIVITY_LOG_ENABLED="false") as server:
        async with server.client() as api:
            batch = json.dumps([{"type": "job", "payload": n} for n in range(MANY // 2)])
            for _ in range(2):
                answer = await api.post("/queue/batch", content=batch)
                assert answer.status_code == 201
        await server.stop()
    connection = await connect()
    before = await count_rows_read(connection)
    async with run_laneway(database, ACTIVITY_LOG_ENABLED="false") as server:
        async with server.client() as api:
            for _ in range(5):
                answer = await api.get("/queue/main/messages", params={"limit": 10})
                assert len(answer.json()["messages"]) == 10
                assert answer.json()["pagination"]["total"] == MANY
                assert (await api.get("/queue/metrics")).json()["queued"] == MANY
                assert (await api.get("/queue/status")).json()["mainQueue"]["length"] == MANY
                assert (await api.get("/queues")).json()["queues"][0]["message_count"] == MANY
        await server.stop()
    assert await count_rows_read(connection) - before < MANY


async def count(api: httpx.AsyncClient, queue: str, part: str) -> int:
    answer = await api.get(f"/queue/{part}/messages", params={"queueName": queue})
    total: int = answer.json()["pagination"]["total"]
    return total


async def count_rows_read(connection: asyncpg.Connection[asyncpg.Record]) -> int:
    """Return how many rows of messages were read so far, once nobody else is connected."""
    async with asyncio.timeout(30):
        while await connection.fetchval(
            "select count(*) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        ):
            await asyncio.sleep(0.01)
    await connection.execute("select pg_stat_clear_snapshot()")
    rows: int = await connection.fetchval(
        "select (select sum(seq_tup_read)::bigint from pg_stat_user_tables "
        "         where relid::regclass::text ~ '^laneway\\.message') "
        "     + (select sum(idx_tup_read)::bigint from pg_stat_user_indexes "
        "         where relid::regclass::text ~ '^laneway\\.message')"
    )
    return rows
