"""Runs `laneway serve` in a separate process."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from benchmarks.cpu import ProcessClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_LANEWAY = Path(sys.executable).with_name("laneway")
_READY = re.compile(r"Laneway listens on (http://\S+)")
_START_TIMEOUT = timedelta(seconds=60)


class ServerFailed(Exception):
    """The server did not start."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server process and the URL that it listens on."""

    pid: int
    url: str

    @property
    def address(self) -> tuple[str, int]:
        place = urlsplit(self.url)
        return place.hostname or "127.0.0.1", place.port or 0

    @property
    def clock(self) -> ProcessClock:
        return ProcessClock(self.pid)


@asynccontextmanager
async def run_server(dsn: str, *, settings: str = "") -> AsyncIterator[RunningServer]:
    """Start a server on a free port. settings: its laneway.toml, else it has the default settings."""
    with tempfile.TemporaryDirectory(prefix="laneway-serve-") as folder:
        log = Path(folder) / "log"
        (Path(folder) / "laneway.toml").write_text(settings)
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *(_LANEWAY, "serve", "--port", "0"),
                cwd=folder,
                env={"PATH": "/usr/bin:/bin", "DATABASE_URL": dsn},
                stderr=file,
            )
        try:
            yield RunningServer(process.pid, await _wait_until_ready(process, log))
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()


async def _wait_until_ready(process: asyncio.subprocess.Process, log: Path) -> str:
    async with asyncio.timeout(_START_TIMEOUT.total_seconds()):
        while True:
            text = _read(log)
            ready = _READY.search(text)
            if ready is not None:
                return ready[1]
            if process.returncode is not None:
                raise ServerFailed(f"the server did not start: {text}")
            await asyncio.sleep(0.02)


def _read(log: Path) -> str:
    return log.read_text()
