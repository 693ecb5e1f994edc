"""The unmodified client from PyPI, on the session's server, one queue per test."""

from __future__ import annotations

import itertools
import signal
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from queen import Queen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.protocol.conftest import Shared

_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    """Return the name of a queue that no other test has, and that is not there yet."""
    return f"stream-{next(_numbers)}"


@contextmanager
def keep_signals() -> Iterator[None]:
    """Leave the signals to pytest: the client takes them over, and later gives them to nobody."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


@asynccontextmanager
async def open_client(url: str | list[str], **options: Any) -> AsyncIterator[Queen]:
    with keep_signals():
        client = Queen(url, retry_attempts=1, **options)
    try:
        yield client
    finally:
        with keep_signals():
            await client.close()


@pytest.fixture
async def queen(shared: Shared) -> AsyncIterator[Queen]:
    async with open_client(shared.server.url) as client:
        yield client


@pytest.fixture
async def http(shared: Shared) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a plain client of the protocol's routes."""
    async with httpx.AsyncClient(base_url=f"{shared.server.url}/api/v1", timeout=30) as client:
        yield client
