"""What the gateway says of targets that it cannot connect to."""

from __future__ import annotations

import socket

import pytest

from laneway.gateway.calls import HttpRequest, Unreachable
from laneway.gateway.http_client import Guard, HttpClient


async def test_refused_connection_is_told_with_its_address() -> None:
    with socket.socket() as unused:
        # Bound and not listening, so that every connection to it is refused.
        unused.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{unused.getsockname()[1]}"
        async with HttpClient(Guard(["127.0.0.0/8"])).open() as client:
            with pytest.raises(Unreachable) as caught:
                await client.send(HttpRequest(method="GET", url=f"http://{place}/"))
    assert str(caught.value) == f"cannot connect to {place}: connection refused"


async def test_unknown_host_is_told_by_name() -> None:
    async with HttpClient(Guard()).open() as client:
        with pytest.raises(
            Unreachable, match=r"^cannot connect to nosuch\.invalid:80: host name not found \("
        ):
            await client.send(HttpRequest(method="GET", url="http://nosuch.invalid/"))
