"""One request and its response: reads the body, writes the response."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from laneway.server.errors import ClientGone

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from laneway.server.http.connection import Connection
    from laneway.server.http.parser import Headers

# A response body above this size is written in pieces of this size.
_PIECE = 64 * 1024
# Reading pauses while more of a request's body than this waits for the application.
_UNREAD_BODY = 64 * 1024
_BODILESS = frozenset({204, 304})
_CONTENT_TOO_LARGE = 413
_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_JSON = b"content-type: application/json\r\ncontent-length: %d\r\n"
_KEEP_ALIVE = b"\r\n"
_CLOSE = b"connection: close\r\n\r\n"
_CHUNKED = b"transfer-encoding: chunked\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_FAILURE = b'{"message":"Internal Server Error"}'


def compose_refusal(status: int, message: str) -> bytes:
    """Return a whole response to input that is not a request, which closes the connection."""
    body = b'{"message":"%b"}' % message.encode()
    return _STATUS_LINES[status] + _JSON % len(body) + _CLOSE + body


class Exchange:
    """A request, its headers complete, and its response.

    path: still percent-encoded. received: the whole body has arrived. started, complete: the
    response's first and last byte are written. lost: the client cannot receive a response any more.
    on_lost: called when that happens before the response is complete.
    """

    __slots__ = (
        "_asked",
        "_chunks",
        "_connection",
        "_pieces",
        "_unread",
        "_waiter",
        "complete",
        "headers",
        "keep_alive",
        "lost",
        "method",
        "on_lost",
        "path",
        "query",
        "received",
        "started",
        "task",
    )

    def __init__(
        self,
        connection: Connection,
        *,
        method: str,
        path: str,
        query: bytes,
        headers: Headers,
        keep_alive: bool,
        version: str,
    ) -> None:
        self._connection = connection
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.keep_alive = keep_alive
        # Older clients understand neither chunks nor 100 Continue.
        self._chunks = version == "1.1"
        # Whether a client that expects 100 Continue needs none any more.
        self._asked = not self._chunks
        self._pieces: list[bytes] = []
        self._unread = 0
        self._waiter: asyncio.Future[None] | None = None
        self.received = self.started = self.complete = self.lost = False
        self.on_lost: Callable[[], None] | None = None
        # The task that answers the request, once it runs.
        self.task: asyncio.Task[None] | None = None

    async def read(self) -> bytes:
        """Return the part of the body that has arrived since the last call, b"" at its end.

        Wait while there is none. Raise ClientGone when the client disconnects.
        """
        if not self.received:
            await self._wait_for_body()
        if self.lost:
            raise ClientGone("the client disconnected before its request was complete")
        body = b"".join(self._pieces)
        self._asked = True
        self._drop_body()
        return body

    async def send(self, status: int, head: bytes, body: bytes = b"") -> None:
        """Send a whole response. head: the header lines, each with its line end."""
        connection = self._connection
        if connection.unread_since is not None:
            await connection.drain()
        if self.lost:
            return
        if self.method == "HEAD" or status in _BODILESS:
            body = b""
        if len(body) <= _PIECE:
            connection.transport.write(self._compose(status, head, body))
        else:
            connection.transport.write(self._compose(status, head))
            # Not copied: other responses may share the body.
            rest = memoryview(body)
            for begin in range(0, len(body), _PIECE):
                connection.transport.write(rest[begin : begin + _PIECE])
                await connection.drain()
                if self.is_gone():
                    return
        self._finish()

    async def start(self, status: int, head: bytes) -> None:
        """Begin a response of unknown length; write() continues and end() completes it."""
        await self._connection.drain()
        if self.lost:
            return
        if self._chunks:
            head += _CHUNKED
        else:
            self.keep_alive = False
        self._connection.transport.write(self._compose(status, head))

    async def write(self, chunk: bytes) -> None:
        await self._connection.drain()
        if chunk and not self.lost and self.method != "HEAD":
            if self._chunks:
                chunk = b"%x\r\n%b\r\n" % (len(chunk), chunk)
            self._connection.transport.write(chunk)

    async def end(self) -> None:
        await self._connection.drain()
        if self.lost:
            return
        if self._chunks and self.method != "HEAD":
            self._connection.transport.write(_LAST_CHUNK)
        self._finish()

    async def wait_until_lost(self) -> None:
        """Return when the client has disconnected; what it sends until then is discarded."""
        while not self.lost:
            self._drop_body()
            await self._wait()

    def is_gone(self) -> bool:
        """Return whether a response would not reach the client, as far as is known."""
        return self.lost or self._connection.is_gone()

    def add_body(self, piece: bytes) -> None:
        """Accept a piece of the body, and pause reading while the application does not read."""
        self._pieces.append(piece)
        self._unread += len(piece)
        if self._unread > _UNREAD_BODY:
            self._connection.pause_reading()
        self._wake()

    def end_body(self) -> None:
        self.received = True
        self._wake()

    def lose(self) -> None:
        """Note that the client has gone, and end every wait."""
        self.lost = True
        self._wake()
        if self.on_lost is not None:
            self.on_lost()

    def fail(self) -> None:
        """End a response that the application did not complete: with 500 if it has not begun."""
        if self.complete or self.is_gone():
            return
        if self.started:
            self._connection.transport.close()
            return
        self.keep_alive = False
        body = b"" if self.method == "HEAD" else _FAILURE
        self._connection.transport.write(self._compose(500, _JSON % len(_FAILURE), body))
        self._finish()

    def _compose(self, status: int, head: bytes, body: bytes = b"") -> bytes:
        """Return the status line, all headers and the body."""
        self.started = True
        if not self.received and (status == _CONTENT_TOO_LARGE or self._expects_permission()):
            # Cheaper than receiving the rest, and the rest might not come: a client without
            # permission may go on with its next request.
            self.keep_alive = False
        end = _KEEP_ALIVE if self.keep_alive else _CLOSE
        date_line = self._connection.server.date_line
        return b"".join((_STATUS_LINES[status], date_line, head, end, body))

    def _finish(self) -> None:
        self.complete = True
        self._connection.finish(self)

    async def _wait_for_body(self) -> None:
        if self._has_input():
            return
        if self._expects_permission():
            self._asked = True
            self._connection.transport.write(_CONTINUE)
        self._connection.resume_reading()
        while not self._has_input():
            await self._wait()

    def _expects_permission(self) -> bool:
        return not self._asked and any(
            name == b"expect" and value.lower() == b"100-continue" for name, value in self.headers
        )

    def _has_input(self) -> bool:
        return bool(self._pieces) or self.received or self.lost

    def _drop_body(self) -> None:
        self._pieces.clear()
        self._unread = 0
        if not self.received:
            self._connection.resume_reading()

    async def _wait(self) -> None:
        """Return when a part of the body, its end or the loss of the client has arrived."""
        self._waiter = self._connection.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
