"""One server for the session, one queue per test."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import pytest
import pytest_asyncio

from tests.postgres import make_database
from tests.protocol.servers import make_queue, run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from tests.protocol.servers import RunningServer

_numbers = itertools.count(1)


class Shared(NamedTuple):
    """The session's server and its database."""

    server: RunningServer
    dsn: str


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(server: str) -> AsyncIterator[Shared]:
    key = "ab" * 32
    async with (
        make_database(server, "laneway_protocol") as dsn,
        run_laneway(dsn, "--overdue-check-interval-ms", "100", QUEEN_ENCRYPTION_KEY=key) as running,
    ):
        yield Shared(running, dsn)


@pytest.fixture
async def api(shared: Shared) -> AsyncIterator[httpx.AsyncClient]:
    async with shared.server.client() as client:
        yield client


@pytest.fixture
async def queue(shared: Shared) -> str:
    """Return the name of a queue that no other test has."""
    name = f"queue-{next(_numbers)}"
    await make_queue(shared.dsn, name)
    return name
