"""What a gateway process does when calls, the database or its own parts fail."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from laneway.domain.errors import Unavailable
from laneway.domain.transactions import TRANSACTIONS, Action
from laneway.gateway.calls import HttpRequest, Unreachable
from laneway.gateway.gateway import open_gateway
from laneway.gateway.http_client import Guard, HttpClient
from laneway.gateway.process import DeliveryProcess
from laneway.gateway.settings import GatewaySettings
from laneway.gateway.targets import Target

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any
    from uuid import UUID

    from laneway.domain.transactions import Breaker, Transaction
    from laneway.engine import Broker
    from laneway.gateway.gateway import Gateway

LOOPBACK = ("127.0.0.0/8",)
MINUTE = timedelta(minutes=1)


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """Yield the URL of a target that answers every call with success."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"status": "success"})

    application = web.Application()
    application.router.add_post("/", answer)
    async with TestServer(application) as server:
        yield str(server.make_url("/"))


@asynccontextmanager
async def open_target(broker: Broker, url: str, **more: Any) -> AsyncIterator[Gateway]:
    target = Target(name="bank", kind="http", urls=(url,), private_networks=LOOPBACK, **more)
    async with open_gateway(GatewaySettings(targets=(target,)), broker) as gateway:
        await gateway.create_queues()
        yield gateway


@asynccontextmanager
async def deliver(gateway: Gateway) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.create_task(DeliveryProcess(gateway).run(stop))
    try:
        yield
    finally:
        stop.set()
        await running


async def accept(gateway: Gateway) -> UUID:
    accepted = await gateway.places["bank"].intake.accept(
        "bank", "{}", owner="", idempotency_key=None, webhook_url=None
    )
    return accepted.id


async def wait_until_final(gateway: Gateway, transaction_id: UUID) -> Transaction:
    found = await gateway.statuses.wait(transaction_id, 30)
    assert found is not None
    assert found.final
    return found


async def read_breaker(broker: Broker) -> Breaker:
    [breaker] = await broker.transactions.list_breakers()
    return breaker


async def test_calls_that_ended_are_free_for_other_processes(broker: Broker, url: str) -> None:
    async with open_target(broker, url, concurrency=1) as gateway:
        async with deliver(gateway):
            await wait_until_final(gateway, await accept(gateway))
            async with asyncio.timeout(30):
                while (await read_breaker(broker)).calls:
                    await asyncio.sleep(0.05)
            await wait_until_final(gateway, await accept(gateway))
        assert not (await read_breaker(broker)).calls, "a process that stopped has none"


async def test_call_that_is_not_repeated_says_nothing_about_the_target(
    broker: Broker, url: str
) -> None:
    async with open_target(broker, url) as gateway:
        transaction_id = await accept(gateway)
        [message] = await broker.claim(TRANSACTIONS)
        begun = await broker.transactions.begin(transaction_id, message)
        assert begun.action is Action.SEND
        await broker.return_claims([message.receipt])
        await broker.transactions.set_breaker("bank", is_open=True, open_for=timedelta(0))
        async with deliver(gateway):
            found = await wait_until_final(gateway, transaction_id)
        assert "the result of an earlier call is unknown" in (found.error or "")
        assert (await read_breaker(broker)).opened_at is not None


async def test_process_ends_if_one_of_its_parts_fails(
    broker: Broker, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(broker.transactions, "list_submitted", fail)
    async with open_target(broker, url) as gateway:
        with pytest.raises(ZeroDivisionError):
            await DeliveryProcess(gateway).run(asyncio.Event())


async def test_process_that_cannot_start_yet_can_be_stopped(
    broker: Broker, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = asyncio.Event()

    async def fail() -> None:
        tried.set()
        raise Unavailable("the database is unreachable")

    async with open_target(broker, url) as gateway:
        monkeypatch.setattr(gateway, "create_queues", fail)
        async with asyncio.timeout(30), deliver(gateway):
            await tried.wait()


async def test_call_is_not_sent_when_the_connection_comes_too_late() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        place = listener.getsockname()
        async with AsyncExitStack() as stack:
            # A full backlog: further connections wait.
            for _ in range(4):
                waiting = stack.enter_context(socket.socket())
                waiting.settimeout(0)
                waiting.connect_ex(place)
            client = await stack.enter_async_context(HttpClient(Guard(LOOPBACK)).open())
            late = HttpRequest(
                method="POST",
                url=f"http://127.0.0.1:{place[1]}/",
                timeout=MINUTE,
                send_within=timedelta(seconds=0.1),
            )
            with pytest.raises(Unreachable) as caught:
                await client.send(late)
            assert not caught.value.sent


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_call_is_sent_once_on_a_connection_that_closes(method: str) -> None:
    """The target closes a kept connection when the second call has come."""
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with HttpClient(Guard(LOOPBACK)).open() as client:
            await client.send(HttpRequest(method=method, url=url))
            with pytest.raises(Unreachable) as caught:
                await client.send(HttpRequest(method=method, url=url))
    assert caught.value.sent
    assert len(received) == 2
