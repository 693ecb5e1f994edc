"""How requests are read: framing, pieces, backpressure, clients that wait for permission."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from laneway.server.errors import ClientGone
from tests.protocol.http.servers import (
    CHUNKED,
    GET,
    LAST,
    POST,
    answer,
    echo,
    read_bodies,
    read_body,
    run_http_server,
    wait_until,
)

if TYPE_CHECKING:
    from laneway.server.http import Exchange
    from tests.protocol.http.servers import RunningHttpServer

MEGABYTE = 1024 * 1024


@pytest.mark.parametrize(
    "request_",
    [
        POST % (b"a?b=c", 5) + b"hello",
        CHUNKED % b"a?b=c" + b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nX-Trailer: 1\r\n\r\n",
    ],
    ids=["sized", "chunked"],
)
async def test_request_split_anywhere_is_read_whole(
    http: RunningHttpServer, request_: bytes
) -> None:
    whole = request_ + LAST
    said = await http.talk(*(whole[place : place + 1] for place in range(len(whole))))
    assert read_bodies(said) == [b"POST /a?b=c hello", b"GET /last? "]
    assert read_bodies(await http.talk(whole)) == read_bodies(said)


async def test_trailers_are_headers_of_no_request(http: RunningHttpServer) -> None:
    trailers = b"X-API-Key: stolen\r\nX-More: 1\r\n\r\n"
    await http.talk(CHUNKED % b"a" + b"1\r\nx\r\n0\r\n" + trailers + LAST)
    names = [name for exchange in http.exchanges for name, _ in exchange.headers]
    assert names == [b"host", b"transfer-encoding", b"host", b"connection"]


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/a%2Fb?c=%20", "/a%2Fb", b"c=%20"),
        (b"/a?b?c", "/a", b"b?c"),
        (b"/a?b#c", "/a", b"b"),
        (b"/a#c?b", "/a", b""),
        (b"//a/b", "//a/b", b""),
        (b"http://elsewhere:1/a?b", "/a", b"b"),
        (b"http://elsewhere", "/", b""),
        (b"*", "*", b""),
    ],
)
async def test_address_is_parted(
    http: RunningHttpServer, target: bytes, path: str, query: bytes
) -> None:
    await http.talk(b"OPTIONS %b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % target)
    (exchange,) = http.exchanges
    assert (exchange.path, exchange.query) == (path, query)


async def test_upgrade_is_declined_and_the_body_belongs_to_the_request(
    http: RunningHttpServer,
) -> None:
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: %b\r\nContent-Length: %d\r\n\r\n%b"
    said = await http.talk(
        b"POST /a HTTP/1.1\r\nHost: a\r\n" + upgrade % (b"h2c", 5, b"hello") + GET % b"b",
        b"GET /c HTTP/1.1\r\nHost: a\r\n" + upgrade % (b"websocket", 0, b""),
        b"POST /d HTTP/1.1\r\nHost: a\r\n" + upgrade % (b"h2c", 24, b""),
        b"GET /e HTTP/1.1\r\nHost: a",
        LAST,
    )
    assert read_bodies(said) == [
        b"POST /a? hello",
        b"GET /b? ",
        b"GET /c? ",
        b"POST /d? GET /e HTTP/1.1\r\nHost: a",
        b"GET /last? ",
    ]


async def test_thousands_of_upgrades_in_one_read_are_served(http: RunningHttpServer) -> None:
    upgrade = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: a\r\n\r\n"
    async with http.connect() as client:
        sending = asyncio.ensure_future(client.send(upgrade * 3000 + LAST))
        said = await client.reader.read()
        await sending
    assert len(read_bodies(said)) == 3001


async def test_unread_body_pauses_the_client() -> None:
    go = asyncio.Event()
    pieces: list[int] = []

    async def read_late(exchange: Exchange) -> None:
        await go.wait()
        while piece := await exchange.read():
            pieces.append(len(piece))
        await answer(exchange, b"%d" % sum(pieces))

    async with run_http_server(read_late) as http, http.connect() as client:
        sending = asyncio.ensure_future(client.send(POST % (b"", 20 * MEGABYTE)))
        await sending
        sending = asyncio.ensure_future(client.send(b"x" * 20 * MEGABYTE))
        await wait_until(lambda: bool(http.exchanges) and not http.connection._reading)
        go.set()
        assert (await client.read_response()).endswith(b"%d" % (20 * MEGABYTE))
        await sending
    # What was allowed unread, and one read beyond it.
    assert max(pieces) < MEGABYTE


async def test_permission_to_continue_is_given_once_although_asked_twice(
    http: RunningHttpServer,
) -> None:
    head = b"POST /a HTTP/1.1\r\nHost: a\r\n%bContent-Length: 2\r\n\r\n"
    async with http.connect() as client:
        await client.send(head % (b"Expect: 100-continue\r\n" * 2))
        assert await client.read_response() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"hi")
        assert (await client.read_response()).endswith(b"POST /a? hi")


@pytest.mark.parametrize("fails", [False, True])
async def test_request_refused_without_permission_to_send_its_body_is_the_last(
    *, fails: bool
) -> None:
    async def refuse(exchange: Exchange) -> None:
        if fails:
            raise LookupError("broken")
        await answer(exchange, b"no", 401)

    async with run_http_server(refuse) as http, http.connect() as client:
        head = b"POST /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n"
        await client.send(head)
        said = await client.read_response()
        # A client that was refused may go on with a request in place of the body.
        await client.send(GET % b"next" + LAST)
        assert await client.reader.read() == b""
    assert b"connection: close\r\n" in said
    assert http.targets == ["POST /a"]


@pytest.mark.parametrize(
    ("version", "early", "asked"),
    [(b"1.1", b"", True), (b"1.1", b"hello", False), (b"1.0", b"", False)],
)
async def test_permission_to_continue_is_given_once_and_only_if_useful(
    http: RunningHttpServer, version: bytes, early: bytes, *, asked: bool
) -> None:
    head = (
        b"POST /a HTTP/%b\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"
        % version
    )
    async with http.connect() as client:
        await client.send(head + early)
        said = b""
        if asked:
            said = await client.reader.readuntil(b"\r\n\r\n")
        else:
            # The application waits for the rest.
            await wait_until(lambda: bool(http.exchanges))
        await client.send(b"0123456789"[len(early) :] + LAST)
        said += await client.reader.read()
    permission = b"HTTP/1.1 100 Continue\r\n\r\n"
    assert said.startswith(permission) is asked
    body = early + b"0123456789"[len(early) :]
    assert read_bodies(said.removeprefix(permission))[0].endswith(body)


async def test_response_before_the_end_of_the_body_leaves_the_connection_open() -> None:
    async def answer_early(exchange: Exchange) -> None:
        await answer(exchange, exchange.path.encode())

    async with run_http_server(answer_early) as http, http.connect() as client:
        await client.send(POST % (b"early", MEGABYTE))
        assert (await client.read_response()).endswith(b"/early")
        await client.send(b"x" * MEGABYTE + LAST)
        assert read_bodies(await client.reader.read()) == [b"/last"]


@pytest.mark.parametrize("headers", [b"", b"Connection: close\r\n"], ids=["413", "close"])
async def test_client_that_sends_everything_first_gets_the_early_response(headers: bytes) -> None:
    async def refuse(exchange: Exchange) -> None:
        await answer(exchange, b"too large", 413)

    async with run_http_server(refuse) as http, http.connect() as client:
        head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n%b\r\n" % (10**9, headers)
        await client.send(head + b"x" * 5 * MEGABYTE)
        said = await client.reader.read()
        assert said.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in said
        assert said.endswith(b"too large")
        await client.send(GET % b"ignored")
        assert http.targets == ["POST /"]


async def test_client_that_disconnects_ends_the_wait_for_its_body() -> None:
    ended = asyncio.Event()

    async def read(exchange: Exchange) -> None:
        with pytest.raises(ClientGone):
            await read_body(exchange)
        assert exchange.is_gone()
        ended.set()

    async with run_http_server(read) as http:
        async with http.connect() as client:
            await client.send(POST % (b"", 10) + b"half")
            await wait_until(lambda: bool(http.exchanges))
        await asyncio.wait_for(ended.wait(), 20)


@pytest.mark.parametrize("half", [False, True], ids=["closed", "half-closed"])
async def test_client_that_disconnects_is_noticed_while_nothing_is_read(*, half: bool) -> None:
    told = asyncio.Event()
    watched = asyncio.Event()

    async def wait(exchange: Exchange) -> None:
        exchange.on_lost = told.set
        await exchange.wait_until_lost()
        watched.set()

    async with run_http_server(wait) as http:
        async with http.connect() as client:
            await client.send(GET % b"" + GET % b"behind")
            await wait_until(lambda: bool(http.exchanges))
            assert not told.is_set()
            if half:
                client.writer.write_eof()
                assert await client.reader.read() == b""
        await asyncio.wait_for(told.wait(), 20)
        await asyncio.wait_for(watched.wait(), 20)
        await http.wait_until_alone()
    assert http.targets == ["GET /"]


async def test_body_of_a_pipelined_request_waits_for_its_turn() -> None:
    go = asyncio.Event()

    async def wait_first(exchange: Exchange) -> None:
        if exchange.path == "/first":
            await go.wait()
        await echo(exchange)

    async with run_http_server(wait_first) as http, http.connect() as client:
        sending = asyncio.ensure_future(
            client.send(GET % b"first" + POST % (b"", MEGABYTE) + b"x" * MEGABYTE + LAST)
        )
        await wait_until(lambda: bool(http.exchanges) and not http.connection._reading)
        go.set()
        bodies = read_bodies(await client.reader.read())
        await sending
    assert [len(body) for body in bodies] == [len(b"GET /first? "), MEGABYTE + 8, 11]
