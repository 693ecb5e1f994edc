"""moto's SQS server, which keeps everything in memory: what people test against today."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.http.connection import open_connection
from benchmarks.http.meter import Meter
from benchmarks.http.server import RunningServer, ServerFailed
from benchmarks.http.turns import Turn
from benchmarks.http.wrk import run_wrk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.http.stage import Stage

QUEUE = "moto"

_PROGRAM = Path(sys.executable).with_name("moto_server")
_PATIENCE = timedelta(seconds=60)
_CREATE = f"/?Action=CreateQueue&Version=2012-11-05&QueueName={QUEUE}"


@dataclass(frozen=True, slots=True)
class MotoTurns:
    """The same requests, to moto; messages are those it answered."""

    stage: Stage
    server: RunningServer
    script: str
    connections: int

    async def take(self, time: timedelta) -> Turn:
        meter = Meter.begin(self.stage, [self.server])
        load = await run_wrk(
            self.server.url, self.script, QUEUE, connections=self.connections, time=time
        )
        return Turn(load.requests / load.seconds, meter.end(), load.requests)


@asynccontextmanager
async def run_moto() -> AsyncIterator[RunningServer]:
    """Start it on a free port, with a queue."""
    port = _find_port()
    process = await asyncio.create_subprocess_exec(
        *(_PROGRAM, "--host", "127.0.0.1", "--port", str(port)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    server = RunningServer(process.pid, f"http://127.0.0.1:{port}")
    try:
        await _make_queue(server, process)
        yield server
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def _make_queue(server: RunningServer, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(_PATIENCE.total_seconds()):
        while process.returncode is None:
            with suppress(OSError):
                async with open_connection(server) as client:
                    answer = await client.get(_CREATE)
                if answer.status == 200:
                    return
                raise ServerFailed(f"moto made no queue: {answer.body.decode()}")
            await asyncio.sleep(0.1)
    raise ServerFailed("moto did not start")


def _find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port
