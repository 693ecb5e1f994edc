"""A server with API keys, in a database of its own, for this directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import httpx
import pytest_asyncio

from laneway.domain.settings import EngineSettings, MaintenanceSettings
from laneway.engine import Broker
from tests.postgres import make_database
from tests.protocol.access.world import OWN, OWNER, World, make_keys
from tests.protocol.servers import make_queue, run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def world(server: str) -> AsyncIterator[World]:
    quiet = EngineSettings(maintenance=MaintenanceSettings(enabled=False))
    async with make_database(server, "laneway_access") as dsn:
        keys = await make_keys(dsn)
        await make_queue(dsn, OWN)
        rows = await asyncpg.connect(dsn)
        try:
            async with (
                run_laneway(dsn, SECRET_KEY=OWNER, QUEEN_ENCRYPTION_KEY="ab" * 32) as running,
                httpx.AsyncClient(base_url=running.url, timeout=30) as client,
                Broker(dsn, quiet) as broker,
            ):
                yield World(running, client, broker, rows, keys)
        finally:
            await rows.close()
