"""How responses are written: framing, backpressure, failures."""

from __future__ import annotations

import asyncio
import socket
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import pytest

from tests.protocol.http.servers import GET, LAST, answer, run_http_server, wait_until

if TYPE_CHECKING:
    from laneway.server.http import Exchange
    from tests.protocol.http.servers import RunningHttpServer

LARGE = bytes(range(256)) * 20_000


async def test_response_has_status_date_and_headers(http: RunningHttpServer) -> None:
    said = await http.talk(LAST)
    lines = said.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 200 OK"
    assert lines[1].startswith(b"date: ")
    assert parsedate_to_datetime(lines[1][6:].decode()).tzinfo is not None
    assert lines[2:] == [b"content-length: 11", b"connection: close", b"", b"GET /last? "]


async def test_date_is_kept_current() -> None:
    async def answer_ok(exchange: Exchange) -> None:
        await answer(exchange, b"")

    async with run_http_server(answer_ok) as http:
        http.server.date_line = b"date: before\r\n"
        enforcing = asyncio.ensure_future(http.server.enforce_time_limits())
        await wait_until(lambda: http.server.date_line != b"date: before\r\n")
        enforcing.cancel()


@pytest.mark.parametrize(
    ("method", "status"), [(b"HEAD", 200), (b"HEAD", 404), (b"GET", 204), (b"GET", 304)]
)
async def test_response_without_a_body_ends_with_its_headers(method: bytes, status: int) -> None:
    async def answer_first(exchange: Exchange) -> None:
        await answer(exchange, b"body", 200 if exchange.path == "/last" else status)

    async with run_http_server(answer_first) as http:
        said = await http.talk(b"%b / HTTP/1.1\r\nHost: a\r\n\r\n" % method + LAST)
    first, second, body = said.split(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 %d " % status)
    assert second.startswith(b"HTTP/1.1 200 ")
    assert body == b"body"


async def send_pieces(exchange: Exchange) -> None:
    await exchange.start(200, b"x-kind: stream\r\n")
    for piece in (b"hello", b"", b" world"):
        await exchange.write(piece)
    await exchange.end()


@pytest.mark.parametrize(
    ("line", "head", "body"),
    [
        (
            b"GET / HTTP/1.1",
            b"transfer-encoding: chunked\r\nconnection: close",
            b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
        ),
        (b"GET / HTTP/1.0", b"connection: close", b"hello world"),
        (b"HEAD / HTTP/1.1", b"transfer-encoding: chunked\r\nconnection: close", b""),
    ],
)
async def test_response_of_unknown_length_is_chunked_or_ends_with_the_connection(
    line: bytes, head: bytes, body: bytes
) -> None:
    async with run_http_server(send_pieces) as http:
        said = await http.talk(line + b"\r\nHost: a\r\nConnection: close\r\n\r\n")
    headers, _, rest = said.partition(b"\r\n\r\n")
    assert headers.endswith(b"x-kind: stream\r\n" + head)
    assert rest == body


async def test_connection_stays_open_after_a_response_in_pieces() -> None:
    async with run_http_server(send_pieces) as http:
        said = await http.talk(GET % b"", LAST)
    assert said.count(b"HTTP/1.1 200 OK") == 2
    assert said.count(b"0\r\n\r\n") == 2


async def test_large_response_is_whole() -> None:
    async def answer_large(exchange: Exchange) -> None:
        await answer(exchange, LARGE)

    async with run_http_server(answer_large) as http:
        said = await http.talk(LAST)
    assert said.partition(b"\r\n\r\n")[2] == LARGE


@pytest.mark.parametrize("whole", [False, True])
async def test_client_that_does_not_read_pauses_the_response(*, whole: bool) -> None:
    pieces = 0

    async def answer_large(exchange: Exchange) -> None:
        nonlocal pieces
        if whole:
            await answer(exchange, LARGE * 4)
            pieces = 100
            return
        await exchange.start(200, b"")
        for _ in range(100):
            await exchange.write(LARGE[:200_000])
            pieces += 1
        await exchange.end()

    async with run_http_server(answer_large) as http:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(0)
        await http.server.loop.sock_connect(client, http.address)
        client.sendall(LAST)
        await wait_until(lambda: bool(http.exchanges))
        await wait_until(lambda: http.connection.unread_since is not None)
        await asyncio.sleep(0.01)
        assert pieces < 100
        reader, writer = await asyncio.open_connection(sock=client)
        async with asyncio.timeout(20):
            said = await reader.read()
        writer.close()
    assert len(said) > len(LARGE) * 3
    assert pieces == 100


@pytest.mark.parametrize("reads", [False, True])
async def test_failure_is_500_and_closes(caplog: pytest.LogCaptureFixture, *, reads: bool) -> None:
    async def fail(exchange: Exchange) -> None:
        if reads:
            await exchange.read()
        raise LookupError("broken")

    async with run_http_server(fail) as http:
        said = await http.talk(
            b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" + LAST
        )
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 500 ")
    assert head.endswith(b"connection: close")
    assert body == b'{"message":"Internal Server Error"}'
    assert http.targets == ["POST /a"]
    assert "POST /a failed" in caplog.text
    assert "LookupError: broken" in caplog.text


async def test_failure_after_the_beginning_cuts_the_response(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(exchange: Exchange) -> None:
        await exchange.start(200, b"")
        await exchange.write(b"hello")
        raise LookupError("broken")

    async with run_http_server(fail) as http:
        said = await http.talk(GET % b"")
    assert said.endswith(b"\r\n\r\n5\r\nhello\r\n")
    assert "LookupError: broken" in caplog.text


async def test_application_that_sends_nothing_is_500(caplog: pytest.LogCaptureFixture) -> None:
    async def forget(exchange: Exchange) -> None:
        await exchange.read()

    async with run_http_server(forget) as http:
        said = await http.talk(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 500 ")
    assert said.endswith(b"\r\n\r\n")
    assert "no complete response" in caplog.text
