"""The library through PgBouncer in transaction mode, where no session is one's own."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import asyncpg
import psycopg
import pytest

import laneway
from laneway import step
from laneway.domain.errors import Misconfigured
from tests.library.workers import QUICK, running, until
from tests.postgres import open_directory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from laneway import Message
    from tests.library.conftest import Place

PGBOUNCER = Path(os.environ.get("LANEWAY_PGBOUNCER", "/usr/sbin/pgbouncer"))
LONG = timedelta(seconds=20)

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
async def run_pgbouncer(dsn: str) -> AsyncIterator[str]:
    """Yield a DSN that leads to the same database through three sessions shared by all."""
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listen = free.getsockname()[1]
    with open_directory() as folder:
        file = folder / "pgbouncer.ini"
        file.write_text(
            SETTINGS.format(host=query["host"][0], port=query["port"][0], listen=listen)
        )
        # Root may not run it; the database's own account may reach its socket.
        user = ["-u", Path(query["host"][0]).owner()] if os.getuid() == 0 else []
        process = await asyncio.create_subprocess_exec(
            PGBOUNCER, "-q", *user, str(file), stderr=asyncio.subprocess.DEVNULL
        )
        try:
            pooled = f"postgresql://postgres@127.0.0.1:{listen}{parts.path}"
            await until(lambda: answers(pooled, process))
            yield pooled
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()
            process._transport.close()  # type: ignore[attr-defined]


async def answers(dsn: str, process: asyncio.subprocess.Process) -> bool:
    assert process.returncode is None, "PgBouncer did not start"
    try:
        connection = await asyncpg.connect(dsn, statement_cache_size=0)
    except OSError:
        return False
    await connection.close()
    return True


@pytest.mark.parametrize("direct", [True, False], ids=["past it", "polling"])
async def test_everything_works_through_a_pooler(place: Place, queue: str, *, direct: bool) -> None:
    name = f"flow-{uuid4().hex[:8]}"
    seen: list[int] = []
    async with run_pgbouncer(place.dsn) as pooled:
        app = laneway.App(
            pooled, pooled=True, direct_dsn=place.dsn if direct else None, worker=QUICK
        )

        @app.handler(queue, concurrency=20)
        async def handle(message: Message) -> None:
            if message.payload % 50 == 0 and message.attempt == 1:
                raise ValueError("again")
            await asyncio.sleep(0)
            seen.append(message.payload)

        @step
        async def double(n: int) -> int:
            return n * 2

        @app.workflow(name=name)
        async def flow(n: int) -> int:
            return await double(await double(n))

        async with running(app), app.connect() as lane:
            assert await lane.verify() == []
            producer = lane.producer(queue)
            # Many at once: statements of different clients mix in the three sessions.
            await asyncio.gather(*(producer.enqueue(n) for n in range(200)))
            with psycopg.connect(pooled, prepare_threshold=None) as connection:
                await producer.enqueue_in(connection, 200)
            await until(lambda: look(seen, 201))
            run = await lane.start(name, 5)
            assert await run.result(LONG) == 20
            consumer = lane.consumer(queue, group="default")
            assert await consumer.dequeue() is None
            waiting = asyncio.ensure_future(consumer.dequeue(wait=LONG))
            metrics = await lane.admin.queue_metrics(queue)
            assert (metrics.acknowledged, metrics.dead) == (201, 0)
            waiting.cancel()
    assert sorted(seen) == list(range(201))


async def look(seen: list[int], n: int) -> bool:
    return len(seen) >= n


async def test_pooler_that_was_not_named_is_told_and_not_tried_again(place: Place) -> None:
    async with run_pgbouncer(place.dsn) as pooled, laneway.connect(pooled) as lane:
        with pytest.raises(Misconfigured, match="connect with pooled=True"):
            await lane.admin.list_queues()
