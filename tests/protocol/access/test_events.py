"""Live updates: which details each caller receives."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.protocol.access.world import OWN

if TYPE_CHECKING:
    from tests.protocol.access.world import Target, World

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def listen(world: World, caller: str | None, target: Target) -> str:
    """Return what is told of a message of somebody else, up to one of the caller's own queue."""
    headers = {} if caller is None else {"X-API-KEY": world.keys[caller]}
    told = ""

    async def push(queue: str) -> None:
        payload = target.marker if queue == target.name else "our own"
        body = {"type": "mail", "payload": payload, "queue": queue}
        answer = await world.client.post(
            "/api/queue/message", json=body, headers={"X-API-KEY": world.keys["admin"]}
        )
        answer.raise_for_status()

    async with (
        asyncio.timeout(30),
        world.client.stream("GET", "/api/queue/events", headers=headers) as answer,
    ):
        assert answer.status_code == 200
        await push(target.name)
        await push(OWN)
        updates = 0
        async for line in answer.aiter_lines():
            told += line
            updates += line.startswith("data:") and "queue-update" in told
            if f'"queue":"{OWN}"' in line or (caller is None and updates == 2):
                return told
    raise AssertionError(told)


async def test_limited_key_gets_updates_of_its_own_queues_only(world: World) -> None:
    for caller in ("limited-read", "limited-write", "limited-admin"):
        target = await world.make()
        told = await listen(world, caller, target)
        assert target.name not in told
    target = await world.make()
    told = await listen(world, "read", target)
    assert target.name in told


async def test_updates_without_a_key_have_no_details(world: World) -> None:
    target = await world.make()
    told = await listen(world, None, target)
    for secret in (target.name, target.marker, OWN):
        assert secret not in told
