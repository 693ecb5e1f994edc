"""How the server stops: what runs is finished, everything else ends at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from laneway.server.http.connection import Phase
from tests.protocol.http.servers import (
    GET,
    PATIENCE,
    POST,
    answer,
    echo,
    run_http_server,
    wait_until,
)

if TYPE_CHECKING:
    from laneway.server.http import Exchange

LONG = timedelta(hours=1)


async def wait(exchange: Exchange) -> None:
    await asyncio.Event().wait()
    raise AssertionError(exchange)


async def test_idle_and_incomplete_connections_are_closed_at_once() -> None:
    async with (
        run_http_server(echo, shutdown=LONG) as http,
        http.connect() as silent,
        http.connect() as idle,
        http.connect() as incomplete,
    ):
        await idle.send(GET % b"")
        await idle.read_response()
        await incomplete.send(b"GET / HTT")
        await wait_until(lambda: len(http.server.connections) == 3)
        # Unread input would reset the connection.
        await wait_until(lambda: any(each._parser._unparsed for each in http.server.connections))
        http.server.stop()
        await asyncio.wait_for(http.serving, PATIENCE)
        for client in (silent, idle, incomplete):
            assert await client.reader.read() == b""


async def test_running_requests_are_answered_and_then_closed() -> None:
    go = asyncio.Event()

    async def answer_late(exchange: Exchange) -> None:
        await go.wait()
        await answer(exchange, b"done")

    async with run_http_server(answer_late, shutdown=LONG) as http, http.connect() as client:
        await client.send(GET % b"a" + POST % (b"b", 5) + b"hel")
        await http.wait_for_phase(Phase.BODY)
        http.server.stop()
        await asyncio.sleep(0.01)
        assert not http.serving.done()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(*http.address)
        go.set()
        await client.send(b"lo")
        said = await client.reader.read()
        await asyncio.wait_for(http.serving, PATIENCE)
    first, second = said.split(b"done")[:2]
    assert b"connection: close" not in first
    assert b"connection: close" in second
    assert http.targets == ["GET /a", "POST /b"]


async def test_requests_that_take_too_long_are_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        run_http_server(wait, shutdown=timedelta(milliseconds=50)) as http,
        http.connect() as client,
        http.connect() as slow,
    ):
        await client.send(GET % b"")
        await slow.send(POST % (b"", 10))
        await wait_until(lambda: len(http.exchanges) == 2)
        http.server.stop()
        await asyncio.wait_for(http.serving, PATIENCE)
        assert (await client.reader.read()).startswith(b"HTTP/1.1 500 ")
        await http.wait_until_alone()
    assert "2 requests did not finish" in caplog.text
    assert "Traceback" not in caplog.text


async def test_second_stop_does_not_wait() -> None:
    async with run_http_server(wait, shutdown=LONG) as http, http.connect() as client:
        await client.send(GET % b"")
        await http.wait_for_phase(Phase.SERVING)
        http.server.stop()
        await asyncio.sleep(0.01)
        assert not http.serving.done()
        http.server.stop()
        await asyncio.wait_for(http.serving, PATIENCE)


async def test_server_without_connections_stops_at_once() -> None:
    async with run_http_server(echo, shutdown=LONG) as http:
        http.server.stop()
        await asyncio.wait_for(http.serving, PATIENCE)
