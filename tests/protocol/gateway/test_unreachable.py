"""Without its database the gateway accepts nothing, and says when to ask again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.library.proxy import Proxy
from tests.postgres import make_database
from tests.protocol.gateway.world import Client, answers, make_target, write_settings
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from pathlib import Path


async def test_gateway_goes_on_when_its_database_is_reachable_again(
    server: str, target: str, tmp_path: Path
) -> None:
    flags = write_settings(
        tmp_path, {"lost": make_target(target, "lost")}, private_networks=["127.0.0.0/8"]
    )
    async with (
        make_database(server, "laneway_gateway_lost") as dsn,
        Proxy(dsn) as proxy,
        run_laneway(proxy.address, "--gateway", *flags) as running,
        Client(running.url, target) as client,
    ):
        before = await client.result("lost")
        held = await client.accept("lost", answers({"hold": "cut"}))
        await client.calls("lost", 1, key=held)
        await proxy.cut()
        for method, path in (
            ("POST", "/relay/lost"),
            ("GET", f"/relay/status/{held}"),
            ("GET", "/relay/transactions"),
            ("POST", f"/relay/transactions/{held}/cancel"),
            ("GET", "/relay/pool-status"),
        ):
            answer = await client.http.request(method, path, json={})
            assert answer.status_code == 503, (path, answer.text)
            assert answer.json()["statusCode"] == 503
            assert int(answer.headers["retry-after"]) > 0
        # The result of the call in progress is stored once the database is back.
        await client.release("cut")
        await proxy.mend()
        async with asyncio.timeout(60):
            while (await client.http.get(f"/relay/status/{held}")).status_code == 503:
                await asyncio.sleep(0.05)
        await client.until(held, "success")
        assert len(await client.calls("lost", key=held)) == 1
        assert await client.status(before["transactionId"]) == before
        assert (await client.result("lost"))["status"] == "success"
