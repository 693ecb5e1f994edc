"""A refused request stores no message and creates no queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.queen.calls import pop, push

if TYPE_CHECKING:
    import httpx
    from queen import Queen

NOBODY = "00000000-0000-4000-8000-000000000000"
STRANGE = {"partition": "a\0b"}


@pytest.mark.parametrize("options", [{"maxSize": 10}, {"windowBuffer": 1000}, {}])
async def test_a_refused_push_stores_no_part_of_it(
    queen: Queen, http: httpx.AsyncClient, name: str, options: dict[str, Any]
) -> None:
    await http.post("/configure", json={"queue": name})
    await http.post("/configure", json={"queue": f"{name}-b", "options": options})
    for item in (
        {"queue": f"{name}-b", "payload": 1, **STRANGE},
        {"queue": f"{name}-b", "payload": 1, "transactionId": "a\0b"},
        {"queue": f"{name}-b", "payload": "x" * 2**24},
        {"queue": f"{name}\0b", "payload": 1},
    ):
        answer = await http.post("/push", json={"items": [{"queue": name, "payload": 1}, item]})
        assert answer.status_code in {400, 413}
        assert await pop(queen, name) == []


@pytest.mark.parametrize("item", [STRANGE, {"transactionId": "a\0b"}, {"payload": "x" * 2**24}])
async def test_a_refused_push_makes_no_queue(
    http: httpx.AsyncClient, name: str, item: dict[str, Any]
) -> None:
    items = [{"queue": f"{name}-a", "payload": 1}, {"queue": name, "payload": 1, **item}]
    answer = await http.post("/push", json={"items": items})
    assert answer.status_code in {400, 413}
    operation = {"type": "push", "items": items}
    answer = await http.post("/transaction", json={"operations": [operation]})
    assert answer.status_code in {400, 413}
    for queue in (name, f"{name}-a"):
        assert (await http.get(f"/resources/queues/{queue}")).status_code == 404


async def test_a_refused_transaction_makes_no_queue(
    queen: Queen, http: httpx.AsyncClient, name: str
) -> None:
    await push(queen, name, ["x"])
    [message] = await pop(queen, name)
    add = {"type": "push", "items": [{"queue": f"{name}-next", "payload": 1}]}
    settle = {
        "type": "ack",
        **{key: message[key] for key in ("transactionId", "partitionId", "leaseId")},
    }
    body: dict[str, Any]
    for body in (
        {"operations": [add], "requiredLeases": [NOBODY]},
        {"operations": [add, {**settle, "leaseId": NOBODY}]},
        {"operations": [add, settle], "requiredLeases": [message["leaseId"], NOBODY]},
    ):
        answer = await http.post("/transaction", json=body)
        assert (answer.status_code, answer.json()["success"]) == (409, False)
        assert (await http.get(f"/resources/queues/{name}-next")).status_code == 404
    answer = await http.post("/transaction", json={"operations": [add, settle]})
    assert answer.status_code == 200
