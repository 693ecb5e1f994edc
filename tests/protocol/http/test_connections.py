"""When a connection stays open, and in which order its requests are served."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.protocol.http.servers import (
    GET,
    LAST,
    echo,
    read_bodies,
    run_http_server,
    wait_until,
)

if TYPE_CHECKING:
    from laneway.server.http import Exchange
    from tests.protocol.http.servers import RunningHttpServer


@pytest.mark.parametrize(
    ("version", "connection", "stays"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"keep-alive", True),
        (b"1.1", b"close", False),
        (b"1.1", b"Close", False),
        (b"1.1", b"keep-alive, close", False),
        (b"1.0", b"", False),
        (b"1.0", b"keep-alive", False),
        (b"0.9", b"", False),
        (b"2.0", b"keep-alive", False),
    ],
)
async def test_connection_stays_open_as_the_version_and_header_say(
    http: RunningHttpServer, version: bytes, connection: bytes, *, stays: bool
) -> None:
    header = b"Connection: %b\r\n" % connection if connection else b""
    async with http.connect() as client:
        await client.send(b"GET / HTTP/%b\r\nHost: a\r\n%b\r\n" % (version, header))
        said = await client.read_response()
        assert (b"connection: close" not in said) is stays
        if stays:
            await client.send(LAST)
        rest = await client.reader.read()
        assert (b"GET /last" in rest) is stays


async def test_pipelined_requests_are_answered_in_order() -> None:
    going: set[str] = set()

    async def answer_one_at_a_time(exchange: Exchange) -> None:
        going.add(exchange.path)
        assert len(going) == 1
        await asyncio.sleep(0)
        await echo(exchange)
        going.remove(exchange.path)

    async with run_http_server(answer_one_at_a_time) as http:
        names = [b"%d" % number for number in range(100)]
        said = await http.talk(b"".join(GET % name for name in names) + LAST)
    assert read_bodies(said) == [b"GET /%b? " % name for name in [*names, b"last"]]


async def test_number_of_waiting_requests_is_limited() -> None:
    go = asyncio.Event()
    waiting = 0

    async def answer_late(exchange: Exchange) -> None:
        nonlocal waiting
        await go.wait()
        waiting = max(waiting, len(http.connection._queue))
        await echo(exchange)

    # Some thirty of them are one read.
    request = b"GET / HTTP/1.1\r\nHost: a\r\nX-Padding: " + b"x" * 8000 + b"\r\n\r\n"
    async with run_http_server(answer_late) as http, http.connect() as client:
        sending = asyncio.ensure_future(client.send(request * 2000 + LAST))
        await wait_until(lambda: bool(http.exchanges) and not http.connection._reading)
        go.set()
        said = await client.reader.read()
        await sending
    assert len(read_bodies(said)) == 2001
    assert waiting < 100


async def test_requests_behind_one_that_closes_are_not_served(http: RunningHttpServer) -> None:
    said = await http.talk(GET % b"a" + LAST + GET % b"behind")
    assert read_bodies(said) == [b"GET /a? ", b"GET /last? "]
    assert http.targets == ["GET /a", "GET /last"]


async def test_blank_lines_before_a_request_are_ignored(http: RunningHttpServer) -> None:
    assert read_bodies(await http.talk(b"\r\n\r\n" + GET % b"a" + b"\r\n" + LAST)) == [
        b"GET /a? ",
        b"GET /last? ",
    ]


async def test_connection_that_sends_nothing_ends_with_its_client(http: RunningHttpServer) -> None:
    async with http.connect():
        await wait_until(lambda: len(http.server.connections) == 1)
    await http.wait_until_alone()
    assert http.targets == []


async def test_connections_are_served_at_the_same_time() -> None:
    together = asyncio.Barrier(50)

    async def meet(exchange: Exchange) -> None:
        await together.wait()
        await echo(exchange)

    async with run_http_server(meet) as http:
        said = await asyncio.gather(*(http.talk(LAST) for _ in range(50)))
    assert {read_bodies(each)[0] for each in said} == {b"GET /last? "}
