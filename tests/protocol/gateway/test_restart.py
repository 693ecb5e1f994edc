"""What the gateway has accepted outlives its processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.postgres import make_database
from tests.protocol.gateway.world import Client, make_target, write_settings
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from pathlib import Path


async def test_keys_outlive_a_restart(server: str, target: str, tmp_path: Path) -> None:
    flags = write_settings(tmp_path, {"plain": make_target(target, "plain")})
    found = []
    async with make_database(server, "laneway_gateway_restart") as dsn:
        for _ in range(2):
            async with run_laneway(dsn, *flags) as running, Client(running.url, target) as client:
                answer = await client.send("plain", {"a": 1}, idempotency_key="k")
                other = await client.send("plain", {"a": 2}, idempotency_key="k")
                found.append((answer.status_code, answer.json()))
                assert other.status_code == 422
                assert await running.stop() == 0
    assert found[0] == found[1]
