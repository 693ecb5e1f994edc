"""The library with servers that require API keys, and with unreachable ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import laneway
from laneway.cli.database import open_connection
from laneway.domain.errors import AccessDenied, InvalidRequest, Misconfigured, Unavailable
from laneway.domain.keys import Role, make_key
from laneway.domain.settings import ConnectionSettings
from laneway.engine.procedures.keys import create_api_key
from tests.library.conftest import QUIET
from tests.library.workers import QUICK, running
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from tests.library.conftest import Place

KEY = "of-the-test"


async def test_server_that_asks_for_a_key(place: Place, queue: str) -> None:
    async with run_laneway(place.dsn, SECRET_KEY=KEY) as running:
        for key in (None, "wrong"):
            async with laneway.connect(running.url, api_key=key) as lane:
                with pytest.raises(AccessDenied):
                    await lane.producer(queue).enqueue(1)
        async with laneway.connect(running.url, api_key=KEY) as lane:
            await lane.producer(queue).enqueue(1)
            assert await lane.consumer(queue).dequeue() is not None


async def test_key_limited_to_queues(database: str) -> None:
    """In a database of its own, since one with a key lets nobody in without."""
    key, queue = make_key(), "mail-1"
    async with laneway.connect(database, settings=QUIET) as lane:
        await lane.admin.create_queue(queue)
    async with open_connection(database, ConnectionSettings()) as connection:
        await create_api_key(
            connection,
            key_id=key.key_id,
            name="limited",
            role=Role.WRITE,
            pattern="mail-*",
            digest=key.digest,
        )
    async with run_laneway(database) as locked:
        address = locked.url
        async with laneway.connect(address, api_key=key.text) as lane:
            await lane.producer(queue).enqueue(1)
            assert (await lane.admin.get_queue(queue)).name == queue
            for refused in (
                lane.producer("other").enqueue(1),
                lane.consumer("other").dequeue(),
                lane.admin.queue_metrics("other"),
                lane.admin.list_queues(),
                lane.admin.list_workers(),
                lane.admin.purge_queue(queue),
            ):
                with pytest.raises(AccessDenied):
                    await refused
        done = asyncio.Event()
        app = laneway.App(address, api_key=key.text, worker=QUICK)

        @app.handler(queue)
        async def handle(_: laneway.Message) -> None:
            done.set()

        async with running(app), asyncio.timeout(20):
            await done.wait()


async def test_unreachable_server_fails_at_once() -> None:
    async with laneway.connect("http://127.0.0.1:1", settings=QUIET) as lane:
        with pytest.raises(Unavailable, match="unreachable"):
            await lane.admin.list_queues()


async def test_url_of_another_service_is_refused(place: Place) -> None:
    async with laneway.connect(f"{place.url}/api", settings=QUIET) as lane:
        with pytest.raises(Misconfigured):
            await lane.admin.list_queues()


@pytest.mark.parametrize(
    "address", ["somewhere", "http://", "http://host:many", "http://[::1", "http://host:99999"]
)
def test_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidRequest, match="address"):
        laneway.connect(address)
