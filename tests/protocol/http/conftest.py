"""The HTTP server without an application of ours, on either event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest_asyncio
import uvloop

from tests.protocol.http.servers import echo, run_http_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from tests.protocol.http.servers import RunningHttpServer


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest_asyncio.fixture
async def http() -> AsyncIterator[RunningHttpServer]:
    """Yield a server that answers each request with its method, path, query and body."""
    async with run_http_server(echo) as running:
        yield running
