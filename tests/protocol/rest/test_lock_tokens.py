"""Lock tokens: each dequeue has its own, which proves the lease on what it returned and nothing else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from tests.protocol.blocking import wait_for_gauge
from tests.protocol.rest.calls import add, dequeue
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    import httpx

    from tests.protocol.conftest import Shared

OF_QUEUE = "select distinct lock_token::text from laneway.messages where queue_name = $1 and lock_token is not null"


async def find_claims(dsn: str, queue: str) -> list[str]:
    """Return the tokens of the claims that cover the queue's messages in flight."""
    connection = await asyncpg.connect(dsn)
    try:
        return [row[0] for row in await connection.fetch(OF_QUEUE, queue)]
    finally:
        await connection.close()


async def dequeue_at_once(
    api: httpx.AsyncClient, shared: Shared, queue: str, *counts: int, types: int = 1
) -> list[list[dict[str, Any]]]:
    """Dequeue for several consumers that one claim serves."""
    polls = [
        asyncio.ensure_future(
            api.get("/queue/messages/batch", params={"queue": queue, "count": count, "timeout": 60})
        )
        for count in counts
    ]
    await wait_for_gauge(shared.server, "laneway_claim_pump_waiters", len(polls))
    batch = [
        {"type": f"type-{n % types}", "payload": n, "queue": queue} for n in range(sum(counts))
    ]
    assert (await api.post("/queue/batch", json=batch)).status_code == 201
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*polls)
    dequeued: list[list[dict[str, Any]]] = [answer.json()["messages"] for answer in answers]
    # Otherwise the test would show nothing.
    assert len(await find_claims(shared.dsn, queue)) == 1
    return dequeued


@pytest.mark.parametrize(("counts", "types"), [((1, 1, 1), 1), ((1, 1, 1), 3), ((2, 3, 1), 1)])
async def test_token_settles_no_message_of_another_consumer(
    api: httpx.AsyncClient, shared: Shared, queue: str, counts: tuple[int, ...], types: int
) -> None:
    dequeued = await dequeue_at_once(api, shared, queue, *counts, types=types)
    tokens = [{message["lock_token"] for message in messages} for messages in dequeued]
    assert all(one.isdisjoint(other) for n, one in enumerate(tokens) for other in tokens[n + 1 :])
    for n, messages in enumerate(dequeued):
        stranger = dequeued[n - 1][0]["lock_token"]
        for message in messages:
            lease = {"id": message["id"], "lock_token": stranger}
            path = f"/queue/message/{message['id']}"
            for answer in (
                await api.post("/queue/ack", json=lease),
                await api.post(f"{path}/nack", json={"lock_token": stranger}),
                await api.put(f"{path}/touch", json={"lock_token": stranger}),
            ):
                assert (answer.status_code, answer.json()["error"]) == (409, "LOCK_LOST")
            for kind, items in (("ack", "acks"), ("nack", "nacks")):
                batch = await api.post(f"/queue/{kind}/batch", json={items: [lease]})
                assert [each["code"] for each in batch.json()["failed"]] == ["LOCK_LOST"]
    # Nothing changed: each consumer settles what it was given, in one batch or one by one.
    acks = [{"id": each["id"], "lock_token": each["lock_token"]} for each in dequeued[0]]
    mixed = [*acks, {"id": dequeued[1][0]["id"], "lock_token": acks[0]["lock_token"]}]
    answer = (await api.post("/queue/ack/batch", json={"acks": mixed})).json()
    assert answer["succeeded"] == [each["id"] for each in acks]
    assert [each["code"] for each in answer["failed"]] == ["LOCK_LOST"]
    for messages in dequeued[1:]:
        for message in messages:
            token = message["lock_token"]
            path = f"/queue/message/{message['id']}"
            touched = await api.put(f"{path}/touch", json={"lock_token": token})
            assert touched.status_code == 200
            lease = {"id": message["id"], "lock_token": token}
            assert (await api.post("/queue/ack", json=lease)).status_code == 200


async def test_token_of_a_batch_settles_no_messages_behind_the_batch(
    api: httpx.AsyncClient, shared: Shared, queue: str
) -> None:
    dequeued = await dequeue_at_once(api, shared, queue, 3, 3)
    first, second = sorted(dequeued, key=lambda messages: int(messages[0]["payload"]))
    token = first[0]["lock_token"]
    acks = [{"id": each["id"], "lock_token": token} for each in first + second]
    answer = (await api.post("/queue/ack/batch", json={"acks": acks})).json()
    assert answer["succeeded"] == [each["id"] for each in first]
    assert [each["id"] for each in answer["failed"]] == [each["id"] for each in second]


async def test_token_of_a_shared_claim_is_not_returned(
    api: httpx.AsyncClient, shared: Shared, queue: str
) -> None:
    dequeued = await dequeue_at_once(api, shared, queue, 1, 1)
    [claim] = await find_claims(shared.dsn, queue)
    shown = [str(dequeued)]
    for path in (
        f"/queue/processing/messages?queueName={queue}",
        f"/queue/processing/export?queueName={queue}",
        f"/queue/status?queueName={queue}",
        f"/queue/activity?queue_name={queue}",
        f"/queue/activity/message/{dequeued[0][0]['id']}",
    ):
        answer = await api.get(path)
        assert "lock_token" in answer.text
        shown.append(answer.text)
    assert not any(claim in text or claim.replace("-", "") in text for text in shown)


async def test_lists_and_log_show_the_token_of_each_message(
    api: httpx.AsyncClient, shared: Shared, queue: str
) -> None:
    dequeued = [messages[0] for messages in await dequeue_at_once(api, shared, queue, 1, 1, 1)]
    tokens = {message["id"]: message["lock_token"] for message in dequeued}
    listed = await api.get("/queue/processing/messages", params={"queueName": queue})
    shown = {each["id"]: each["lock_token"] for each in listed.json()["messages"]}
    assert shown == tokens
    answer = await api.get("/queue/activity", params={"queue_name": queue, "action": "dequeue"})
    logged = {each["message_id"]: each["lock_token"] for each in answer.json()["logs"]}
    assert logged == tokens
    for message_id, token in shown.items():
        acked = await api.post("/queue/ack", json={"id": message_id, "lock_token": token})
        assert acked.status_code == 200


async def test_every_process_of_a_database_reads_the_tokens_of_the_others(
    api: httpx.AsyncClient, shared: Shared, queue: str
) -> None:
    message_id = await add(api, queue)
    message = await dequeue(api, queue)
    async with run_laneway(shared.dsn) as other, other.client() as client:
        lease = {"id": message_id, "lock_token": message["lock_token"]}
        assert (await client.post("/queue/ack", json=lease)).status_code == 200


async def test_lease_from_before_an_upgrade_is_settled(
    api: httpx.AsyncClient, shared: Shared, queue: str
) -> None:
    ids = [await add(api, queue, n) for n in range(4)]
    answer = await api.get("/queue/messages/batch", params={"queue": queue, "count": 4})
    assert len(answer.json()["messages"]) == 4
    # What earlier versions returned as the token.
    [claim] = await find_claims(shared.dsn, queue)
    lease = {"id": ids[0], "lock_token": claim}
    assert (await api.put(f"/queue/message/{ids[0]}/touch", json=lease)).status_code == 200
    assert (await api.post("/queue/ack", json=lease)).status_code == 200
    acks = [{"id": each, "lock_token": claim} for each in ids[1:3]]
    batch = await api.post("/queue/ack/batch", json={"acks": acks})
    assert batch.json()["succeeded"] == ids[1:3]
    nacked = await api.post(f"/queue/message/{ids[3]}/nack", json={"lock_token": claim})
    assert nacked.status_code == 200
