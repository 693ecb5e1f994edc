"""One database and one server for the session; each test has its own queue."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import pytest
import pytest_asyncio

import laneway
from laneway.domain.settings import EngineSettings, MaintenanceSettings, QueueSettings
from tests.library.shell import Shell
from tests.postgres import execute, name_database
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_TEMPLATE = "laneway_template"
_DATABASE = "laneway_library"
_numbers = itertools.count(1)

# The server does what has to be done behind the scenes.
QUIET = EngineSettings(maintenance=MaintenanceSettings(enabled=False))


# A nacked message is ready again at once.
AT_ONCE = QueueSettings(max_attempts=3, backoff=timedelta(0))


class Place(NamedTuple):
    """The session's database, and the server on it."""

    dsn: str
    url: str


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def place(server: str) -> AsyncIterator[Place]:
    await execute(server, f"create database {_DATABASE} template {_TEMPLATE} strategy file_copy")
    dsn = name_database(server, _DATABASE)
    async with run_laneway(dsn, "--overdue-check-interval-ms", "100") as running:
        yield Place(dsn, running.url)
    await execute(server, f"drop database {_DATABASE} with (force)")


@pytest.fixture(params=["database", "server"])
def address(request: pytest.FixtureRequest, place: Place) -> str:
    """Return where to connect: every test that asks runs twice."""
    return place.dsn if request.param == "database" else place.url


@pytest.fixture
async def lane(address: str) -> AsyncIterator[laneway.Connection]:
    async with laneway.connect(address, settings=QUIET) as connection:
        yield connection


@pytest.fixture
async def queue(place: Place) -> str:
    """Return the name of a queue that no other test has."""
    name = f"queue-{next(_numbers)}"
    async with laneway.connect(place.dsn, settings=QUIET) as connection:
        await connection.admin.create_queue(name, AT_ONCE)
    return name


@pytest.fixture
def shell(address: str, tmp_path: Path) -> Shell:
    return Shell(address, tmp_path)


@pytest.fixture
def local(place: Place, tmp_path: Path) -> Shell:
    """Return one shell, for what is the same on both transports."""
    return Shell(place.dsn, tmp_path)
