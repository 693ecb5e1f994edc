"""One chain for all processes of a test run; on it one relayer of each process, and a gateway to it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import pytest
import pytest_asyncio

from tests.chain.chain import share_chain
from tests.chain.stack import WEBHOOK_KEY, run_gateway, run_relayer
from tests.postgres import make_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import httpx

    from tests.chain.chain import Chain
    from tests.chain.stack import RunningRelayer
    from tests.protocol.servers import RunningServer


class Shared(NamedTuple):
    """The session's server, and the relayer that it sends to and that sends it webhooks."""

    server: RunningServer
    relayer: RunningRelayer


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with share_chain(folder) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(
    server: str, chain: Chain, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Shared]:
    folder = tmp_path_factory.mktemp("shared")
    async with (
        make_database(server, "laneway_chain") as dsn,
        run_relayer(chain, folder) as relayer,
        run_gateway(dsn, chain, [relayer], folder) as running,
    ):
        await relayer.wish(
            webhook_url=f"{running.url}/api/v1/webhooks/oz-relayer", webhook_key=WEBHOOK_KEY
        )
        yield Shared(running, relayer)


@pytest.fixture
async def api(shared: Shared) -> AsyncIterator[httpx.AsyncClient]:
    async with shared.server.client() as client:
        yield client


@pytest.fixture
def relayer(shared: Shared) -> RunningRelayer:
    return shared.relayer
