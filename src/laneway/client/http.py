"""HTTP/1.1 client with persistent connections, one request at a time on each."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import urlsplit

import httptools

from laneway.domain.errors import BrokerClosed, InvalidRequest, Unavailable
from laneway.domain.loops import fail

if TYPE_CHECKING:
    from datetime import timedelta

_PORTS = {"http": 80, "https": 443}


class Response(NamedTuple):
    """A response's status and body."""

    status: int
    body: bytes


class _Exchange(asyncio.Protocol):
    """One connection to the server."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._parser: httptools.HttpResponseParser
        self._body: list[bytes] = []

    @property
    def usable(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    async def send(self, request: bytes) -> Response:
        if self.transport is None:
            raise Unavailable("the server closed the connection: retry later")
        self._parser = httptools.HttpResponseParser(self)
        self._body = []
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        try:
            return await self._answer
        finally:
            self._answer = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Some loops' transports have this interface without being of the class.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            # No request is pending.
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(
                Unavailable(
                    f"the server's answer is not valid HTTP ({error}). Check the port in its URL:"
                    " another program may listen there"
                )
            )

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._fail(
            Unavailable(f"the server closed the connection ({exc or 'no answer'}): retry later")
        )

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if not self._parser.should_keep_alive():
            self.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Response(status, b"".join(self._body)))

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()
            self.transport = None

    def _fail(self, error: Unavailable) -> None:
        if self._answer is not None and not self._answer.done():
            fail(self._answer, error)
        self.close()


class HttpClient:
    """Sends POST requests with JSON bodies to one server.

    connections: requests at the same time, not counting long polls.
    """

    def __init__(
        self, url: str, *, api_key: str | None, connect_timeout: timedelta, connections: int
    ) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port or _PORTS[parts.scheme]
        except (ValueError, KeyError):
            raise _refuse() from None
        if not parts.hostname:
            raise _refuse()
        self._host = parts.hostname
        self._port = port
        self._ssl = ssl.create_default_context() if parts.scheme == "https" else None
        self._base = parts.path.rstrip("/")
        place = f"[{self._host}]" if ":" in self._host else self._host
        key = f"x-api-key: {_check_key(api_key)}\r\n" if api_key else ""
        self._head = f"host: {place}:{self._port}\r\n{key}content-type: application/json\r\n"
        self._connect_timeout = connect_timeout.total_seconds()
        self._idle: list[_Exchange] = []
        self._busy: set[_Exchange] = set()
        self._room = asyncio.Semaphore(connections)
        self.closed = False

    async def post(
        self, path: str, body: bytes, *, patience: float, waits: bool = False
    ) -> Response:
        """Send a request and return the response. Cancelling the caller closes its connection.

        waits: the request is a long poll, which does not count against the limit of connections.
        """
        self._require_open()
        request = (
            f"POST {self._base}{path} HTTP/1.1\r\n{self._head}content-length: {len(body)}\r\n\r\n"
        ).encode("latin-1") + body
        async with nullcontext() if waits else self._room:
            exchange = await self._open()
            if self.closed:
                exchange.close()
                raise Unavailable("the connection was closed during the call")
            self._busy.add(exchange)
            try:
                async with asyncio.timeout(patience):
                    response = await exchange.send(request)
            except TimeoutError:
                exchange.close()
                raise Unavailable("the server did not answer in time: retry later") from None
            except BaseException:
                exchange.close()
                raise
            finally:
                self._busy.discard(exchange)
            if exchange.usable and not self.closed:
                self._idle.append(exchange)
            return response

    def close(self) -> None:
        self.closed = True
        for exchange in (*self._idle, *self._busy):
            exchange.close()
        self._idle.clear()

    def _require_open(self) -> None:
        if self.closed:
            raise BrokerClosed("the connection is closed")

    async def _open(self) -> _Exchange:
        while self._idle:
            exchange = self._idle.pop()
            if exchange.usable:
                return exchange
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, made = await asyncio.get_running_loop().create_connection(
                    _Exchange, self._host, self._port, ssl=self._ssl
                )
        except OSError as error:
            raise Unavailable(
                f"server at {self._host} port {self._port} unreachable: {_find_remedy(error)}"
            ) from error
        return made


def _find_remedy(error: OSError) -> str:
    """Return why a connection could not be opened, and what to check."""
    match error:
        case socket.gaierror():
            return f"host name not found ({error.strerror}). Check the host in the server's URL"
        case ssl.SSLError():
            return f"{error}. Check the server's certificate, and https:// in its URL"
        case ConnectionRefusedError():
            return (
                "connection refused. Check the host and port in the server's URL, and that"
                " `laneway serve` is running there"
            )
        case TimeoutError():
            return (
                "no answer in time. Check the host and port in the server's URL, and that no"
                " firewall blocks them"
            )
        case _:
            return f"{error.strerror or error}. Check the server's URL"


def _refuse() -> InvalidRequest:
    # The URL is not repeated: it may contain a password.
    return InvalidRequest("the URL is not a server's address: use one such as http://host:3001")


def _check_key(key: str) -> str:
    if not key.isascii() or not key.isprintable():
        raise InvalidRequest("the API key has characters other than printable ASCII: check the key")
    return key
