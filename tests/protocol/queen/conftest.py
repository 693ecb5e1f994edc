"""The unmodified client from PyPI, on the session's server, one queue per test."""

from __future__ import annotations

import itertools
import signal
from typing import TYPE_CHECKING

import httpx
import pytest
from queen import Queen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.protocol.conftest import Shared

_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    """Return the name of a queue that no other test has, and that is not there yet."""
    return f"stream-{next(_numbers)}"


@pytest.fixture
async def queen(shared: Shared) -> AsyncIterator[Queen]:
    # The client takes over the signals that pytest has its own use for.
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    client = Queen(shared.server.url, retry_attempts=1)
    try:
        yield client
    finally:
        await client.close()
        for number, handler in kept.items():
            signal.signal(number, handler)


@pytest.fixture
async def http(shared: Shared) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a plain client of the protocol's routes."""
    async with httpx.AsyncClient(base_url=f"{shared.server.url}/api/v1", timeout=30) as client:
        yield client
