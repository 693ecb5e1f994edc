"""Clients that wait for a result cost the database nothing."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from tests.library.proxy import Proxy
from tests.postgres import make_database
from tests.protocol.gateway.world import Client, answers, make_target, write_settings
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from pathlib import Path


class Tap(Proxy):
    """Counts what passes."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.seen = bytearray()

    async def _pipe(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                self.seen += data
                sink.write(data)
                await sink.drain()
        sink.close()


async def test_waiting_clients_cost_no_statements(server: str, target: str, tmp_path: Path) -> None:
    """While they wait, the ids of their transactions are neither sent nor received."""
    flags = write_settings(
        tmp_path,
        {"waiting": make_target(target, "waiting"), "other": make_target(target, "other")},
        private_networks=["127.0.0.0/8"],
        concurrency=100,
    )
    name = f"hold-{uuid4()}"
    held = answers({"hold": name})
    async with (
        make_database(server, "laneway_gateway_waiting") as dsn,
        Tap(dsn) as tap,
        run_laneway(tap.address, "--gateway", *flags) as running,
        Client(running.url, target) as client,
    ):
        waiting = [asyncio.ensure_future(client.result("waiting", held)) for _ in range(50)]
        calls = await client.calls("waiting", 50)
        ids = [UUID(call["headers"]["idempotency-key"]).bytes for call in calls]
        # By then, all of them are waiting.
        for _ in range(50):
            await client.result("other")
        before = sum(map(tap.seen.count, ids))
        for _ in range(50):
            await client.result("other")
        assert before > 0
        assert sum(map(tap.seen.count, ids)) == before
        await client.release(name)
        assert {each["status"] for each in await asyncio.gather(*waiting)} == {"success"}
