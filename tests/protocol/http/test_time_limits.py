"""Clients that take their time, by a clock that the test moves."""

from __future__ import annotations

import asyncio
import socket
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from laneway.server.http.connection import Phase
from laneway.server.settings import Limits
from tests.protocol.http.servers import CHUNKED, GET, POST, echo, run_http_server, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from laneway.server.http import Exchange
    from tests.protocol.http.servers import RunningHttpServer

LIMITS = Limits(
    headers_within=timedelta(seconds=100),
    body_within=timedelta(seconds=200),
    write_stall=timedelta(seconds=300),
    linger=timedelta(seconds=400),
    linger_silent=timedelta(seconds=50),
    linger_bytes=1024 * 1024,
    keep_alive=timedelta(seconds=600),
)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@pytest.fixture
async def http() -> AsyncIterator[RunningHttpServer]:
    async with run_http_server(echo, LIMITS) as running:
        yield running


@pytest.mark.parametrize(
    ("sent", "phase", "limit"),
    [
        (b"", Phase.HEADERS, 100),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ", Phase.HEADERS, 100),
        (POST % (b"", 10) + b"half", Phase.BODY, 200),
        (CHUNKED % b"" + b"3e8\r\nhalf", Phase.BODY, 200),
    ],
    ids=["nothing", "headers", "body", "chunk"],
)
async def test_slow_request_is_408(
    http: RunningHttpServer, sent: bytes, phase: Phase, limit: float
) -> None:
    async with http.connect() as client:
        await client.send(sent)
        await wait_until(lambda: bool(http.server.connections))
        if phase is Phase.BODY:
            await wait_until(lambda: bool(http.exchanges))
        await http.wait_for_phase(phase)
        http.pass_time(seconds(limit - 1))
        assert http.connection.phase is phase
        http.pass_time(seconds(limit + 1))
        said = await client.reader.read()
    assert said.startswith(b"HTTP/1.1 408 ")
    assert said.endswith(b'{"message":"Request timed out"}')


async def test_slow_body_of_an_answered_request_gets_no_second_response() -> None:
    async def answer_early(exchange: Exchange) -> None:
        await exchange.send(200, b"content-length: 0\r\n")

    async with run_http_server(answer_early, LIMITS) as http, http.connect() as client:
        await client.send(POST % (b"", 10))
        said = await client.read_response()
        assert http.connection.phase is Phase.BODY
        http.pass_time(seconds(201))
        assert await client.reader.read() == b""
    assert said.startswith(b"HTTP/1.1 200 ")


async def test_long_answer_has_no_limit() -> None:
    async def wait(exchange: Exchange) -> None:
        await exchange.wait_until_lost()

    async with run_http_server(wait, LIMITS) as http:
        async with http.connect() as client:
            await client.send(GET % b"")
            await http.wait_for_phase(Phase.SERVING)
            http.pass_time(timedelta(days=1))
            assert not http.connection.is_gone()
        await http.wait_until_alone()


@pytest.mark.parametrize("together", [True, False], ids=["one read", "two reads"])
@pytest.mark.parametrize(
    "behind", [b"\r\n", b"GET /b HTTP/1.1\r\nX-Slow: "], ids=["line", "headers"]
)
async def test_slow_input_behind_a_request_does_not_end_its_response(
    behind: bytes, *, together: bool
) -> None:
    go = asyncio.Event()

    async def answer_late(exchange: Exchange) -> None:
        await go.wait()
        await exchange.send(200, b"content-length: 4\r\n", b"done")

    async with run_http_server(answer_late, LIMITS) as http, http.connect() as client:
        await client.send(GET % b"a" + (behind if together else b""))
        await wait_until(lambda: bool(http.exchanges))
        if not together:
            await client.send(behind)
        slow = Phase.SERVING if behind == b"\r\n" else Phase.HEADERS
        await http.wait_for_phase(slow)
        connection = http.connection
        connection.since -= 1000
        http.pass_time(seconds(0))
        go.set()
        assert (await client.read_response()).endswith(b"done")
        # From the end of the response, the client has the usual time.
        http.pass_time(seconds(99))
        assert not connection.is_gone()
        http.pass_time(seconds(101 if slow is Phase.HEADERS else 601))
        said = await client.reader.read()
    assert said.startswith(b"HTTP/1.1 408 ") is (slow is Phase.HEADERS)


async def test_body_behind_a_long_response_has_its_own_time() -> None:
    go = asyncio.Event()

    async def answer_late(exchange: Exchange) -> None:
        await go.wait()
        await echo(exchange)

    async with run_http_server(answer_late, LIMITS) as http, http.connect() as client:
        await client.send(GET % b"a" + POST % (b"b", 4))
        await http.wait_for_phase(Phase.BODY)
        http.connection.since -= 1000
        http.pass_time(seconds(0))
        go.set()
        assert (await client.read_response()).endswith(b"GET /a? ")
        http.pass_time(seconds(199))
        await client.send(b"body")
        assert (await client.read_response()).endswith(b"POST /b? body")


async def test_idle_connection_is_closed(http: RunningHttpServer) -> None:
    async with http.connect() as client:
        await client.send(GET % b"")
        await client.read_response()
        await http.wait_for_phase(Phase.IDLE)
        http.pass_time(seconds(599))
        assert not http.connection.is_gone()
        http.pass_time(seconds(601))
        assert await client.reader.read() == b""


async def test_client_that_does_not_read_is_disconnected() -> None:
    async def answer_large(exchange: Exchange) -> None:
        await exchange.send(200, b"", b"x" * 30_000_000)

    async with run_http_server(answer_large, LIMITS) as http:
        client = socket.socket()
        client.settimeout(0)
        await http.server.loop.sock_connect(client, http.address)
        # The incomplete request behind it changes nothing.
        client.sendall(GET % b"" + GET % b"" + b"GET / HT")
        await wait_until(
            lambda: any(each.unread_since is not None for each in http.server.connections)
        )
        http.pass_time(seconds(299))
        assert http.server.connections
        http.pass_time(seconds(301))
        await http.wait_until_alone()
        client.close()


@pytest.mark.parametrize("heard", [False, True])
async def test_refused_client_that_stays_is_disconnected(
    http: RunningHttpServer, *, heard: bool
) -> None:
    async with http.connect() as client:
        await client.send(b"nonsense\r\n\r\n")
        assert (await client.reader.read()).startswith(b"HTTP/1.1 400 ")
        connection = await http.wait_for_phase(Phase.LEAVING)
        http.pass_time(seconds(49))
        assert http.server.connections
        if heard:
            # As if it had sent something until now.
            connection.heard_at += 400
        http.pass_time(seconds(401 if heard else 51))
        await http.wait_until_alone()


async def test_refused_client_may_send_only_so_much(http: RunningHttpServer) -> None:
    async with http.connect() as client:
        await client.send(b"nonsense\r\n\r\n")
        await client.reader.read()

        async def flood() -> None:
            for _ in range(10_000):
                await client.send(b"x" * 65536)

        with pytest.raises(ConnectionError):
            await flood()
        await http.wait_until_alone()
