"""Block a server in the middle of an operation, and wait until it is blocked."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg
import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.protocol.servers import RunningServer


@asynccontextmanager
async def block(dsn: str, table: str) -> AsyncIterator[None]:
    """Have every write to the table wait; reading goes on."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute(f"lock table laneway.{table} in share mode")
            yield
    finally:
        await connection.close()


async def wait_for_blocked(dsn: str) -> None:
    """Return once somebody waits for a lock."""
    connection = await asyncpg.connect(dsn)
    try:
        async with asyncio.timeout(30):
            while not await connection.fetchval(
                "select count(*) from pg_locks where not granted and locktype = 'relation'"
            ):
                await asyncio.sleep(0.01)
    finally:
        await connection.close()


async def wait_for_gauge(server: RunningServer, name: str, value: int) -> None:
    async with httpx.AsyncClient() as client, asyncio.timeout(30):
        while True:
            text = (await client.get(f"{server.url}/metrics")).text
            found = re.search(rf"^{name} (\d+)$", text, re.MULTILINE)
            assert found is not None, text
            if int(found[1]) == value:
                return
            await asyncio.sleep(0.01)


async def wait_until_refused(server: RunningServer) -> None:
    """Return once the server takes no new connections."""
    place = urlsplit(server.url)
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection(place.hostname, place.port)
            except ConnectionRefusedError:
                return
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            await asyncio.sleep(0.01)
