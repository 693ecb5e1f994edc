"""An HTTP server in the test's own event loop, with an application of the test."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from laneway.server.http import HttpServer
from laneway.server.http.time_limits import TimeLimits
from laneway.server.settings import Limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from laneway.server.http import Exchange
    from laneway.server.http.connection import Connection, Phase

PATIENCE = 20
GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /%b HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
CHUNKED = b"POST /%b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
_LIMITS = Limits()


class RunningHttpServer:
    """One server. limits: its own. exchanges: the requests that its application was called for."""

    def __init__(
        self, server: HttpServer, address: tuple[str, int], serving: asyncio.Task[None]
    ) -> None:
        self.server = server
        self.limits = server.limits
        self.address = address
        self.serving = serving
        self.exchanges: list[Exchange] = []

    @property
    def connection(self) -> Connection:
        """Return the only connection."""
        (connection,) = self.server.connections
        return connection

    @property
    def targets(self) -> list[str]:
        return [f"{exchange.method} {exchange.path}" for exchange in self.exchanges]

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(*self.address)
            try:
                yield Client(reader, writer)
            finally:
                writer.close()

    async def talk(self, *pieces: bytes) -> bytes:
        """Send the pieces one by one, and return everything sent back until the server closes."""
        async with self.connect() as client:
            for piece in pieces:
                await client.send(piece)
                # Let the server read this piece alone.
                for _ in range(3):
                    await asyncio.sleep(0)
            return await client.reader.read()

    async def wait_for_phase(self, phase: Phase) -> Connection:
        """Return the only connection once it is in the phase."""
        await wait_until(
            lambda: [connection.phase for connection in self.server.connections] == [phase]
        )
        return self.connection

    async def wait_until_alone(self) -> None:
        await wait_until(lambda: not self.server.connections)

    def pass_time(self, time: timedelta) -> None:
        """Enforce the time limits as if the time had passed."""
        now = self.server.loop.time() + time.total_seconds()
        TimeLimits(self.limits).enforce(list(self.server.connections), now)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def read_response(self) -> bytes:
        """Return one response whose length its headers say."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b": ")
            if name == b"content-length":
                return head + await self.reader.readexactly(int(value))
        return head


@asynccontextmanager
async def run_http_server(
    application: Callable[[Exchange], Awaitable[None]],
    limits: Limits = _LIMITS,
    *,
    shutdown: timedelta = timedelta(seconds=PATIENCE),
) -> AsyncIterator[RunningHttpServer]:
    async def answer(exchange: Exchange) -> None:
        running.exchanges.append(exchange)
        await application(exchange)

    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    server = HttpServer(answer, limits)
    ready = asyncio.Event()
    serving = asyncio.create_task(server.serve([listener], shutdown=shutdown, ready=ready.set))
    running = RunningHttpServer(server, address, serving)
    await ready.wait()
    try:
        yield running
    finally:
        server.stop()
        server.stop()
        async with asyncio.timeout(PATIENCE):
            await serving


async def echo(exchange: Exchange) -> None:
    body = await read_body(exchange)
    seen = b"%b %b?%b " % (exchange.method.encode(), exchange.path.encode(), exchange.query)
    await answer(exchange, seen + body)


async def answer(exchange: Exchange, body: bytes, status: int = 200) -> None:
    await exchange.send(status, b"content-length: %d\r\n" % len(body), body)


async def read_body(exchange: Exchange) -> bytes:
    body = b""
    while piece := await exchange.read():
        body += piece
    return body


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


def read_bodies(said: bytes) -> list[bytes]:
    """Return the bodies of responses that follow each other."""
    bodies = []
    while said:
        head, _, rest = said.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 "), said
        size = next(
            int(line.partition(b": ")[2])
            for line in head.split(b"\r\n")
            if line.startswith(b"content-length: ")
        )
        bodies.append(rest[:size])
        said = rest[size:]
    return bodies
