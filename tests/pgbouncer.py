"""PgBouncer in transaction mode before a database."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import asyncpg

from tests.postgres import open_directory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PGBOUNCER = Path(os.environ.get("LANEWAY_PGBOUNCER", "/usr/sbin/pgbouncer"))

SETTINGS = """
[databases]
* = host={host} port={port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 200
"""


@asynccontextmanager
async def run_pgbouncer(dsn: str, settings: str = "") -> AsyncIterator[str]:
    """Yield a DSN that leads to the same database through three sessions shared by all."""
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listen = free.getsockname()[1]
    with open_directory() as folder:
        file = folder / "pgbouncer.ini"
        file.write_text(
            SETTINGS.format(host=query["host"][0], port=query["port"][0], listen=listen) + settings
        )
        # Root may not run it; the database's own account may reach its socket.
        user = ["-u", Path(query["host"][0]).owner()] if os.getuid() == 0 else []
        process = await asyncio.create_subprocess_exec(
            PGBOUNCER, "-q", *user, str(file), stderr=asyncio.subprocess.DEVNULL
        )
        try:
            pooled = f"postgresql://postgres@127.0.0.1:{listen}{parts.path}"
            await _wait_until_it_answers(pooled, process)
            yield pooled
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()
            process._transport.close()  # type: ignore[attr-defined]


async def _wait_until_it_answers(dsn: str, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(30):
        while True:
            assert process.returncode is None, "PgBouncer did not start"
            try:
                connection = await asyncpg.connect(dsn, statement_cache_size=0)
            except OSError:
                await asyncio.sleep(0.02)
                continue
            await connection.close()
            return
