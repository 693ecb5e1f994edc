"""A gateway with all that it needs, each part in a process of its own that may be killed.

Two processes deliver, a server accepts, a target records; PostgreSQL has its real durability.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import httpx

from laneway.domain.settings import EngineSettings, MaintenanceSettings
from laneway.embedded import EmbeddedPostgres
from laneway.engine import Broker
from tests.faults.ledger import FINAL, Ledger
from tests.faults.test_crash import crash
from tests.postgres import find_binaries, open_directory
from tests.protocol.servers import LANEWAY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of a test
TARGET = Path(__file__).with_name("target.py")
# The targets by what the gateway may do after a call whose result is unknown.
TARGETS = ("asked", "at-most-once", "at-least-once")
PAUSE = 0.02

_SETTINGS = """
[gateway]
private_networks = ["127.0.0.0/8"]
shutdown_seconds = 3
"""
_TARGET = """
[gateway.targets.{name}]
url = "{url}/submit/{name}"
redelivery = "{redelivery}"
attempts = 50
retry_first_seconds = 0.1
retry_cap_seconds = 1
callback_url = "{url}/hook"
callback_secrets = ["{secret}"]
"""
_LOOKUP = """
[gateway.targets.{name}.options]
lookup_url = "{url}/known/{{transaction_id}}"
"""


class Program:
    """A command of laneway that may be killed and started again."""

    def __init__(self, folder: Path, dsn: str, name: str, ready: str, *arguments: str) -> None:
        self._folder = folder
        self._environment = {"PATH": "/usr/bin:/bin", "DATABASE_URL": dsn}
        self._arguments = arguments
        self._ready = re.compile(ready)
        self._log = folder / f"{name}.log"
        self._log.touch()
        self._from = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What the process has logged since it was started."""
        return self._log.read_text()[self._from :]

    async def start(self) -> None:
        self._from = len(self._log.read_text())
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                LANEWAY, *self._arguments, cwd=self._folder, env=self._environment, stderr=log
            )

    async def read(self, pattern: str | re.Pattern[str]) -> re.Match[str]:
        """Return what the process logs of this form, as soon as it does."""
        async with asyncio.timeout(60):
            while (found := re.search(pattern, self.log)) is None:
                assert self._process is not None
                assert self._process.returncode is None, self.log
                await asyncio.sleep(PAUSE)
        return found

    async def wait_until_ready(self) -> str:
        return (await self.read(self._ready))[0]

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Return the exit code."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(number)
        async with asyncio.timeout(30):
            return await self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def end(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class Installation:
    def __init__(self, postgres: EmbeddedPostgres, folder: Path, target: str) -> None:
        self.postgres = postgres
        self.target = httpx.AsyncClient(base_url=target, timeout=30)
        self.server = Program(
            folder, postgres.dsn, "server", r"http://127\.0\.0\.1:\d+", "serve", "--port", "0"
        )
        self.gateways = [
            Program(folder, postgres.dsn, f"gateway{n}", "delivers to", "gateway", "run")
            for n in range(2)
        ]
        self.ledger = Ledger()

    async def accept(self, target: str, key: str) -> str:
        """Send a request until it is accepted; return the transaction's id."""
        body = json.dumps({"key": key})
        headers = {"Idempotency-Key": key}
        async with asyncio.timeout(90):
            while True:
                try:
                    url = await self.server.wait_until_ready()
                    async with httpx.AsyncClient(timeout=10) as client:
                        answer = await client.post(
                            f"{url}/api/v1/relay/{target}", content=body, headers=headers
                        )
                except (httpx.TransportError, AssertionError):
                    await asyncio.sleep(PAUSE)
                    continue
                if answer.status_code == 202:
                    break
                # The database is unreachable, or the first request may still be stored.
                assert answer.status_code in {409, 503}, answer.text
                await asyncio.sleep(PAUSE)
        transaction: str = answer.json()["transactionId"]
        self.ledger.accepted[transaction] = target, body
        return transaction

    async def hold(self) -> None:
        """Have the target hold its answers."""
        await self.target.post("/hold")

    async def wait_until_held(self, submissions: int = 1) -> None:
        (await self.target.get("/held", params={"at_least": submissions})).raise_for_status()

    async def release(self) -> None:
        await self.target.post("/release")

    async def end_leases(self, pids: Iterable[int] | None = None) -> None:
        """Move the clock past the leases of these gateways, by default of all."""
        names = None if pids is None else [f"gateway {socket.gethostname()} {pid}" for pid in pids]
        await self._execute(
            "update laneway.claim set until = clock_timestamp()"
            " where $1::text[] is null or consumer = any ($1)",
            names,
        )

    async def crash_database(self) -> None:
        await asyncio.to_thread(crash, self.postgres.pid)

    async def settle(self) -> list[str]:
        """Wait until all transactions are final and told; return the ledger's faults."""
        async with asyncio.timeout(90):
            while set(self.ledger.accepted) - set(self.ledger.told):
                self.ledger.records = (await self.target.get("/records")).json()
                await asyncio.sleep(PAUSE)
        url = await self.server.wait_until_ready()
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            for each in self.ledger.accepted:
                self.ledger.found[each] = await self.show(each, client)
        self.ledger.records = (await self.target.get("/records")).json()
        return self.ledger.find_faults()

    async def show(self, transaction: str, client: httpx.AsyncClient) -> dict[str, Any]:
        answer = await client.get(f"/api/v1/relay/status/{transaction}")
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    async def wait_until_final(self, transaction: str) -> dict[str, Any]:
        url = await self.server.wait_until_ready()
        async with asyncio.timeout(60), httpx.AsyncClient(base_url=url, timeout=30) as client:
            while (found := await self.show(transaction, client))["status"] not in FINAL:
                await asyncio.sleep(PAUSE)
        return found

    async def _execute(self, statement: str, *arguments: object) -> None:
        async with asyncio.timeout(60):
            while True:
                try:
                    connection = await asyncpg.connect(self.postgres.dsn)
                    try:
                        await connection.execute(statement, *arguments)
                    finally:
                        await connection.close()
                except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                    await asyncio.sleep(PAUSE)
                else:
                    return


@asynccontextmanager
async def install() -> AsyncIterator[Installation]:
    """Start PostgreSQL, the target, and the server, but no gateway."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(open_directory())
        postgres = await stack.enter_async_context(
            EmbeddedPostgres(folder / "data", binaries=find_binaries())
        )
        quiet = EngineSettings(maintenance=MaintenanceSettings(enabled=False))
        async with Broker(postgres.dsn, quiet) as broker:
            await broker.schema.install()
        target = await asyncio.create_subprocess_exec(
            # -P: our folder has a module named as one of the standard library.
            *(sys.executable, "-P", TARGET, folder / "records", SECRET),
            stdout=asyncio.subprocess.PIPE,
        )
        stack.push_async_callback(target.wait)
        stack.callback(target.kill)
        assert target.stdout is not None
        url = f"http://127.0.0.1:{int(await target.stdout.readline())}"
        (folder / "laneway.toml").write_text(
            _SETTINGS + "".join(_write_target(n, url) for n in TARGETS)
        )
        installation = Installation(postgres, folder, url)
        stack.push_async_callback(installation.target.aclose)
        for program in (installation.server, *installation.gateways):
            stack.push_async_callback(program.end)
        await installation.server.start()
        await installation.server.wait_until_ready()
        yield installation


def _write_target(name: str, url: str) -> str:
    redelivery = name if name != "asked" else "at-most-once"
    text = _TARGET + (_LOOKUP if name == "asked" else "")
    return text.format(name=name, url=url, redelivery=redelivery, secret=SECRET)
