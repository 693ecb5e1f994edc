"""One server and one database per test process; each test has a queue of its own on each surface."""

from __future__ import annotations

import itertools
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple

import asyncpg
import httpx
import pytest
import pytest_asyncio

import laneway
from laneway.domain.settings import EngineSettings, MaintenanceSettings
from tests.conformance.clock import Clock
from tests.conformance.library import Library
from tests.conformance.rest import Rest
from tests.conformance.sql import Sql
from tests.conformance.sqs import Sqs, SqsFifo
from tests.conformance.streams import Streams
from tests.postgres import make_database
from tests.protocol.servers import run_laneway
from tests.protocol.sqs.clients import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from mypy_boto3_sqs import SQSClient

    from tests.conformance.surface import Surface

SURFACES: dict[str, type[Surface]] = {
    "sql": Sql,
    "library-on-database": Library,
    "library-over-http": Library,
    "rest": Rest,
    "streams": Streams,
    "sqs": Sqs,
    "sqs-fifo": SqsFifo,
}
_numbers = itertools.count(1)
# The server is the maintenance leader.
_WITHOUT_MAINTENANCE = EngineSettings(maintenance=MaintenanceSettings(enabled=False))


class Broker(NamedTuple):
    """The server of this test process, and its database."""

    dsn: str
    url: str


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Collect a test for the surfaces that have every capability it needs."""
    if "surface" not in metafunc.fixturenames:
        return
    needed = {
        capability
        for marker in metafunc.definition.iter_markers("needs")
        for capability in marker.args
    }
    chosen = [name for name, adapter in SURFACES.items() if not needed & set(adapter.lacks)]
    metafunc.parametrize("surface", chosen, indirect=True)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def broker(server: str) -> AsyncIterator[Broker]:
    async with (
        make_database(server, "laneway_conformance") as dsn,
        run_laneway(dsn, "--overdue-check-interval-ms", "100") as running,
    ):
        yield Broker(dsn, running.url)


@pytest.fixture(scope="session")
def sqs_client(broker: Broker) -> Iterator[SQSClient]:
    client = connect(broker.url)
    yield client
    client.close()


@pytest.fixture
async def clock(broker: Broker) -> AsyncIterator[Clock]:
    connection = await asyncpg.connect(broker.dsn)
    yield Clock(connection)
    await connection.close()


@pytest.fixture
async def surface(
    request: pytest.FixtureRequest, broker: Broker, clock: Clock
) -> AsyncIterator[Surface]:
    """Yield a surface with a queue that no other test has; the test creates it."""
    queue = f"queue-{next(_numbers)}"
    async with AsyncExitStack() as stack:
        match request.param:
            case "sql":
                connection = await asyncpg.connect(broker.dsn)
                stack.push_async_callback(connection.close)
                yield Sql(queue, connection)
            case "library-on-database" | "library-over-http" as transport:
                address = broker.dsn if transport == "library-on-database" else broker.url
                opened = laneway.connect(address, settings=_WITHOUT_MAINTENANCE)
                yield Library(queue, await stack.enter_async_context(opened))
            case "rest":
                client = httpx.AsyncClient(base_url=f"{broker.url}/api", timeout=30)
                yield Rest(queue, await stack.enter_async_context(client))
            case "streams":
                client = httpx.AsyncClient(base_url=f"{broker.url}/api/v1", timeout=30)
                yield Streams(queue, await stack.enter_async_context(client))
            case "sqs":
                yield Sqs(queue, request.getfixturevalue("sqs_client"), clock)
            case "sqs-fifo":
                yield SqsFifo(queue, request.getfixturevalue("sqs_client"), clock)
