"""Changes made by other processes apply to the next request."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from tests.postgres import execute
from tests.protocol.queen.calls import data_of, pop, push

if TYPE_CHECKING:
    import httpx
    from queen import Queen

    from tests.protocol.conftest import Shared

UPDATE = "select laneway.update_queue('{name}', '{settings}')"
BODIES = (
    "select array_agg(m.body::text order by m.seq) from laneway.message m "
    "join laneway.lane l using (lane_id) join laneway.queue q using (queue_id) where q.name = $1"
)


async def configure(shared: Shared, name: str, **settings: Any) -> None:
    """Do as another process does whose notice has not come yet."""
    await execute(shared.dsn, UPDATE.format(name=name, settings=json.dumps(settings)))


async def read_stored(shared: Shared, name: str) -> list[str]:
    connection = await asyncpg.connect(shared.dsn)
    try:
        stored: list[str] = await connection.fetchval(BODIES, name)
    finally:
        await connection.close()
    return stored


async def add(http: httpx.AsyncClient, *items: dict[str, Any]) -> list[str]:
    answer = await http.post("/push", json={"items": items})
    assert answer.status_code == 201, answer.text
    return [result["status"] for result in answer.json()]


async def transact(http: httpx.AsyncClient, *items: dict[str, Any]) -> httpx.Response:
    return await http.post("/transaction", json={"operations": [{"type": "push", "items": items}]})


@pytest.mark.parametrize("way", ["push", "transaction"])
@pytest.mark.parametrize("named", [False, True])
async def test_messages_pushed_after_encryption_is_enabled_are_encrypted(
    http: httpx.AsyncClient, queen: Queen, name: str, shared: Shared, way: str, *, named: bool
) -> None:
    await add(http, {"queue": name, "payload": "early"}, {"queue": f"{name}-b", "payload": "early"})
    await configure(shared, name, encrypted=True)
    items: list[dict[str, Any]] = [
        {"queue": name, "payload": "sesame"},
        {"queue": f"{name}-b", "payload": "plain"},
    ]
    items = [{**item, "transactionId": "once"} for item in items] if named else items[:1]
    if way == "push":
        assert set(await add(http, *items)) == {"queued"}
    else:
        assert (await transact(http, *items)).json()["success"]
    stored = await read_stored(shared, name)
    assert len(stored) == 2
    assert "sesame" not in "".join(stored)
    assert data_of(await pop(queen, name, 2)) == ["early", "sesame"]


@pytest.mark.parametrize("before", [0, 100])
async def test_lowered_max_size_refuses_pushes(
    http: httpx.AsyncClient, name: str, shared: Shared, before: int
) -> None:
    await http.post("/configure", json={"queue": name, "options": {"maxSize": before}})
    item = {"queue": name, "payload": 1}
    assert await add(http, item) == ["queued"]
    await configure(shared, name, max_messages=2)
    assert await add(http, item, item) == ["queued", "failed"]
    assert await add(http, item) == ["failed"]


async def test_new_window_buffer_hides_later_messages(
    http: httpx.AsyncClient, queen: Queen, name: str, shared: Shared
) -> None:
    await push(queen, name, ["early"])
    answer = await http.get(f"/pop/queue/{name}", params={"autoAck": "true"})
    assert answer.status_code == 200
    await configure(shared, name, rest_window="1000 seconds")
    await push(queen, name, ["hidden"])
    assert await pop(queen, name) == []


async def test_removed_options_no_longer_apply(
    http: httpx.AsyncClient, queen: Queen, name: str, shared: Shared
) -> None:
    options = {"encryptionEnabled": True, "maxSize": 1}
    await http.post("/configure", json={"queue": name, "options": options})
    await push(queen, name, ["sealed"])
    await configure(shared, name, encrypted=False, max_messages=None)
    await push(queen, name, ["plain"])
    stored = await read_stored(shared, name)
    assert stored[-1] == '"plain"'
    assert data_of(await pop(queen, name)) == ["sealed", "plain"]


@pytest.mark.parametrize("options", [{}, {"maxSize": 10}, {"encryptionEnabled": True}])
@pytest.mark.parametrize("way", ["push", "transaction"])
async def test_push_recreates_a_deleted_queue(
    http: httpx.AsyncClient, name: str, shared: Shared, way: str, options: dict[str, Any]
) -> None:
    await http.post("/configure", json={"queue": name, "options": options})
    item = {"queue": name, "payload": 1}
    assert await add(http, item) == ["queued"]
    await execute(shared.dsn, f"select laneway.delete_queue('{name}', true)")
    if way == "push":
        assert await add(http, item, {"queue": f"{name}-b", "payload": 1}) == ["queued"] * 2
    else:
        assert (await transact(http, item)).json()["success"]
    assert (await http.get(f"/resources/queues/{name}")).status_code == 200


async def test_pop_of_a_deleted_queue_finds_nothing(
    http: httpx.AsyncClient, queen: Queen, name: str, shared: Shared
) -> None:
    await push(queen, name, ["x"])
    assert await pop(queen, name, group="g")
    await execute(shared.dsn, f"select laneway.delete_queue('{name}', true)")
    for group in ("g", "__QUEUE_MODE__"):
        answer = await http.get(f"/pop/queue/{name}", params={"consumerGroup": group})
        assert answer.status_code == 204
