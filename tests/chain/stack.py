"""Relayers in processes of their own, and Laneway servers with a gateway to them."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx

from tests.chain.chain import CHAIN_ID, FORWARDER_NAME, make_account
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from tests.chain.chain import Chain
    from tests.protocol.servers import RunningServer

ROOT = Path(__file__).parents[2]
API_KEY = "the-key-of-the-relayer's-api"
WEBHOOK_KEY = "the-key-that-the-relayer-signs-with"
WEI = 10**24


class RunningRelayer:
    """A relayer's process, which can be killed and started again. It has an account of its own."""

    def __init__(self, chain: Chain, folder: Path, relayer_id: str) -> None:
        self.account = make_account()
        self.relayer_id = relayer_id
        self.url = ""
        self._settings = {
            "port": 0,
            "rpc_url": chain.url,
            "private_key": "0x" + bytes(self.account.key).hex(),
            "relayer_id": relayer_id,
            "api_key": API_KEY,
            "journal": str(folder / f"{relayer_id}.jsonl"),
        }
        self._wishes: dict[str, Any] = {}
        self._process: asyncio.subprocess.Process | None = None
        chain.fund(self.account.address, WEI)

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.chain.relayer",
            json.dumps(self._settings),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            line = await self._process.stdout.readline()
        self.url = line.decode().strip().rpartition(" ")[2]
        # It starts again at the same place.
        self._settings["port"] = urlsplit(self.url).port

    async def wait_for_end(self) -> None:
        assert self._process is not None
        async with asyncio.timeout(30):
            await self._process.wait()

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def wish(self, **wishes: Any) -> None:
        """Have the relayer behave so, until the next wish or until it starts again."""
        self._wishes |= wishes
        async with httpx.AsyncClient() as client:
            (await client.post(f"{self.url}/test/wishes", json=wishes)).raise_for_status()

    @asynccontextmanager
    async def wishing(self, **wishes: Any) -> AsyncIterator[None]:
        before = {name: self._wishes.get(name) for name in wishes}
        await self.wish(**wishes)
        yield
        await self.wish(**before)

    async def accept(self, to: str) -> None:
        """Have the relayer accept a transaction that is not the gateway's."""
        place = f"{self.url}/api/v1/relayers/{self.relayer_id}/transactions"
        headers = {"authorization": f"Bearer {API_KEY}", "idempotency-key": to}
        body = {"to": to, "data": "0x", "value": "1", "speed": "fast"}
        async with httpx.AsyncClient(headers=headers) as client:
            (await client.post(place, json=body)).raise_for_status()

    async def count_calls(self) -> int:
        """Return how many transactions the relayer was asked to send, also of those it refused."""
        calls: int = (await self._load())["calls"]
        return calls

    async def list_transactions(self) -> list[dict[str, Any]]:
        transactions: list[dict[str, Any]] = (await self._load())["transactions"]
        return transactions

    async def list_notices(self) -> list[dict[str, str]]:
        notices: list[dict[str, str]] = (await self._load())["notices"]
        return notices

    async def _load(self) -> Any:
        async with httpx.AsyncClient() as client:
            return (await client.get(f"{self.url}/test/done")).json()


@asynccontextmanager
async def run_relayer(
    chain: Chain, folder: Path, relayer_id: str = "main"
) -> AsyncIterator[RunningRelayer]:
    relayer = RunningRelayer(chain, folder, relayer_id)
    try:
        await relayer.start()
        yield relayer
    finally:
        await relayer.stop()


@asynccontextmanager
async def run_gateway(
    dsn: str,
    chain: Chain,
    relayers: list[RunningRelayer],
    folder: Path,
    *,
    settings: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
) -> AsyncIterator[RunningServer]:
    """Run a server whose target is these relayers, with more settings and options for it."""
    path = folder / f"{'-'.join(relayer.relayer_id for relayer in relayers)}.toml"
    target = {
        "kind": "openzeppelin",
        "urls": [relayer.url for relayer in relayers],
        "private_networks": ["127.0.0.0/8"],
        "webhook_secrets": [WEBHOOK_KEY],
        "retry_first_seconds": 0.2,
        **(settings or {}),
    }
    known = {
        "relayer_id": ",".join(relayer.relayer_id for relayer in relayers),
        "api_key": "env:RELAYER_API_KEY",
        "forwarder_address": chain.forwarder,
        "forwarder_name": FORWARDER_NAME,
        "chain_id": str(CHAIN_ID),
        "rpc_url": chain.url,
        **(options or {}),
    }
    lines = [
        "[gateway.targets.chain]",
        *(f"{name} = {json.dumps(value)}" for name, value in target.items()),
        "[gateway.targets.chain.options]",
        *(f"{name} = {json.dumps(value)}" for name, value in known.items()),
    ]
    path.write_text("\n".join(lines) + "\n")
    async with run_laneway(
        dsn, "--gateway", "--config", str(path), RELAYER_API_KEY=API_KEY
    ) as server:
        yield server


async def wait_for(api: httpx.AsyncClient, transaction_id: str, *statuses: str) -> Any:
    """Return the transaction once it has one of the statuses."""
    async with asyncio.timeout(60):
        while True:
            found = (await api.get(f"/v1/relay/status/{transaction_id}")).json()
            if found["status"] in statuses:
                return found
            await asyncio.sleep(0.1)
