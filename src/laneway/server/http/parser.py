"""Parses bytes into requests, and rejects what is malformed or has too large headers."""

from __future__ import annotations

from typing import Protocol

import httptools

Headers = list[tuple[bytes, bytes]]

_HTTP_1_1 = "1.1"
_HOST = b"host"


class Receiver(Protocol):
    """What the parser calls, in this order for each request."""

    def begin_headers(self) -> None: ...

    def begin_request(
        self,
        *,
        method: str,
        path: str,
        query: bytes,
        headers: Headers,
        keep_alive: bool,
        version: str,
    ) -> None: ...

    def add_body(self, body: bytes) -> None: ...

    def end_request(self) -> None: ...


class MalformedRequest(Exception):
    """The input is not HTTP, or its framing is ambiguous."""


class HeadersTooLarge(Exception):
    """The address and headers, the trailers or a chunk's extensions exceed the limit."""


class RequestParser:
    """Parser of one connection's input. It cannot continue after an error.

    llhttp, in its strict mode, rejects ambiguous framing: Content-Length repeated or beside
    Transfer-Encoding, folded headers, line ends without CR, invalid chunk sizes.

    header_limit: in bytes, also of trailers and chunk extensions. Where incomplete headers, trailers
    or extensions arrive in one read with something complete, they count from the next read on.
    """

    def __init__(self, receiver: Receiver, *, header_limit: int) -> None:
        self._receiver = receiver
        self._limit = header_limit
        # The size of this read, and of all input since the last headers, body or end of a request.
        self._read = 0
        self._unparsed = 0
        self._url = b""
        self._headers: Headers = []
        self._hosts = 0
        self._upgrading = False
        self._start()

    def feed(self, data: bytes) -> None:
        """Parse a read, and call the receiver. Raise MalformedRequest or HeadersTooLarge."""
        self._read = len(data)
        self._unparsed += self._read
        inputs: list[bytes | memoryview] = [data]
        while inputs:
            part = inputs.pop()
            try:
                self._parser.feed_data(part)
            except httptools.HttpParserUpgrade as upgrade:
                inputs += (memoryview(part)[upgrade.args[0] :], self._decline_upgrade())
            except httptools.HttpParserCallbackError as error:
                # Raised by a callback below: it is the context.
                raise error.__context__ or error from None
            except httptools.HttpParserError as error:
                raise MalformedRequest(str(error)) from None
        if self._unparsed > self._limit:
            raise HeadersTooLarge

    def close(self) -> None:
        """Drop the C parser, which refers back to this object."""
        del self._parser

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = []
        self._hosts = 0
        self._receiver.begin_headers()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == _HOST:
            self._hosts += 1
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._unparsed > self._limit or self._read > self._limit:
            self._check_size()
        self._unparsed = 0
        parser = self._parser
        method = parser.get_method().decode()
        if parser.should_upgrade():
            if method == "CONNECT":
                raise MalformedRequest("CONNECT is for proxies")
            self._upgrading = True
            return
        version = parser.get_http_version()
        # Otherwise a proxy might have taken another host for the right one.
        if self._hosts > 1 or (self._hosts == 0 and version == _HTTP_1_1):
            raise MalformedRequest("a request names one host")
        path, query = _split(self._url)
        # Trailers are headers to llhttp: they go to a list that is not read.
        headers, self._headers = self._headers, []
        self._receiver.begin_request(
            method=method,
            path=path,
            query=query,
            headers=headers,
            keep_alive=version == _HTTP_1_1 and parser.should_keep_alive(),
            version=version,
        )

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        self._receiver.add_body(body)

    def on_message_complete(self) -> None:
        self._unparsed = 0
        if not self._upgrading:
            self._receiver.end_request()

    def _start(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        # A client may send requests behind one that closes the connection. They are not answered.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def _decline_upgrade(self) -> bytes:
        """Return the head without Upgrade, to parse again: llhttp skipped the request's body."""
        self._upgrading = False
        version = self._parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b\r\n" % (self._parser.get_method(), self._url, version)]
        lines += [b"%b: %b\r\n" % header for header in self._headers if header[0] != b"upgrade"]
        self._start()
        return b"".join(lines) + b"\r\n"

    def _check_size(self) -> None:
        size = len(self._url) + sum(len(name) + len(value) + 4 for name, value in self._headers)
        if size > self._limit:
            raise HeadersTooLarge


def _split(url: bytes) -> tuple[str, bytes]:
    """Return the path, still percent-encoded, and the query of a request's address."""
    try:
        if url.startswith(b"/") and b"#" not in url:
            path, _, query = url.partition(b"?")
            return path.decode("ascii"), query
        parsed = httptools.parse_url(url)
        return (parsed.path or b"/").decode("ascii"), parsed.query or b""
    except (httptools.HttpParserInvalidURLError, UnicodeDecodeError) as error:
        raise MalformedRequest(str(error)) from None
