"""Limited keys: operations other than enqueue and dequeue."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import asyncpg
import pytest

from laneway.domain.keys import Role, make_key
from laneway.engine.procedures.keys import create_api_key
from tests.protocol.rest.calls import add
from tests.protocol.servers import make_queue, run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

SECRET = "owner"  # noqa: S105 - what else would a test of secrets have


class Pair:
    """Clients of one server: the owner, and one whose key is for mail-* only."""

    def __init__(self, owner: httpx.AsyncClient, limited: httpx.AsyncClient) -> None:
        self.owner = owner
        self.limited = limited


@pytest.fixture
async def pair(database: str) -> AsyncIterator[Pair]:
    for name in ("mail-1", "fax"):
        await make_queue(database, name)
    key = make_key()
    connection = await asyncpg.connect(database)
    await create_api_key(
        connection,
        key_id=key.key_id,
        name="limited",
        role=Role.ADMIN,
        pattern="mail-*",
        digest=key.digest,
    )
    await connection.close()
    async with run_laneway(database, SECRET_KEY=SECRET) as server:
        owner = server.client(**{"X-API-KEY": SECRET})
        limited = server.client(**{"X-API-KEY": key.text})
        async with owner, limited:
            yield Pair(owner, limited)


async def test_limited_key_sees_and_touches_its_queues_only(pair: Pair) -> None:
    mail, fax = await add(pair.owner, "mail-1"), await add(pair.owner, "fax")
    api = pair.limited

    queues = (await api.get("/queues")).json()
    assert ([queue["name"] for queue in queues["queues"]], queues["total"]) == (["mail-1"], 1)
    listed = (await api.get("/queue/main/messages")).json()
    assert [message["id"] for message in listed["messages"]] == [mail]
    assert listed["pagination"]["total"] == 1
    exported = (await api.get("/queue/main/export")).json()
    assert [message["id"] for message in exported] == [mail]
    recent = {"startTimestamp": "2001-01-01", "endTimestamp": "2101-01-01"}
    assert [m["id"] for m in (await api.get("/queue/messages", params=recent)).json()] == [mail]
    assert (await api.get("/queue/metrics")).json()["queued"] == 1
    assert (await api.get("/queue/status")).json()["mainQueue"]["length"] == 1

    for refused in (
        await api.get("/queues/fax"),
        await api.patch("/queues/fax", json={"max_attempts": 1}),
        await api.delete("/queues/fax"),
        await api.post("/queues/fax/purge"),
        await api.post("/queues/mail-1/rename", json={"newName": "fax-2"}),
        await api.post("/queues", json={"name": "letters"}),
        await api.get("/queue/main/messages", params={"queueName": "fax"}),
        await api.get("/queue/main/export", params={"queueName": "fax"}),
        await api.get("/queue/status", params={"queueName": "fax"}),
        await api.delete("/queue/clear"),
        await api.delete("/queue/main/clear"),
        await api.delete("/queue/messages", params=recent),
        await api.post("/queue/import", files={"file": json.dumps([{"payload": 1}]).encode()}),
    ):
        assert refused.status_code == 403, (refused.request.url, refused.text)
        assert refused.json()["error"] == "Forbidden"
    # Of messages of other queues there is nothing, whether they exist or not.
    edited = await api.put(f"/queue/message/{fax}?queueType=main", json={"priority": 1})
    assert edited.status_code == 404
    gone = await api.delete(f"/queue/message/{fax}?queueType=main")
    assert gone.json() == {"success": False}
    chosen = {"messageIds": [fax]}
    gone = await api.post("/queue/messages/delete?queueType=main", json=chosen)
    assert gone.json()["deletedCount"] == 0
    moved = {"messages": [fax], "fromQueue": "main", "toQueue": "dead"}
    assert (await api.post("/queue/move", json=moved)).json()["movedCount"] == 0
    everything = (await pair.owner.get("/queue/main/messages")).json()
    assert {message["id"] for message in everything["messages"]} == {mail, fax}

    content = json.dumps([{"payload": 1, "queue": "mail-1"}]).encode()
    assert (await api.post("/queue/import", files={"file": content})).status_code == 200
    assert (await api.post("/queues", json={"name": "mail-2"})).status_code == 201
    assert (await api.delete("/queue/main/clear", params={"queueName": "mail-1"})).is_success
    assert (await pair.owner.get("/queue/metrics")).json()["queued"] == 1
