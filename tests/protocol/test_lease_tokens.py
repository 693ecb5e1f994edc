"""Consumers that are served at once over one protocol: none can settle the messages of another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.protocol.blocking import wait_for_gauge

if TYPE_CHECKING:
    import httpx

    from tests.protocol.conftest import Shared


async def receive_at_once(
    api: httpx.AsyncClient, shared: Shared, polls: list[Any], push: dict[str, Any]
) -> list[Any]:
    """Return the answers of long polls that one push wakes."""
    waiting = [asyncio.ensure_future(poll) for poll in polls]
    await wait_for_gauge(shared.server, "laneway_claim_pump_waiters", len(waiting))
    answer = await api.post(f"{shared.server.url}/api/v1/push", json=push)
    assert answer.status_code == 201, answer.text
    async with asyncio.timeout(60):
        answers: list[httpx.Response] = await asyncio.gather(*waiting)
    assert {answer.status_code for answer in answers} == {200}
    return [answer.json() for answer in answers]


async def test_library_consumer_settles_only_its_own_messages(
    api: httpx.AsyncClient, shared: Shared, queue: str
) -> None:
    url = f"{shared.server.url}/library/v1"
    claim = {"queue": queue, "n": 1, "wait": "PT60S", "consumer": "worker"}
    items = [{"queue": queue, "payload": n} for n in range(2)]
    polls = [api.post(f"{url}/claim", json=claim) for _ in range(2)]
    got = await receive_at_once(api, shared, polls, {"items": items})
    # Token, segment, lane, seq.
    (one, _, lane, first, *_), (other, _, other_lane, second, *_) = (each[0] for each in got)
    assert one != other
    stolen = await api.post(f"{url}/ack", json={"receipts": [[one, other_lane, second]]})
    assert stolen.json() == [0]
    extension = {"receipts": [[one, other_lane, second]], "lease": "PT90S"}
    assert (await api.post(f"{url}/extend", json=extension)).json() == [None]
    own = [[one, lane, first], [other, other_lane, second]]
    assert (await api.post(f"{url}/ack", json={"receipts": own})).json() == []


async def test_stream_consumer_settles_only_its_own_messages(
    api: httpx.AsyncClient, shared: Shared, queue: str
) -> None:
    url = f"{shared.server.url}/api/v1"
    name = f"{queue}-stream"
    await api.post(f"{url}/configure", json={"queue": name, "options": {}})
    poll: dict[str, Any] = {
        "wait": "true",
        "timeout": 60_000,
        "batch": 1,
        "consumerGroup": "readers",
    }
    await api.get(f"{url}/pop/queue/{name}", params={**poll, "wait": "false"})
    items = [{"queue": name, "partition": f"p{n}", "payload": n} for n in range(2)]
    polls = [api.get(f"{url}/pop/queue/{name}", params=poll) for _ in range(2)]
    got = await receive_at_once(api, shared, polls, {"items": items})
    one, other = (each["messages"][0] for each in got)
    assert one["leaseId"] != other["leaseId"]

    async def ack(message: dict[str, Any], lease: str) -> bool:
        body = {
            "transactionId": message["transactionId"],
            "partitionId": message["partitionId"],
            "leaseId": lease,
            "status": "completed",
            "consumerGroup": "readers",
        }
        answer = await api.post(f"{url}/ack", json=body)
        result = answer.json()
        return bool((result[0] if isinstance(result, list) else result).get("success"))

    assert not await ack(other, one["leaseId"])
    assert await ack(other, other["leaseId"])
    assert await ack(one, one["leaseId"])
