"""The library at a server that asks for keys, and at none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import laneway
from laneway.domain.errors import AccessDenied, InvalidRequest, Misconfigured, Unavailable
from tests.library.conftest import QUIET
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


async def test_nobody_there_is_told_at_once() -> None:
    async with laneway.connect("http://127.0.0.1:1", settings=QUIET) as lane:
        with pytest.raises(Unavailable, match="no server answers"):
            await lane.admin.list_queues()


async def test_another_path_is_no_laneway(place: Place) -> None:
    async with laneway.connect(f"{place.url}/api", settings=QUIET) as lane:
        with pytest.raises(Misconfigured):
            await lane.admin.list_queues()


def test_address_without_sense_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no address"):
        laneway.connect("somewhere")
