"""The `laneway serve` command in a process of its own."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import httpx
import psutil

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LANEWAY = Path(sys.executable).with_name("laneway")

_READY = re.compile(r"Laneway listens on (http://\S+)")


class RunningServer:
    """One running command; `url` is where it listens."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text()

    def client(self, **headers: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=f"{self.url}/api", headers=headers, timeout=30, limits=httpx.Limits()
        )

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Return the exit code."""
        self.process.send_signal(number)
        async with asyncio.timeout(30):
            return await self.process.wait()


@asynccontextmanager
async def run_laneway(dsn: str, *flags: str, **environment: str) -> AsyncIterator[RunningServer]:
    """Start a server on a free port, and leave nothing of it behind."""
    with tempfile.TemporaryDirectory(prefix="laneway-serve-") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                LANEWAY,
                "serve",
                "--port",
                "0",
                *flags,
                cwd=folder,
                env={"PATH": "/usr/bin:/bin", "DATABASE_URL": dsn, **environment},
                stderr=file,
            )
        try:
            yield RunningServer(process, await _wait_until_ready(process, log), log)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def make_queue(dsn: str, name: str, settings: str = "{}") -> None:
    """Create a queue; unless the settings say otherwise, it is as one that was created over REST."""
    settings = json.dumps({"backoff": "0", "max_attempts": 3, **json.loads(settings)})
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("select laneway.create_queue($1, $2)", name, settings)
    finally:
        await connection.close()


async def wait_for_workers(server: RunningServer, count: int) -> list[int]:
    """Return the worker processes once there are `count`."""
    async with asyncio.timeout(60):
        while True:
            assert server.process.returncode is None, server.log
            children = [
                child.pid
                for child in psutil.Process(server.process.pid).children()
                if _is_worker(child)
            ]
            if len(children) == count:
                return children
            await asyncio.sleep(0.02)


def _is_worker(child: psutil.Process) -> bool:
    try:
        return "laneway.server.worker_process" in child.cmdline()
    except psutil.NoSuchProcess:  # it was killed a moment ago
        return False


async def _wait_until_ready(process: asyncio.subprocess.Process, log: Path) -> str:
    async with asyncio.timeout(60):
        while True:
            text = log.read_text()
            ready = _READY.search(text)
            if ready is not None:
                return ready[1]
            if process.returncode is not None:
                raise AssertionError(f"the server did not start: {text}")
            await asyncio.sleep(0.01)
