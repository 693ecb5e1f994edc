"""One PostgreSQL server per test process, and one database per test, cloned from a template."""

from __future__ import annotations

import itertools
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import asyncpg
import pytest
import pytest_asyncio

from laneway.sql.migrate import install
from tests.documents.blocks import find_block
from tests.postgres import TEMPLATE, execute, make_database, name_database, run_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.postgres import Connect

_numbers = itertools.count(1)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server() -> AsyncIterator[str]:
    """Yield the DSN of this process's server, which holds the template."""
    async with run_server() as running:
        await execute(running.dsn, f"create database {TEMPLATE}")
        connection = await asyncpg.connect(name_database(running.dsn, TEMPLATE))
        await install(connection)
        await connection.close()
        yield running.dsn


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs under test also when the tests run in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that use the Spark session first: one process runs them, beside all others."""
    items.sort(key=lambda item: "spark" not in getattr(item, "fixturenames", ()))
    for item in items:
        if item.get_closest_marker("bundled") and "server" in getattr(item, "fixturenames", ()):
            raise pytest.UsageError(
                f"{item.nodeid} is marked as bundled, and uses the fixture server"
            )


@pytest.fixture
async def database(server: str) -> AsyncIterator[str]:
    """Yield the DSN of a fresh database with the schema installed."""
    async with make_database(server, f"test_{next(_numbers)}") as dsn:
        yield dsn


@pytest.fixture
async def blank_database(server: str) -> AsyncIterator[str]:
    """Yield the DSN of a fresh database with nothing in it."""
    async with make_database(server, f"test_{next(_numbers)}", "template0") as dsn:
        yield dsn


@pytest.fixture
async def connect(database: str) -> AsyncIterator[Connect]:
    """Yield a factory of connections to the test's database, closed after the test."""
    async with AsyncExitStack() as stack:

        async def make() -> asyncpg.Connection[asyncpg.Record]:
            connection = await asyncpg.connect(database)
            stack.push_async_callback(connection.close, timeout=10)
            return connection

        yield make


@pytest.fixture
def texts(request: pytest.FixtureRequest) -> list[str]:
    """Return the blocks that the test's marks name: `document(PATH, WORDS)`."""
    marks = request.node.iter_markers("document")
    return [find_block(*mark.args).text for mark in reversed(list(marks))]
