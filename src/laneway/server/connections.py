"""Connections: holds clients to their limits, and sends an answer in one piece."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from laneway.server.settings import Limits

_PERIOD = 1.0
_BODILESS = frozenset({204, 304})
_HEADERS_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
    b'content-length: 47\r\nconnection: close\r\n\r\n{"message":"Request header fields too large"}\r\n'
)
_TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\n"
    b'content-length: 31\r\nconnection: close\r\n\r\n{"message":"Request timed out"}'
)


class Cycle(RequestResponseCycle):
    """uvicorn's, which sends an answer's head together with what comes first of its body.

    That is one system call and one packet for most answers, where it was two of each. What the
    application sends is its own and in order, so it is not examined again here.
    """

    start: Mapping[str, Any] | None = None

    async def send(self, message: Mapping[str, Any]) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == "http.response.start":
            self.start = message
            return
        body = message["body"]
        more = message.get("more_body", False)
        pieces = []
        if self.start is not None:
            pieces.append(self._write_head(self.start))
            self.start = None
        if self.scope["method"] != "HEAD" and body:
            pieces += [b"%x\r\n" % len(body), body, b"\r\n"] if self.chunked_encoding else [body]
        if self.chunked_encoding and not more:
            pieces.append(b"0\r\n\r\n")
        if pieces:
            self.transport.write(b"".join(pieces))
        if not more:
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()

    def _write_head(self, start: Mapping[str, Any]) -> bytes:
        self.response_started = True
        self.waiting_for_100_continue = False
        status = start["status"]
        lines = [STATUS_LINE[status]]
        sized = status in _BODILESS
        for name, value in (*self.default_headers, *start["headers"]):
            lines += (name, b": ", value, b"\r\n")
            sized = sized or name == b"content-length"
        self.chunked_encoding = not sized
        if not sized:
            lines.append(b"transfer-encoding: chunked\r\n")
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which also remembers since when it waits for its client."""

    header_limit: int

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
        # Its task has not begun yet, so nobody has seen it as anything else.
        self.cycle.__class__ = Cycle

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


def limit_headers(size: int) -> type[GuardedProtocol]:
    """Return the protocol with its limit: uvicorn takes a class, not an object."""
    return type("LimitedProtocol", (GuardedProtocol,), {"header_limit": size})


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
