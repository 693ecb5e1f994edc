"""Holds clients to their limits: the size of headers, and the time to send and to read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from collections.abc import Collection

    from laneway.server.settings import Limits

_PERIOD = 1.0
_HEADERS_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
    b'content-length: 47\r\nconnection: close\r\n\r\n{"message":"Request header fields too large"}\r\n'
)
_TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\n"
    b'content-length: 31\r\nconnection: close\r\n\r\n{"message":"Request timed out"}'
)


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which also remembers since when it waits for its client."""

    header_limit = 32 * 1024

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._unparsed = 0
        # Since when a request's headers or body are awaited; None while neither is.
        self.headers_since: float | None = None
        self.body_since: float | None = None
        self.unread_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.headers_since = self.loop.time()

    def data_received(self, data: bytes) -> None:
        if self.headers_since is None and self.body_since is None:
            self.headers_since = self.loop.time()
        self._unparsed += len(data)
        super().data_received(data)
        if (
            self._unparsed > self.header_limit
            and self.headers_since is not None
            and not self.transport.is_closing()
        ):
            self.transport.write(_HEADERS_TOO_LARGE)
            self.transport.close()

    def on_headers_complete(self) -> None:
        self.body_since = self.headers_since
        self.headers_since = None
        if self._unparsed > self.header_limit:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self.header_limit:
                self.transport.write(_HEADERS_TOO_LARGE)
                self.transport.close()
                return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self.cycle is not None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self.body_since = None
        self._unparsed = 0
        if self.cycle is not None:
            super().on_message_complete()

    def pause_writing(self) -> None:
        self.unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.unread_since = None
        super().resume_writing()

    def turn_away(self) -> None:
        """End a connection whose client takes too long to send its request."""
        if not self.transport.is_closing():
            if not getattr(self.cycle, "response_started", False):
                self.transport.write(_TOO_SLOW)
            self.transport.close()


class Guard:
    """Looks at every connection once a second: no request pays for a timer of its own."""

    def __init__(self, connections: Collection[Any], limits: Limits) -> None:
        self._connections = connections
        self._headers = limits.headers_within.total_seconds()
        self._body = limits.body_within.total_seconds()
        self._write = limits.write_stall.total_seconds()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_PERIOD)
            self.look(loop.time())

    def look(self, now: float) -> None:
        for connection in list(self._connections):
            if _passed(connection.headers_since, self._headers, now) or _passed(
                connection.body_since, self._body, now
            ):
                connection.turn_away()
            elif _passed(connection.unread_since, self._write, now):
                connection.transport.abort()


def _passed(since: float | None, limit: float, now: float) -> bool:
    return since is not None and now - since > limit
