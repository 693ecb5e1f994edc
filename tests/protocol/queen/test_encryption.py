"""Encrypted queues: what is stored, and what happens without the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncpg
import httpx
import pytest
import pytest_asyncio

from tests.protocol.queen.calls import ack, data_of, pop, push
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queen import Queen

    from tests.protocol.conftest import Shared
    from tests.protocol.servers import RunningServer


KEYS = {"no key": "", "another key": "cd" * 32}


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=KEYS)
async def blind_server(
    shared: Shared, request: pytest.FixtureRequest
) -> AsyncIterator[RunningServer]:
    async with run_laneway(shared.dsn, QUEEN_ENCRYPTION_KEY=KEYS[request.param]) as server:
        yield server


@pytest.fixture
async def blind(blind_server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a server on the same database that has no key, or another."""
    async with httpx.AsyncClient(base_url=f"{blind_server.url}/api/v1", timeout=30) as client:
        yield client


async def configure(http: httpx.AsyncClient, name: str, **options: Any) -> None:
    body = {"queue": name, "options": {"encryptionEnabled": True, **options}}
    answer = await http.post("/configure", json=body)
    assert answer.status_code == 201, answer.text


async def test_encrypted_queues_store_nothing_that_can_be_read(
    queen: Queen, name: str, http: httpx.AsyncClient, shared: Shared
) -> None:
    await configure(http, name, retryLimit=0)
    secret = {"word": "open sesame"}
    await push(queen, name, [secret, "next"])
    connection = await asyncpg.connect(shared.dsn)
    stored = await connection.fetchval(
        "select string_agg(m.body::text, '') from laneway.message m join laneway.lane l using (lane_id) "
        "join laneway.queue q using (queue_id) where q.name = $1",
        name,
    )
    await connection.close()
    assert "sesame" not in stored
    assert "authTag" in stored
    messages = await pop(queen, name, 2)
    assert data_of(messages) == [secret, "next"]
    await ack(queen, messages[0], False)
    assert data_of((await queen.queue(name).dlq().get())["messages"]) == [secret]
    listed = (await queen.admin.list_messages(queue=name, status="pending"))["messages"]
    assert data_of(listed) == ["next"]


async def test_without_a_key_nothing_is_encrypted_and_nothing_stored(
    queen: Queen, name: str, http: httpx.AsyncClient, shared: Shared
) -> None:
    await configure(http, f"{name}-sealed")
    async with run_laneway(shared.dsn) as keyless:
        url = f"{keyless.url}/api/v1"
        body: dict[str, Any] = {"queue": name, "options": {"encryptionEnabled": True}}
        answer = await http.post(f"{url}/configure", json=body)
        assert answer.status_code == 400
        assert "QUEEN_ENCRYPTION_KEY" in answer.json()["error"]
        item = {"queue": f"{name}-sealed", "payload": "plain"}
        answer = await http.post(f"{url}/push", json={"items": [item]})
        assert answer.status_code == 503
        assert "QUEEN_ENCRYPTION_KEY" in answer.json()["error"]
        items = [{"queue": f"{name}-new", "payload": 1}, item]
        assert (await http.post(f"{url}/push", json={"items": items})).status_code == 503
    assert await pop(queen, f"{name}-sealed") == []
    assert (await http.get(f"/resources/queues/{name}-new")).status_code == 404


async def test_without_the_right_key_a_pop_is_refused_and_changes_nothing(
    queen: Queen, name: str, http: httpx.AsyncClient, blind: httpx.AsyncClient
) -> None:
    queue = f"{name}.sealed"
    await configure(http, queue, retryLimit=0)
    await push(queen, queue, ["secret"])
    await push(queen, queue, ["other"], partition="b")
    parameters: dict[str, Any]
    for parameters in ({}, {"autoAck": True}, {"partitions": 2, "batch": 9}, {"wait": True}):
        for path in (f"/pop/queue/{queue}", f"/pop/queue/{queue}/partition/b"):
            answer = await blind.get(path, params=parameters)
            assert answer.status_code == 503
            assert "key" in answer.json()["error"]
        answer = await blind.get("/pop", params={"namespace": name, **parameters})
        assert answer.status_code == 503
    messages = await pop(queen, queue) + await pop(queen, queue)
    assert sorted((message["data"], message["retryCount"]) for message in messages) == [
        ("other", 0),
        ("secret", 0),
    ]
    assert (await queen.queue(queue).dlq().get())["total"] == 0


async def test_without_the_right_key_messages_are_listed_without_their_payload(
    queen: Queen, name: str, http: httpx.AsyncClient, blind: httpx.AsyncClient
) -> None:
    await configure(http, name)
    await push(queen, name, ["secret"])
    await push(queen, f"{name}-plain", [None])
    [message] = await pop(queen, name)
    [plain] = await pop(queen, f"{name}-plain")
    await ack(queen, message, "dlq", error="no use")
    await ack(queen, plain, "dlq")
    for path in ("/dlq?limit=1000", f"/dlq?queue={name}", f"/messages?queue={name}"):
        answer = await blind.get(path)
        assert answer.status_code == 200
        [letter] = [each for each in answer.json()["messages"] if each["queue"] == name]
        assert (letter["data"], letter["sealed"], letter["errorMessage"]) == (None, True, "no use")
    [letter] = (await blind.get("/dlq", params={"queue": f"{name}-plain"})).json()["messages"]
    assert (letter["data"], letter["sealed"]) == (None, False)
    path = f"/messages/{message['partitionId']}/{message['transactionId']}"
    assert (await blind.get(path)).json()["sealed"]
    shown = (await http.get(path)).json()
    assert (shown["data"], shown["sealed"]) == ("secret", False)


async def test_bytes_that_are_not_text_are_not_encrypted(
    http: httpx.AsyncClient, name: str
) -> None:
    await http.post("/configure", json={"queue": name, "options": {"encryptionEnabled": True}})
    item = b'{"queue":"%b","payload":"\xff"}' % name.encode()
    for path, body in (
        ("/push", b'{"items":[%b]}' % item),
        ("/transaction", b'{"operations":[{"type":"push","items":[%b]}]}' % item),
    ):
        answer = await http.post(path, content=body)
        assert answer.status_code == 400, (path, answer.text)
        assert "Malformed JSON" in answer.json()["error"]
    assert (await http.get(f"/pop/queue/{name}")).status_code == 204
