"""Slow clients are disconnected, and others are not affected."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
import psutil
import pytest_asyncio

from laneway.server.settings import Limits, ServerSettings
from laneway.server.shared_counters import Sheet
from laneway.server.supervision import Orders
from tests.postgres import execute, name_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SHORT = timedelta(milliseconds=300)
# The guard looks once a second.
SOON = 20
LIMITS = Limits(
    headers_within=SHORT,
    body_within=SHORT,
    write_stall=SHORT,
    linger=timedelta(seconds=1),
    linger_silent=SHORT,
    linger_bytes=1024 * 1024,
    keep_alive=timedelta(seconds=1),
)
POST = b"POST /api/queue/message HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"


class Impatient:
    """A server process whose limits are short."""

    def __init__(self, process: psutil.Process, address: tuple[str, int]) -> None:
        self.process = process
        self.address = address

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.address)

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        reader, writer = await self.connect()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        said = await reader.read()
        writer.close()
        return said

    async def wait_until_alone(self) -> None:
        """Wait until every client's connection is closed on the server's side."""
        async with asyncio.timeout(SOON):
            while any(
                connection.status != psutil.CONN_LISTEN and connection.laddr[1] == self.address[1]
                for connection in self.process.net_connections("tcp")
            ):
                await asyncio.sleep(0.05)


@asynccontextmanager
async def run_impatient(
    dsn: str, limits: Limits = LIMITS, *, secret: str | None = None
) -> AsyncIterator[Impatient]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=100)
    with listener, Sheet.make(workers=1) as sheet:
        orders = Orders(
            dsn=dsn,
            settings=ServerSettings(limits=limits, secret_key=secret),
            listeners=(listener.fileno(),),
            sheet=sheet.file.fileno(),
            worker=0,
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "laneway.server.worker_process",
            stdin=asyncio.subprocess.PIPE,
            pass_fds=(*orders.listeners, orders.sheet),
        )
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(orders) + b"\n")
        server = Impatient(psutil.Process(process.pid), listener.getsockname())
        try:
            async with asyncio.timeout(60):
                assert b" 200 " in await server.ask("GET", "/api/health/live")
            yield server
        finally:
            process.terminate()
            await process.wait()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def impatient(server: str) -> AsyncIterator[Impatient]:
    await execute(server, "create database impatient template laneway_template strategy file_copy")
    async with run_impatient(name_database(server, "impatient")) as running:
        body = json.dumps([{"type": "big", "payload": "x" * 100_000}] * 100).encode()
        assert b" 201 " in await running.ask("POST", "/api/queue/batch", body)
        yield running
    await execute(server, "drop database impatient with (force)")


async def test_slow_headers_and_bodies_are_408(impatient: Impatient) -> None:
    async def send_slowly(start: bytes) -> bytes:
        reader, writer = await impatient.connect()
        writer.write(start)

        async def drip() -> None:
            while start:
                writer.write(b"x")
                await asyncio.sleep(0.1)

        dripping = asyncio.ensure_future(drip())
        try:
            async with asyncio.timeout(SOON):
                return await reader.read()
        finally:
            dripping.cancel()
            writer.close()

    for said in await asyncio.gather(
        send_slowly(b""),
        send_slowly(b"GET /api/health HTTP/1.1\r\nX-Slow: "),
        send_slowly(POST),
        send_slowly(
            POST.replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked") + b"3e8\r\n"
        ),
    ):
        assert said.startswith(b"HTTP/1.1 408 ")
        assert json.loads(said.partition(b"\r\n\r\n")[2]) == {"message": "Request timed out"}
    await impatient.wait_until_alone()


async def test_answered_client_that_sends_on_is_not_answered_twice(impatient: Impatient) -> None:
    reader, writer = await impatient.connect()
    writer.write(POST.replace(b"message", b"nowhere"))
    async with asyncio.timeout(SOON):
        said = await reader.read()
    assert said.startswith(b"HTTP/1.1 404 ")
    assert said.count(b"HTTP/1.1") == 1
    writer.close()


async def test_unread_response_is_aborted(impatient: Impatient) -> None:
    """A list whole in memory, and an export that is read from the database while it is sent."""
    await impatient.wait_until_alone()
    clients = []
    for path in ("/api/queue/main/messages?limit=1000", "/api/queue/main/export"):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await asyncio.to_thread(client.connect, impatient.address)
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        clients.append(client)
    await impatient.wait_until_alone()
    for client in clients:
        client.close()
    assert b" 200 " in await impatient.ask("GET", "/api/health/live")


async def test_refused_connection_ends(impatient: Impatient) -> None:
    """One that holds its connection open in silence, one that sends on, one that sends too much."""
    await impatient.wait_until_alone()
    _, silent = await impatient.connect()
    silent.write(b"nonsense\r\n\r\n")
    began = time.monotonic()

    def send(pause: float) -> None:
        with socket.create_connection(impatient.address) as client:
            client.sendall(b"nonsense\r\n\r\n")
            while time.monotonic() - began < SOON:
                try:
                    client.sendall(b"x" * 65536)
                except OSError:
                    return
                time.sleep(pause)
            raise AssertionError("it may send for ever")

    await asyncio.gather(asyncio.to_thread(send, 0.1), asyncio.to_thread(send, 0.0))
    await impatient.wait_until_alone()
    silent.close()


async def test_idle_connection_ends_and_others_are_served_meanwhile(impatient: Impatient) -> None:
    reader, writer = await impatient.connect()
    writer.write(b"GET /api/health/live HTTP/1.1\r\nHost: localhost\r\n\r\nGET /api/hea")
    async with asyncio.timeout(SOON):
        said = await reader.read()
    assert said.startswith(b"HTTP/1.1 200 ")
    writer.close()


async def test_hundreds_of_idle_connections_block_no_request(impatient: Impatient) -> None:
    streams = await asyncio.gather(*(impatient.connect() for _ in range(500)))
    try:
        for _, writer in streams:
            path = b"/api/queue/message?timeout=30&type=never"
            writer.write(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
        async with asyncio.timeout(SOON):
            assert b" 200 " in await impatient.ask("GET", "/api/health/live")
            body = b'{"type": "a", "payload": 1}'
            assert b" 201 " in await impatient.ask("POST", "/api/queue/message", body)
    finally:
        for _, writer in streams:
            writer.close()
    await impatient.wait_until_alone()
