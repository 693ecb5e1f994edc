"""Every surface shows the same in /metrics for the same enqueues, claims, acks and nacks."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

import httpx
import pytest
import pytest_asyncio

from laneway.client.backend import HttpBackend
from laneway.domain.messages import Nack, OutgoingMessage
from laneway.domain.settings import ConnectionSettings
from tests.postgres import make_database
from tests.protocol.rest.calls import add, dequeue
from tests.protocol.servers import make_queue, run_laneway
from tests.protocol.sqs.clients import ACCOUNT, connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from laneway.domain.backend import Backend
    from tests.protocol.servers import RunningServer

# A nack requeues in the one queue, and makes a dead letter in the other.
LENIENT, STRICT = "lenient", "strict"


class Surface(Protocol):
    async def push(self, queue: str) -> None: ...
    async def claim(self, queue: str) -> Any: ...
    async def ack(self, queue: str, message: Any) -> None: ...
    async def nack(self, queue: str, message: Any) -> None: ...


class Rest:
    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def push(self, queue: str) -> None:
        await add(self._client, queue)

    async def claim(self, queue: str) -> Any:
        return await dequeue(self._client, queue)

    async def ack(self, queue: str, message: Any) -> None:  # noqa: ARG002 - the id names it
        body = {"id": message["id"], "lock_token": message["lock_token"]}
        await self._client.post("/queue/ack", json=body)

    async def nack(self, queue: str, message: Any) -> None:  # noqa: ARG002 - the id names it
        body = {"lock_token": message["lock_token"]}
        await self._client.post(f"/queue/message/{message['id']}/nack", json=body)


class Streams:
    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def push(self, queue: str) -> None:
        answer = await self._client.post(
            "/push", json={"items": [{"queue": queue, "payload": 1, "partition": queue}]}
        )
        assert answer.status_code == 201, answer.text

    async def claim(self, queue: str) -> Any:
        answer = await self._client.get(f"/pop/queue/{queue}")
        assert answer.status_code == 200, answer.text
        return answer.json()["messages"][0]

    async def ack(self, queue: str, message: Any) -> None:  # noqa: ARG002 - the id names it
        await self._settle(message, "completed")

    async def nack(self, queue: str, message: Any) -> None:  # noqa: ARG002 - the id names it
        await self._settle(message, "failed")

    async def _settle(self, message: Any, status: str) -> None:
        body = {name: message[name] for name in ("transactionId", "partitionId", "leaseId")}
        answer = await self._client.post("/ack", json={**body, "status": status})
        assert answer.status_code == 200, answer.text


class Sqs:
    def __init__(self, url: str) -> None:
        self._client = connect(url)
        self._root = f"{url}/{ACCOUNT}"

    async def push(self, queue: str) -> None:
        await self._call("send_message", queue, MessageBody="x")

    async def claim(self, queue: str) -> Any:
        return (await self._call("receive_message", queue))["Messages"][0]

    async def ack(self, queue: str, message: Any) -> None:
        await self._call("delete_message", queue, ReceiptHandle=message["ReceiptHandle"])

    async def nack(self, queue: str, message: Any) -> None:
        handle = message["ReceiptHandle"]
        await self._call(
            "change_message_visibility", queue, ReceiptHandle=handle, VisibilityTimeout=0
        )

    async def _call(self, name: str, queue: str, **arguments: Any) -> Any:
        call = getattr(self._client, name)
        return await asyncio.to_thread(call, QueueUrl=f"{self._root}/{queue}", **arguments)


class Library:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def push(self, queue: str) -> None:
        await self._backend.push(queue, [OutgoingMessage("1")])

    async def claim(self, queue: str) -> Any:
        [delivery] = await self._backend.claim(queue)
        return delivery

    async def ack(self, queue: str, message: Any) -> None:  # noqa: ARG002 - the receipt names it
        await self._backend.ack([message.receipt])

    async def nack(self, queue: str, message: Any) -> None:  # noqa: ARG002 - the receipt names it
        await self._backend.nack([Nack(*message.receipt)])


@asynccontextmanager
async def open_rest(server: RunningServer) -> AsyncIterator[Surface]:
    async with server.client() as client:
        yield Rest(client)


@asynccontextmanager
async def open_streams(server: RunningServer) -> AsyncIterator[Surface]:
    async with httpx.AsyncClient(base_url=f"{server.url}/api/v1", timeout=30) as client:
        yield Streams(client)


@asynccontextmanager
async def open_sqs(server: RunningServer) -> AsyncIterator[Surface]:
    yield Sqs(server.url)


@asynccontextmanager
async def open_library(server: RunningServer) -> AsyncIterator[Surface]:
    settings = ConnectionSettings()
    async with HttpBackend(server.url, api_key=None, settings=settings) as backend:
        yield Library(cast("Backend", backend))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def counted(server: str) -> AsyncIterator[RunningServer]:
    """Yield a server of its own: nobody else counts there."""
    async with make_database(server, "laneway_traffic") as dsn, run_laneway(dsn) as running:
        await make_queue(dsn, LENIENT, '{"max_attempts": 9, "backoff": "0"}')
        await make_queue(dsn, STRICT, '{"max_attempts": 1}')
        yield running


async def read_traffic(server: RunningServer) -> dict[str, int]:
    async with httpx.AsyncClient() as client:
        text = (await client.get(f"{server.url}/metrics")).text
    found = re.findall(r'^laneway_messages_total{event="(\w+)"} (\d+)$', text, re.MULTILINE)
    return {event: int(count) for event, count in found}


@pytest.mark.parametrize("connected", [open_rest, open_streams, open_sqs, open_library])
async def test_surface_counts_what_happened_to_messages(
    counted: RunningServer,
    connected: Callable[[RunningServer], AbstractAsyncContextManager[Surface]],
) -> None:
    before = await read_traffic(counted)
    async with connected(counted) as surface:
        for queue in (LENIENT, STRICT):
            await surface.push(queue)
            await surface.nack(queue, await surface.claim(queue))
        again = await surface.claim(LENIENT)
        await surface.ack(LENIENT, again)
        await surface.ack(LENIENT, again)
    after = await read_traffic(counted)
    grown = {event: after[event] - before[event] for event in after}
    refused = grown.pop("refused")
    assert grown == {"pushed": 2, "delivered": 3, "acked": 1, "requeued": 1, "dead": 1}
    # Over streams, an ack of a message that the group has acked already is no failure.
    assert refused == (0 if connected is open_streams else 1)
