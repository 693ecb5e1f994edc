"""One gateway server and one target for the tests of this directory that need no own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import asyncpg
import pytest
import pytest_asyncio

from laneway.domain.keys import Role, make_key
from laneway.engine.procedures.keys import create_api_key
from tests.postgres import make_database
from tests.protocol.gateway.world import (
    INBOUND,
    OUTBOUND,
    SCHEMA,
    Client,
    World,
    make_target,
    run_target,
    write_settings,
)
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# Whose keys there are: by name, the role and the queues.
KEYS = {
    "read": (Role.READ, None),
    "write": (Role.WRITE, None),
    "write limited to others": (Role.WRITE, "mine-*"),
    "write limited to the gateway": (Role.WRITE, "relay-*"),
    "admin": (Role.ADMIN, None),
}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def target() -> AsyncIterator[str]:
    """Yield the URL of the target."""
    async with run_target() as url:
        yield url


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def world(
    server: str, target: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    told = {"callback_allowed": [f"{target}/hooks/"], "callback_secrets": OUTBOUND}
    job = {
        "id_field": "data.id",
        "status_field": "data.state",
        "hash_field": "data.hash",
        "error_field": "data.why",
        "status_url": f"{target}/jobs/{{id}}",
    }
    words = {"done": "success", "broken": "failed", "working": "pending"}
    targets = {
        "plain": make_target(target, "plain", webhook_secrets=INBOUND, **told),
        "again": make_target(target, "again", redelivery="at-least-once"),
        "known": make_target(
            target, "known", options={"lookup_url": f"{target}/found/{{transaction_id}}"}
        ),
        "job": make_target(
            target, "job", options=job, statuses=words, webhook_secrets=INBOUND, **told
        ),
        "strict": make_target(
            target, "strict", options={"schema": str(folder / "schema.json")}, **told
        ),
        "impatient": make_target(target, "impatient", timeout_seconds=0.5),
        "choosy": make_target(
            target, "choosy", permanent_statuses=[503], permanent_texts=["Insufficient Funds"]
        ),
        "secret": make_target(
            target, "secret", method="PUT", headers={"Authorization": "env:TARGET_KEY"}
        ),
        "nobody": make_target("http://127.0.0.1:9", "nobody", attempts=2),
    }
    flags = write_settings(folder, targets, private_networks=["127.0.0.0/8"], concurrency=32)
    async with make_database(server, "laneway_gateway") as dsn:
        keys = await make_keys(dsn)
        async with run_laneway(
            dsn,
            "--gateway",
            "--overdue-check-interval-ms",
            "100",
            *flags,
            TARGET_KEY="Bearer of-the-target",
        ) as running:
            yield World(running, dsn, target, keys)
            assert "Traceback" not in running.log


@pytest.fixture
async def client(world: World) -> AsyncIterator[Client]:
    async with Client(world.server.url, world.target, world.keys["write"]) as client:
        yield client


async def make_keys(dsn: str) -> dict[str, str]:
    """Return the keys by the names of who has them."""
    connection = await asyncpg.connect(dsn)
    keys = {}
    try:
        for number, (name, (role, pattern)) in enumerate(KEYS.items()):
            key = make_key()
            await create_api_key(
                connection,
                key_id=key.key_id,
                name=f"key-{number}",
                role=role,
                pattern=pattern,
                digest=key.digest,
            )
            keys[name] = key.text
    finally:
        await connection.close()
    return keys
