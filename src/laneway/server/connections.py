"""Connections: holds clients to their limits, and gets each its answer, in one piece."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from httptools import parse_url
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from laneway.server.calls import CONNECTION
from laneway.server.router import read_path

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from laneway.server.settings import Limits

# A message to `send` beside those of ASGI: status, head and body of an answer, all of it.
WHOLE = "laneway.answer"

_PERIOD = 1.0
_VERSION = "1.1"
_BODILESS = frozenset({204, 304})
_CONTENT_TOO_LARGE = 413
# An answer's body of more bytes is sent in pieces of so many.
_LARGE = 64 * 1024
# How many requests of one client may wait for the one before them.
_PIPELINED = 16


def _compose(status: int, message: str) -> bytes:
    """Return an answer to what never became a request."""
    body = b'{"message":"%b"}' % message.encode()
    head = b"content-type: application/json\r\n"
    head += b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body)
    return STATUS_LINE[status] + head + body


_NOT_HTTP = _compose(400, "Bad Request - not a valid HTTP/1.1 request")
_HEADERS_TOO_LARGE = _compose(431, "Request header fields too large")
_TOO_SLOW = _compose(408, "Request timed out")


class Cycle(RequestResponseCycle):
    """uvicorn's, which sends an answer's head together with what comes first of its body.

    That is one system call and one packet for most answers, where it was two of each. What the
    application sends is its own and in order, so it is not examined again here. It may also send an
    answer as a whole, with its headers written out (WHOLE).
    """

    start: Mapping[str, Any] | None = None
    leave: Callable[[], None]

    async def send(self, message: Mapping[str, Any]) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == WHOLE:
            body = message["body"]
            if len(body) > _LARGE:
                await self._send_large(message["status"], message["head"], body)
            else:
                self._write_whole(message["status"], message["head"], body)
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
        if self.scope["method"] != "HEAD":
            pieces += self._write_body(body, more=more)
        if pieces:
            self.transport.write(b"".join(pieces))
        if not more:
            self._finish()

    def _write_whole(self, status: int, head: bytes, body: bytes) -> None:
        lines = self._list_lines(status, head)
        if self.scope["method"] != "HEAD":
            lines.append(body)
        self.transport.write(b"".join(lines))
        self._finish()

    async def _send_large(self, status: int, head: bytes, body: bytes) -> None:
        """Send the body piece by piece, as it is read, and without a copy: it may be shared.

        The request counts as under way until then.
        """
        self.transport.write(b"".join(self._list_lines(status, head)))
        if self.scope["method"] != "HEAD":
            whole = memoryview(body)
            for start in range(0, len(body), _LARGE):
                self.transport.write(whole[start : start + _LARGE])
                if self.flow.write_paused:
                    await self.flow.drain()
                if self.disconnected:
                    return
        self._finish()

    def _list_lines(self, status: int, head: bytes) -> list[bytes]:
        self._begin(status)
        lines = [STATUS_LINE[status]]
        for name, value in self.default_headers:
            lines += (name, b": ", value, b"\r\n")
        lines.append(head)
        lines.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        return lines

    def _begin(self, status: int) -> None:
        self.response_started = True
        self.waiting_for_100_continue = False
        if status == _CONTENT_TOO_LARGE and self.more_body:
            # The rest is not worth waiting for.
            self.keep_alive = False

    def _finish(self) -> None:
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self._close()
        self.on_response()

    def _write_head(self, start: Mapping[str, Any]) -> bytes:
        status = start["status"]
        self._begin(status)
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

    def _write_body(self, body: bytes, *, more: bool) -> list[bytes]:
        if not self.chunked_encoding:
            return [body]
        pieces = [b"%x\r\n" % len(body), body, b"\r\n"] if body else []
        return pieces if more else [*pieces, b"0\r\n\r\n"]

    def _close(self) -> None:
        if self.more_body:
            self.leave()
        else:
            self.transport.close()


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which also remembers since when it waits for its client."""

    header_limit: int
    linger_limit: int

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._unparsed = 0
        # Since when a request's headers or body are awaited; None while neither is.
        self.headers_since: float | None = None
        self.body_since: float | None = None
        self.unread_since: float | None = None
        # Since when there is nothing to do; a client that was answered may call again.
        self.idle_since: float | None = None
        # Of a client that was told to go: since when, since when it is silent, what it sent.
        self.leaving_since: float | None = None
        self.silent_since: float | None = None
        self._discarded = 0
        self.on_lost: Callable[[], None] | None = None
        # The request that is being answered; `cycle` may be one that came after it.
        self._served: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.headers_since = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._tell_lost()

    def data_received(self, data: bytes) -> None:
        if self.leaving_since is not None:
            self._discard(data)
            return
        self.idle_since = None
        if self.headers_since is None and self.body_since is None:
            self.headers_since = self.loop.time()
        self._unparsed += len(data)
        super().data_received(data)
        if self._unparsed > self.header_limit and self.headers_since is not None:
            self._refuse(_HEADERS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        if self.leaving_since is not None:
            return
        if self._unparsed > self.header_limit:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self.header_limit:
                self._refuse(_HEADERS_TOO_LARGE)
                return
        self.body_since = self.headers_since
        self.headers_since = None
        self._start_cycle()

    def _start_cycle(self) -> None:
        """Do as uvicorn does, with a cycle of ours, and without what it would do for web sockets."""
        version = self.parser.get_http_version()
        scope = self.scope
        scope["method"] = self.parser.get_method().decode("ascii")
        if version != _VERSION:
            scope["http_version"] = version
        url = parse_url(self.url)
        path = url.path.decode("ascii")
        scope["path"] = read_path(path) if "%" in path else path
        scope["raw_path"] = url.path
        scope["query_string"] = url.query or b""
        scope[CONNECTION] = self  # type: ignore[literal-required]  # beside ASGI's
        before: RequestResponseCycle | None = self.cycle
        self.cycle = cycle = Cycle(
            scope,
            self.transport,
            self.flow,
            self.logger,
            self.access_logger,
            self.access_log,
            self.server_state.default_headers,
            asyncio.Event(),
            self.expect_100_continue,
            version != "1.0" and self.parser.should_keep_alive(),
            self.on_response_complete,
        )
        cycle.leave = self.leave
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, self.app)
        else:
            self.pipeline.appendleft((cycle, self.app))
            # Who does not read is not told when the client goes: so only beyond so many.
            if len(self.pipeline) >= _PIPELINED:
                self.flow.pause_reading()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._served = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Go on to the next request; the guard, not a timer of its own, ends an idle connection."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self.headers_since is None and self.body_since is None:
            self.idle_since = self.loop.time()

    def on_body(self, body: bytes) -> None:
        if self.leaving_since is None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self.body_since = None
        self._unparsed = 0
        if self.leaving_since is None:
            super().on_message_complete()
            if self.cycle.response_complete:
                # It was answered before it was whole.
                self.idle_since = self.loop.time()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # uvicorn's words, ours are JSON
        self._refuse(_NOT_HTTP)

    def pause_writing(self) -> None:
        self.unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.unread_since = None
        super().resume_writing()

    def is_gone(self) -> bool:
        """Tell whether no answer would reach the client."""
        return self.leaving_since is not None or self.transport.is_closing()

    def turn_away(self) -> None:
        """End a connection whose client takes too long to send its request."""
        if not self.pipeline:  # else it is its earlier request that keeps us from reading
            self._refuse(_TOO_SLOW)

    def leave(self) -> None:
        """Send what is written and no more, and close once the client has had the time to see it.

        A socket closed with input unread resets the connection, which takes the answer from a
        client that sends everything before it reads. So the input is read, and thrown away.
        """
        if self.leaving_since is not None or self.transport.is_closing():
            return
        self.leaving_since = self.silent_since = self.loop.time()
        self.headers_since = self.body_since = None
        self._unset_keepalive_if_required()
        self.transport.write_eof()
        self.flow.resume_reading()

    def _refuse(self, answer: bytes) -> None:
        """Answer a request that never became whole, unless it was answered already, and leave."""
        if self.leaving_since is not None or self.transport.is_closing():
            return
        if self.pipeline:
            self.transport.close()
            return
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None:
            self.transport.write(answer)
            self.leave()
            return
        # While no body is awaited, the cycle is that of the request before.
        earlier = self.body_since is None
        if cycle.response_complete if earlier else not cycle.response_started:
            self.transport.write(answer)
        self.leave()
        self._tell_lost()

    def _tell_lost(self) -> None:
        """Have the request that is being answered know that nobody waits for it."""
        if self._served is not None and not self._served.response_complete:
            self._served.disconnected = True
            self._served.message_event.set()
        if self.on_lost is not None:
            self.on_lost()

    def _discard(self, data: bytes) -> None:
        self.silent_since = self.loop.time()
        self._discarded += len(data)
        if self._discarded > self.linger_limit:
            self.transport.abort()


def limit_sizes(limits: Limits) -> type[GuardedProtocol]:
    """Return the protocol with its limits: uvicorn takes a class, not an object."""
    sizes = {"header_limit": limits.headers, "linger_limit": limits.linger_bytes}
    return type("LimitedProtocol", (GuardedProtocol,), sizes)


class Guard:
    """Looks at every connection once a second: no request pays for a timer of its own."""

    def __init__(self, connections: Collection[Any], limits: Limits) -> None:
        self._connections = connections
        self._headers = limits.headers_within.total_seconds()
        self._body = limits.body_within.total_seconds()
        self._write = limits.write_stall.total_seconds()
        self._linger = limits.linger.total_seconds()
        self._linger_silent = limits.linger_silent.total_seconds()
        self._idle = limits.keep_alive.total_seconds()

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
            elif (
                _passed(connection.unread_since, self._write, now)
                or _passed(connection.leaving_since, self._linger, now)
                or _passed(connection.silent_since, self._linger_silent, now)
            ):
                connection.transport.abort()
            elif _passed(connection.idle_since, self._idle, now):
                connection.transport.close()


def _passed(since: float | None, limit: float, now: float) -> bool:
    return since is not None and now - since > limit
