"""A minimal HTTP client: one connection that stays open, one request at a time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.http.server import RunningServer

_LENGTH = b"content-length: "
NO_CONTENT = 204


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpConnection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def get(self, path: str) -> Response:
        self.send_get(path)
        return await self.read()

    async def post(self, path: str, body: str) -> Response:
        content = body.encode()
        self.writer.write(
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n".encode()
            + content
        )
        return await self.read()

    def send_get(self, path: str) -> None:
        """Send a request without reading its response."""
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    async def read(self) -> Response:
        head = await self.reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        if status == NO_CONTENT:
            return Response(status, b"")
        start = head.lower().index(_LENGTH) + len(_LENGTH)
        length = int(head[start : head.index(b"\r\n", start)])
        return Response(status, await self.reader.readexactly(length))


@asynccontextmanager
async def open_connection(server: RunningServer) -> AsyncIterator[HttpConnection]:
    reader, writer = await asyncio.open_connection(*server.address)
    try:
        yield HttpConnection(reader, writer)
    finally:
        writer.close()
