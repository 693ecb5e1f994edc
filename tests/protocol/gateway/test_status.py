"""The status of a transaction comes from the cache, the database or the target."""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import asyncpg
import pytest
import pytest_asyncio
import redis.asyncio

from tests.postgres import make_database
from tests.protocol.gateway.world import Client, World, answers, make_target, write_settings
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from types import TracebackType

REDIS = os.environ.get("LANEWAY_REDIS", "/usr/bin/redis-server")


class Redis:
    """A Redis server that a test can kill and start again at the same place. Use it as a context."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url = f"unix://{folder}/redis.sock"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    async def start(self) -> None:
        self._process = subprocess.Popen(
            [
                REDIS,
                *("--port", "0", "--unixsocket", f"{self._folder}/redis.sock"),
                *("--save", "", "--daemonize", "no", "--dir", str(self._folder)),
            ],
            stdout=subprocess.DEVNULL,
        )
        async with asyncio.timeout(60), redis.asyncio.Redis.from_url(self.url) as client:
            while True:
                try:
                    await client.ping()
                except redis.ConnectionError:
                    await asyncio.sleep(0.02)
                else:
                    return

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    async def ttl(self, transaction_id: str) -> int:
        async with redis.asyncio.Redis.from_url(self.url) as client:
            left: int = await client.pttl(f"tx:{transaction_id}")
            return left

    async def get(self, transaction_id: str) -> bytes | None:
        async with redis.asyncio.Redis.from_url(self.url) as client:
            found = await client.get(f"tx:{transaction_id}")
            return found.encode() if isinstance(found, str) else found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cache(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Redis]:
    async with Redis(tmp_path_factory.mktemp("r")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cached(
    server: str, target: str, cache: Redis, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """Yield a gateway with Redis."""
    options = {"id_field": "id", "status_url": f"{target}/tiers/{{id}}"}
    targets = {
        "plain": make_target(target, "plain"),
        "tiered": make_target(target, "tiered", options=options),
    }
    flags = write_settings(
        tmp_path_factory.mktemp("cached"), targets, private_networks=["127.0.0.0/8"]
    )
    async with (
        make_database(server, "laneway_gateway_cache") as dsn,
        run_laneway(dsn, "--gateway", *flags, REDIS_URL=cache.url) as running,
    ):
        yield World(running, dsn, target, {})
        assert "Traceback" not in running.log


@pytest.fixture
async def client(cached: World) -> AsyncIterator[Client]:
    async with Client(cached.server.url, cached.target) as client:
        yield client


async def delete(world: World, transaction_id: str) -> None:
    """Delete a transaction from the database only."""
    connection = await asyncpg.connect(world.dsn)
    try:
        await connection.execute(
            "delete from laneway.gateway_transaction where transaction_id = $1", transaction_id
        )
    finally:
        await connection.close()


async def submit(client: Client, *states: dict[str, Any]) -> tuple[str, str]:
    """Return a transaction that the target works on, and the target's id for it."""
    upstream_id = str(uuid4())
    await client.script(f"tiers/{upstream_id}", *({"body": each} for each in states))
    transaction_id = await client.accept("tiered", answers({"body": {"id": upstream_id}}))
    return transaction_id, upstream_id


async def test_final_status_comes_from_the_cache(
    client: Client, cached: World, cache: Redis
) -> None:
    done = await client.result("plain")
    transaction_id = done["transactionId"]
    assert await cache.get(transaction_id) is None
    assert await client.status(transaction_id) == done
    assert 590_000 < await cache.ttl(transaction_id) <= 600_000
    await delete(cached, transaction_id)
    assert await client.status(transaction_id) == done


async def test_status_that_may_change_is_cached_for_a_moment(client: Client, cache: Redis) -> None:
    name = f"hold-{uuid4()}"
    transaction_id = await client.accept("plain", answers({"hold": name}))
    assert (await client.status(transaction_id))["status"] == "pending"
    assert await cache.ttl(transaction_id) <= 1000
    await client.release(name)
    await client.until(transaction_id, "success")


async def test_change_is_seen_at_once(client: Client) -> None:
    far = {"status": 503, "headers": {"Retry-After": "999"}}
    transaction_id = await client.accept("plain", answers(far))
    async with asyncio.timeout(60):
        while (await client.status(transaction_id))["error_message"] is None:
            await asyncio.sleep(0.02)
    await client.http.post(f"/relay/transactions/{transaction_id}/cancel")
    assert (await client.status(transaction_id))["status"] == "cancelled"


async def test_status_that_is_not_final_is_asked_at_the_target(
    client: Client, cache: Redis
) -> None:
    transaction_id, upstream_id = await submit(
        client, {"status": "pending"}, {"status": "success", "hash": "0xa"}
    )
    done = await client.until(transaction_id, "success")
    assert done["hash"] == "0xa"
    asked = await client.calls(f"tiers/{upstream_id}")
    assert len(asked) == 2
    assert asked[1]["at"] - asked[0]["at"] >= 0.9
    assert await client.status(transaction_id) == done
    assert len(await client.calls(f"tiers/{upstream_id}")) == 2
    assert await cache.ttl(transaction_id) > 1000


async def test_redis_is_killed_and_comes_back(client: Client, cached: World, cache: Redis) -> None:
    before = await client.result("plain")
    await client.status(before["transactionId"])
    cache.kill()
    try:
        assert await client.status(before["transactionId"]) == before
        during = await client.result("plain")
        assert await client.status(during["transactionId"]) == during
        assert "Redis is unreachable" in cached.server.log
    finally:
        await cache.start()
    async with asyncio.timeout(60):
        while await cache.get(during["transactionId"]) is None:
            assert await client.status(during["transactionId"]) == during
            await asyncio.sleep(0.02)
    assert "Redis is reachable again" in cached.server.log


async def test_record_in_redis_is_what_clients_get(client: Client, cache: Redis) -> None:
    done = await client.result("plain", answers({"body": {"n": 2**200}}))
    answer = await client.http.get(f"/relay/status/{done['transactionId']}")
    assert await cache.get(done["transactionId"]) == answer.content
