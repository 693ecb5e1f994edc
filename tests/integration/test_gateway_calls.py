"""The gateway's HTTP calls go only to addresses that are allowed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from laneway.domain.errors import InvalidSetting
from laneway.gateway.calls import AddressRefused, HttpRequest, TimedOut, Unreachable
from laneway.gateway.http_client import Guard, HttpClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from laneway.gateway.calls import HttpResponse

LOOPBACK = ("127.0.0.0/8", "::1/128")


class Listener:
    """A server that counts connections, and answers each request with the same text."""

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(self._answer.replace("\n", "\r\n").encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def listen(
    answer: str = "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", *, host: str = "127.0.0.1"
) -> AsyncIterator[tuple[Listener, int]]:
    listener = Listener(answer)
    server = await asyncio.start_server(listener.serve, host, 0)
    async with server:
        yield listener, server.sockets[0].getsockname()[1]


async def get(url: str, *networks: str, timeout: float = 30) -> HttpResponse:
    async with HttpClient(Guard(networks)).open() as client:
        return await client.send(
            HttpRequest(method="GET", url=url, timeout=timedelta(seconds=timeout))
        )


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::ffff:127.0.0.1]",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0.0.0.0",  # noqa: S104 - it is refused
        "017700000001",
    ],
)
async def test_loopback_is_refused_however_it_is_written(host: str) -> None:
    async with listen() as (listener, port):
        with pytest.raises((AddressRefused, Unreachable)) as caught:
            await get(f"http://{host}:{port}/")
        assert not caught.value.sent
        assert listener.connections == 0


async def test_loopback_is_reached_where_it_is_allowed() -> None:
    async with listen() as (listener, port):
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
            answer = await get(f"http://{host}:{port}/", *LOOPBACK)
            assert (answer.status, answer.body) == (200, b"ok")
        assert listener.connections == 3


async def test_redirect_is_not_followed() -> None:
    async with listen() as (inner, inner_port):
        moved = (
            f"HTTP/1.1 302 Found\nLocation: http://127.0.0.1:{inner_port}/\nContent-Length: 0\n\n"
        )
        async with listen(moved) as (_, port):
            answer = await get(f"http://127.0.0.1:{port}/", *LOOPBACK)
        assert answer.status == 302
        assert inner.connections == 0


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "127.0.0.1",
        "0.0.0.0",  # noqa: S104 - it is refused
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::1",
        "2001:0:4136:e378:8000:63bf:f5ff:fffe",
    ],
)
def test_private_address_is_refused(address: str) -> None:
    assert not Guard().allows(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1"])
def test_public_address_is_allowed(address: str) -> None:
    assert Guard().allows(address)


def test_private_networks_are_allowed_and_no_others() -> None:
    guard = Guard(["10.1.0.0/16", "fd00::/8"])
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::1", "1.1.1.1"):
        assert guard.allows(address)
    for address in ("10.2.0.1", "::ffff:10.2.0.1", "fc00::1", "127.0.0.1"):
        assert not guard.allows(address)


@pytest.mark.parametrize("network", ["10.0.0.0/33", "10.0.0.1/8", "nowhere", ""])
def test_network_that_is_none_is_refused(network: str) -> None:
    with pytest.raises(InvalidSetting, match="not a network"):
        Guard([network])


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:1/",
        "//127.0.0.1/",
        "127.0.0.1",
        "http://",
        "http://user:pass@127.0.0.1/",
        "http://[::1",
        "http://127.0.0.1:99999/",
        "",
    ],
)
async def test_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        await get(url, *LOOPBACK)


async def test_call_that_is_not_answered_in_time_was_sent() -> None:
    async with listen("") as (_, port):
        with pytest.raises(TimedOut) as caught:
            await get(f"http://127.0.0.1:{port}/", *LOOPBACK, timeout=0.2)
        assert caught.value.sent


async def test_call_that_did_not_connect_was_not_sent() -> None:
    async with listen() as (_, port):
        pass
    with pytest.raises(Unreachable) as caught:
        await get(f"http://127.0.0.1:{port}/", *LOOPBACK)
    assert not caught.value.sent


async def test_cookies_are_not_kept() -> None:
    answer = "HTTP/1.1 200 OK\nSet-Cookie: a=b\nContent-Length: 0\n\n"
    seen = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                seen.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(answer.replace("\n", "\r\n").encode())
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server, HttpClient(Guard(LOOPBACK)).open() as client:
        for _ in range(2):
            await client.send(HttpRequest(method="GET", url=url))
    assert len(seen) == 2
    assert b"cookie" not in seen[1].lower()
