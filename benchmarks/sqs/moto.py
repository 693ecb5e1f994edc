"""Runs moto_server, an SQS server for tests that keeps messages in memory."""

from __future__ import annotations

import asyncio
import itertools
import re
import socket
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from benchmarks.http.meter import Meter
from benchmarks.http.server import RunningServer, ServerFailed
from benchmarks.http.turns import Turn, WrongCount
from benchmarks.http.wrk import run_wrk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from benchmarks.http.stage import Stage

_PROGRAM = Path(sys.executable).with_name("moto_server")
_TIMEOUT = timedelta(seconds=60)
# moto reads the service from the credential scope. Without one, it responds as S3.
_SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/sqs/aws4_request, "
    "SignedHeaders=host, Signature=0"
}
_LIST = {"Action": "ListQueues"}
_CREATE = {"Action": "CreateQueue"}
_COUNT = {"Action": "GetQueueAttributes", "AttributeName.1": "ApproximateNumberOfMessages"}
_COUNTED = re.compile(rb"<Value>(\d+)</Value>")


@dataclass(frozen=True, slots=True)
class MotoTurns:
    """Turns that send the same requests to moto, counted by its queue's number of messages.

    Each turn has a new queue, because moto gets slower as a queue fills.
    """

    stage: Stage
    server: RunningServer
    script: str
    connections: int
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def run(self, time: timedelta) -> Turn:
        queue = f"moto-{next(self.numbers)}"
        await asyncio.to_thread(_ask, self.server, _CREATE, QueueName=queue)
        meter = Meter.begin(self.stage, [self.server])
        load = await run_wrk(
            self.server.url, self.script, queue, connections=self.connections, time=time
        )
        spent = meter.end()
        messages = await _count(self.server, queue)
        # When wrk stops, up to one request is in progress on each connection.
        if not 0 < load.requests <= messages <= load.requests + self.connections:
            raise WrongCount(f"moto confirmed {load.requests} messages, its queue has {messages}")
        return Turn(messages / load.seconds, spent, messages)


@asynccontextmanager
async def run_moto() -> AsyncIterator[RunningServer]:
    """Start moto_server on a free port."""
    port = _find_port()
    process = await asyncio.create_subprocess_exec(
        *(_PROGRAM, "--host", "127.0.0.1", "--port", str(port)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    server = RunningServer(process.pid, f"http://127.0.0.1:{port}")
    try:
        await _wait_until_ready(server, process)
        yield server
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def _wait_until_ready(server: RunningServer, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(_TIMEOUT.total_seconds()):
        while process.returncode is None:
            with suppress(URLError):
                answer = await asyncio.to_thread(_ask, server, _LIST)
                if b"<ListQueuesResponse" in answer:
                    return
                raise ServerFailed(f"moto does not respond as SQS: {answer.decode()}")
            await asyncio.sleep(0.1)
    raise ServerFailed("moto did not start")


async def _count(server: RunningServer, queue: str) -> int:
    url = f"{server.url}/123456789012/{queue}"
    answer = await asyncio.to_thread(_ask, server, _COUNT, QueueUrl=url)
    found = _COUNTED.search(answer)
    if found is None:
        raise ServerFailed(f"moto did not count its messages: {answer.decode()}")
    return int(found[1])


def _ask(server: RunningServer, action: Mapping[str, str], **parameters: str) -> bytes:
    form = urlencode({**action, **parameters}).encode()
    request = Request(server.url, form, _SIGNED)  # noqa: S310 - on loopback
    with urlopen(request, timeout=_TIMEOUT.total_seconds()) as answer:  # noqa: S310 - on loopback
        content: bytes = answer.read()
    return content


def _find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port
