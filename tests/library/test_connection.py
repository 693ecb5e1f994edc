"""Connections that are opened and closed by calls."""

from __future__ import annotations

import asyncio

import pytest

import laneway
from laneway.domain.errors import BrokerClosed, InvalidRequest
from tests.library.conftest import QUIET
from tests.library.workers import make_app, running


async def test_connection_opens_and_closes_by_calls(address: str, queue: str) -> None:
    lane = laneway.connect(address, settings=QUIET)
    with pytest.raises(InvalidRequest, match="not open"):
        _ = lane.admin
    assert await lane.open() is lane
    await lane.open()
    await lane.producer(queue).enqueue(1)
    admin = lane.admin
    await lane.close()
    await lane.close()
    with pytest.raises(BrokerClosed):
        await admin.list_queues()
    with pytest.raises(BrokerClosed, match="create another"):
        await lane.open()


async def test_connection_that_never_opened_closes(address: str) -> None:
    lane = laneway.connect(address, settings=QUIET)
    await lane.close()
    with pytest.raises(BrokerClosed):
        await lane.open()


def test_synchronous_connection_opens_and_closes_by_calls(address: str, queue: str) -> None:
    lane = laneway.sync.connect(address, settings=QUIET)
    assert lane.open() is lane
    lane.open()
    lane.producer(queue).enqueue(1)
    lane.close()
    lane.close()
    with pytest.raises(BrokerClosed):
        lane.open()


async def test_connection_of_a_worker_stays_open(address: str, queue: str) -> None:
    app, closed, received = make_app(address), asyncio.Event(), asyncio.Event()

    @app.handler(queue)
    async def handle(message: laneway.Message) -> None:
        if message.payload == "last":
            received.set()
            return
        await app.connection.close()
        await app.connection.producer(queue).enqueue("last")
        closed.set()

    async with running(app), asyncio.timeout(30):
        await app.connection.producer(queue).enqueue("first")
        await closed.wait()
        await received.wait()
