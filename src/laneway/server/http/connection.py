"""One client connection: which request is served when, when input is read, and how it ends."""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

from laneway.server.http.exchange import Exchange, compose_refusal
from laneway.server.http.parser import HeadersTooLarge, MalformedRequest, RequestParser

if TYPE_CHECKING:
    from laneway.server.http.http_server import HttpServer
    from laneway.server.http.parser import Headers

# How many requests may wait for the one before them.
_PIPELINED = 16

_NOT_HTTP = compose_refusal(400, "Bad Request - not a valid HTTP/1.1 request")
_HEADERS_TOO_LARGE = compose_refusal(431, "Request header fields too large")
_TOO_SLOW = compose_refusal(408, "Request timed out")


class Phase(Enum):
    """What a connection waits for; each phase has its own time limit."""

    HEADERS = "the rest of a request's headers"
    BODY = "the rest of a request's body"
    SERVING = "responses to complete requests"
    IDLE = "another request"
    LEAVING = "the client to read its last response and close the connection"


_HEADERS, _BODY, _SERVING, _IDLE, _LEAVING = Phase


class Connection(asyncio.Protocol):
    """Serves the requests of one client, one after another.

    since: when the phase began; a request's body counts from the first byte of its headers, and what
    is behind another request from the end of its response.
    unread_since: when the client stopped reading its responses, None while it reads.
    heard_at: when a client that should leave last sent something.
    """

    transport: asyncio.Transport

    def __init__(self, server: HttpServer) -> None:
        self.phase = _HEADERS
        self.since = 0.0
        self.unread_since: float | None = None
        self.heard_at = 0.0
        self.server = server
        self.loop = server.loop
        self._parser = RequestParser(self, header_limit=server.limits.headers)
        # The request that is served, those behind it, and the one that was parsed last.
        self._served: Exchange | None = None
        self._queue: deque[Exchange] = deque()
        self._latest: Exchange | None = None
        self._reading = True
        self._writable = asyncio.Event()
        self._discarded = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # a stream socket's is of that kind
        self._enter(_HEADERS)
        self.server.add_connection(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        self._queue.clear()
        self._lose_served()
        self._latest = None
        self.resume_writing()
        self._parser.close()
        self.server.remove_connection(self)

    def data_received(self, data: bytes) -> None:
        if self.phase is _LEAVING:
            self._discard(data)
            return
        try:
            self._parser.feed(data)
        except MalformedRequest:
            self._refuse(_NOT_HTTP)
        except HeadersTooLarge:
            self._refuse(_HEADERS_TOO_LARGE)

    def pause_writing(self) -> None:
        self.unread_since = self.loop.time()
        self._writable.clear()

    def resume_writing(self) -> None:
        self.unread_since = None
        self._writable.set()

    def begin_headers(self) -> None:
        if self.phase is _IDLE or self.phase is _SERVING:
            self._enter(_HEADERS)

    def begin_request(
        self,
        *,
        method: str,
        path: str,
        query: bytes,
        headers: Headers,
        keep_alive: bool,
        version: str,
    ) -> None:
        """Serve a request whose headers are complete, after those before it."""
        self.phase = _BODY
        self._latest = exchange = Exchange(
            self,
            method=method,
            path=path,
            query=query,
            headers=headers,
            keep_alive=keep_alive,
            version=version,
        )
        if self._served is None:
            self._serve(exchange)
            return
        self._queue.append(exchange)
        # A paused connection does not notice that the client disconnects: so only beyond a limit.
        if len(self._queue) >= _PIPELINED:
            self.pause_reading()

    def add_body(self, body: bytes) -> None:
        exchange = self._latest
        if exchange is not None and not exchange.complete:
            exchange.add_body(body)

    def end_request(self) -> None:
        exchange = self._latest
        self.phase = _SERVING
        if exchange is not None:
            exchange.end_body()
            if exchange.complete:
                # The response came before the end of the body.
                self._enter(_IDLE)

    def finish(self, exchange: Exchange) -> None:
        """Go on after a response is complete: with the next request, or close."""
        self._served = None
        if not exchange.keep_alive:
            if exchange.received:
                self.transport.close()
            else:
                self.leave()
        if self.is_gone():
            return
        if self._queue:
            self._serve(self._queue.popleft())
        elif self.phase is _SERVING:
            self.phase = _IDLE
        if exchange.received:
            # What the client sends behind a request may have had to wait for its response.
            self.since = self.loop.time()
        self.resume_reading()

    def is_gone(self) -> bool:
        """Return whether no response would reach the client."""
        return self.phase is _LEAVING or self.transport.is_closing()

    async def drain(self) -> None:
        """Wait while the client reads its responses slower than they are written."""
        if self.unread_since is not None:
            await self._writable.wait()

    def pause_reading(self) -> None:
        if self._reading and not self.is_gone():
            self._reading = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._reading and len(self._queue) < _PIPELINED and not self.transport.is_closing():
            self._reading = True
            self.transport.resume_reading()

    def time_out(self) -> None:
        """End a connection whose client takes too long to send its request."""
        behind = self._served is not None and self.phase is _HEADERS
        # An earlier request keeps its response.
        if not behind and not self._queue:
            self._refuse(_TOO_SLOW)

    def shut_down(self) -> None:
        """Close the connection once the requests received so far are answered."""
        if self.phase is _LEAVING or self._latest is None or self._latest.complete:
            self.transport.close()
        else:
            self._latest.keep_alive = False

    def leave(self) -> None:
        """Send what is written and no more, and close once the client has had time to read it.

        A socket that is closed with unread input resets the connection, and a client that sends its
        whole request before it reads would lose the response. So input is read and discarded.
        """
        if self.is_gone():
            return
        self._enter(_LEAVING)
        self.heard_at = self.since
        self._queue.clear()
        self.transport.write_eof()
        self.resume_reading()

    def _serve(self, exchange: Exchange) -> None:
        self._served = exchange
        self.server.start(exchange)

    def _refuse(self, response: bytes) -> None:
        """Leave, after a response unless the client has one or waits for an earlier one."""
        if self.is_gone():
            return
        if self._queue:
            self.transport.close()
            return
        latest = self._latest
        # Unless a body is awaited, the latest request is an earlier one.
        if latest is None or (latest.complete if self.phase is not _BODY else not latest.started):
            self.transport.write(response)
        self.leave()
        self._lose_served()

    def _lose_served(self) -> None:
        served, self._served = self._served, None
        if served is not None:
            served.lose()

    def _discard(self, data: bytes) -> None:
        self.heard_at = self.loop.time()
        self._discarded += len(data)
        if self._discarded > self.server.limits.linger_bytes:
            self.transport.abort()

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self.since = self.loop.time()
