"""Clients are told by webhooks, which the package of Standard Webhooks verifies."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg
import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from laneway.domain.messages import OutgoingMessage
from laneway.domain.transactions import WEBHOOKS
from laneway.engine import Broker
from tests.protocol.gateway.world import OUTBOUND, answers

if TYPE_CHECKING:
    from tests.protocol.gateway.world import Client, World

Call = dict[str, Any]


@pytest.fixture
def hook(client: Client) -> str:
    """Return the URL of an endpoint that no other test has."""
    return f"{client.target}/hooks/{uuid4()}"


def path(hook: str) -> str:
    return f"hooks/{hook.rpartition('/')[2]}"


async def made_due(world: World) -> None:
    """Let webhooks that wait for another attempt be due."""
    connection = await asyncpg.connect(world.dsn)
    try:
        await connection.execute(
            "update laneway.parked p set available_at = clock_timestamp() - interval '1 hour'"
            " from laneway.reader r join laneway.lane l on l.lane_id = r.lane_id join laneway.queue q on q.queue_id = l.queue_id"
            " where p.reader_id = r.reader_id and q.name = $1",
            WEBHOOKS,
        )
    finally:
        await connection.close()


async def called_again(client: Client, world: World, hook: str, count: int) -> list[Call]:
    """Return the calls of an endpoint once there are so many, letting no time pass between them."""
    async with asyncio.timeout(60):
        while len(calls := await client.calls(path(hook))) < count:
            await made_due(world)
            await asyncio.sleep(0.02)
    return calls


async def find_endpoint(world: World, hook: str) -> asyncpg.Record | None:
    connection = await asyncpg.connect(world.dsn)
    try:
        return await connection.fetchrow(
            "select * from laneway.gateway_endpoint where url = $1", hook
        )
    finally:
        await connection.close()


@pytest.mark.parametrize("secret", OUTBOUND)
async def test_webhook_is_verified_with_each_secret(client: Client, hook: str, secret: str) -> None:
    done = await client.result("plain", {"a": 1}, webhook_url=hook)
    [call] = await client.calls(path(hook), 1)
    verified = Webhook(secret).verify(call["body"], call["headers"])
    assert verified == json.loads(call["body"])
    moment = datetime.fromisoformat(verified.pop("timestamp"))
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=5)
    assert verified == {
        "event": "transaction.status.updated",
        "transactionId": done["transactionId"],
        "status": "success",
        "hash": None,
    }
    assert call["method"] == "POST"
    assert call["headers"]["content-type"] == "application/json"
    assert len(call["headers"]["webhook-signature"].split()) == len(OUTBOUND)


async def test_changed_webhook_is_not_verified(client: Client, hook: str) -> None:
    await client.result("plain", webhook_url=hook)
    [call] = await client.calls(path(hook), 1)
    with pytest.raises(WebhookVerificationError):
        Webhook(OUTBOUND[0]).verify(call["body"].replace("success", "failed"), call["headers"])
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + "A" * 32).verify(call["body"], call["headers"])


async def test_failure_and_cancellation_are_told(client: Client, hook: str) -> None:
    await client.result("plain", answers({"status": 422}), webhook_url=hook)
    [call] = await client.calls(path(hook), 1)
    assert json.loads(call["body"])["status"] == "failed"
    later = answers({"status": 503, "headers": {"Retry-After": "999"}})
    transaction_id = await client.accept("plain", later, webhook_url=hook)
    async with asyncio.timeout(60):
        while (await client.status(transaction_id))["error_message"] is None:
            await asyncio.sleep(0.02)
    await client.http.post(f"/relay/transactions/{transaction_id}/cancel")
    _, call = await client.calls(path(hook), 2)
    assert json.loads(call["body"])["status"] == "cancelled"


async def test_failed_webhook_is_sent_again_with_the_same_id(
    client: Client, world: World, hook: str
) -> None:
    await client.script(path(hook), {"status": 500}, {"status": 302}, {"drop": True}, {})
    await client.result("plain", webhook_url=hook)
    calls = await called_again(client, world, hook, 4)
    assert len({call["headers"]["webhook-id"] for call in calls}) == 1
    assert len({call["body"] for call in calls}) == 1
    for call in calls:
        Webhook(OUTBOUND[1]).verify(call["body"], call["headers"])
    async with asyncio.timeout(60):
        while await find_endpoint(world, hook) is not None:
            await asyncio.sleep(0.02)


async def test_retry_after_of_an_endpoint_is_honoured(
    client: Client, world: World, hook: str
) -> None:
    await client.script(path(hook), {"status": 429, "headers": {"Retry-After": "7200"}}, {})
    await client.result("plain", webhook_url=hook)
    await client.calls(path(hook), 1)
    connection = await asyncpg.connect(world.dsn)
    statement = """
        select max(p.available_at) - clock_timestamp()
          from laneway.parked p
          join laneway.reader r on r.reader_id = p.reader_id
          join laneway.lane l on l.lane_id = r.lane_id
         where l.partition = $1"""
    try:
        async with asyncio.timeout(60):
            while (delay := await connection.fetchval(statement, hook)) is None:
                await asyncio.sleep(0.02)
    finally:
        await connection.close()
    assert timedelta(minutes=110) < delay <= timedelta(minutes=120)


async def test_endpoint_that_is_gone_is_disabled_at_once(
    client: Client, world: World, hook: str
) -> None:
    await client.script(path(hook), {"status": 410})
    await client.result("plain", webhook_url=hook)
    async with asyncio.timeout(60):
        while (found := await find_endpoint(world, hook)) is None or not found["disabled_at"]:
            await asyncio.sleep(0.02)
    assert found["reason"] == "answered 410"
    await client.result("plain", webhook_url=hook)
    # One of another endpoint that is sent later: the first was not sent.
    other = f"{hook}-other"
    await client.result("plain", webhook_url=other)
    await client.calls(path(other), 1)
    assert len(await client.calls(path(hook))) == 1


async def test_endpoint_that_fails_for_five_days_is_disabled(
    client: Client, world: World, hook: str
) -> None:
    await client.script(path(hook), {"status": 500})
    await client.result("plain", webhook_url=hook)
    async with asyncio.timeout(60):
        while await find_endpoint(world, hook) is None:
            await asyncio.sleep(0.02)
    connection = await asyncpg.connect(world.dsn)
    try:
        await connection.execute(
            "update laneway.gateway_endpoint set failing_since = failing_since - interval '5 days'"
            " where url = $1",
            hook,
        )
    finally:
        await connection.close()
    await called_again(client, world, hook, 2)
    async with asyncio.timeout(60):
        while (found := await find_endpoint(world, hook)) is None or not found["disabled_at"]:
            await asyncio.sleep(0.02)
    assert "is disabled" in world.server.log


@pytest.mark.parametrize("headers", [None, "1", "[]", '{"url": 5}', '{"url": "http://x"}'])
async def test_message_that_is_no_webhook_harms_nothing(
    client: Client, world: World, hook: str, headers: str | None
) -> None:
    await client.result("plain", webhook_url=hook)
    async with Broker(world.dsn) as broker:
        await broker.push(WEBHOOKS, [OutgoingMessage("{}", hook, headers=headers)])
    await client.result("plain", webhook_url=hook)
    await client.calls(path(hook), 2)
