"""Many requests at once: bounded memory, and capacity left for others."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from laneway.server.settings import Limits
from tests.protocol.rest.calls import add
from tests.protocol.rest.test_slow_clients import run_impatient
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.protocol.rest.test_slow_clients import Impatient
    from tests.protocol.servers import RunningServer

SECRET = "the secret of the house"  # noqa: S105 - of a server that lives as long as its test
MIB = 1024 * 1024
LIMIT = 30


def measure(server: RunningServer) -> int:
    """Return how much memory the process has, in bytes."""
    size: int = psutil.Process(server.process.pid).memory_info().rss
    return size


async def test_long_queue_names_are_not_cached(database: str) -> None:
    """However they are sent: 40 of 8 MiB, each another one."""
    async with run_laneway(database) as server, httpx.AsyncClient(base_url=server.url) as http:

        async def ask(number: int, size: int) -> httpx.Response:
            url = f"http://{number}/{'x' * size}"
            return await http.post(
                "/",
                json={"QueueUrl": url},
                headers={"X-Amz-Target": "AmazonSQS.ReceiveMessage"},
                timeout=LIMIT,
            )

        await ask(0, 8 * MIB)
        before = measure(server)
        for number in range(1, 40):
            answer = await ask(number, 8 * MIB)
            assert answer.status_code == 400
            assert answer.json()["__type"].endswith("#QueueDoesNotExist")
            assert len(answer.content) < 1000
        assert measure(server) - before < 100 * MIB


def open_quiet(address: tuple[str, int], path: str) -> socket.socket:
    """Ask for something, read how the answer begins, and no more."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(LIMIT)
    client.connect(address)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert client.recv(20).startswith(b"HTTP/1.1 200 ")
    return client


@pytest.mark.parametrize("path", ["/api/reference/scalar.js", "/api/doc"])
async def test_unread_documents_use_no_memory(database: str, path: str) -> None:
    """No key is needed for them. Who reads gets them all the same, in either form."""
    async with run_laneway(database, SECRET_KEY=SECRET) as server, server.client() as api:
        url = server.url + path
        plain = await api.get(url, headers={"Accept-Encoding": "identity"})
        packed = await api.get(url, headers={"Accept-Encoding": "gzip"})
        assert plain.content == packed.content
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert len(plain.content) > 100_000
        before = measure(server)
        place = urlsplit(server.url)
        address = (place.hostname or "", place.port or 0)
        with ExitStack() as clients:
            for _ in range(150):
                client = await asyncio.to_thread(open_quiet, address, path)
                clients.enter_context(client)
            assert measure(server) - before < min(len(plain.content) * 150 / 2, 50 * MIB)
            assert (await api.get("/health")).status_code == 200
            again = await api.get(url, headers={"Accept-Encoding": "identity"})
            assert again.content == plain.content


SIGNED = (
    "POST / HTTP/1.1\r\nX-Amz-Date: {date}T235959Z\r\nAuthorization: AWS4-HMAC-SHA256 "
    "Credential={key}/{date}/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=00"
)


@pytest.mark.parametrize(
    "head",
    [
        "POST / HTTP/1.1\r\nX-Amz-Target: AmazonSQS.SendMessage",
        "POST / HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded",
        "POST / HTTP/1.1\r\nX-API-KEY: guessed",
        "POST /000000000000/jobs HTTP/1.1\r\nAuthorization: Bearer guessed",
        SIGNED.format(date="20300131", key="lw_00000000"),
        SIGNED.format(date="20200131", key="SECRET_KEY"),
        "POST /api/queue/message HTTP/1.1",
        "POST /api/queue/import HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x",
        "POST /api/v1/push HTTP/1.1\r\nX-API-KEY: guessed",
        "POST /library/v1/push HTTP/1.1",
    ],
)
async def test_request_without_a_key_is_refused_before_its_body(database: str, head: str) -> None:
    async with run_laneway(database, SECRET_KEY=SECRET) as server:
        place = urlsplit(server.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(f"{head}\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n".encode())
        async with asyncio.timeout(LIMIT):
            status = int((await reader.readline()).split()[1])
        assert status in {401, 403}
        writer.close()


@asynccontextmanager
async def wait_for_message(server: RunningServer) -> AsyncIterator[None]:
    """Have a consumer wait for as long as the context lasts."""
    async with server.client(**{"X-API-KEY": SECRET}) as api:

        async def wait() -> None:
            poll = {"timeout": 300}
            while (await api.get("/queue/message", params=poll, timeout=None)).status_code == 503:
                await asyncio.sleep(0.05)

        poll = asyncio.ensure_future(wait())
        try:
            yield
        finally:
            poll.cancel()


async def test_long_polls_have_a_limit_of_their_own(database: str) -> None:
    """Who wants to wait beyond it is told to come back, in the words of each protocol."""
    async with (
        run_laneway(database, "--max-long-polls", "2", SECRET_KEY=SECRET) as server,
        server.client(**{"X-API-KEY": SECRET}) as api,
        AsyncExitStack() as stack,
    ):
        await api.put(f"{server.url}/api/v1/resources/queues/jobs")
        for _ in range(2):
            await stack.enter_async_context(wait_for_message(server))
        poll = {"timeout": 0.05}
        async with asyncio.timeout(LIMIT):
            while (refused := await api.get("/queue/message", params=poll)).status_code == 404:
                await asyncio.sleep(0.05)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        message = refused.json()["message"]
        assert message.startswith("too many long polls (2 at most")
        assert "retry later" in message
        assert "LANEWAY_MAX_LONG_POLLS" in message
        popped = await api.get(f"{server.url}/api/v1/pop/queue/default?wait=true&timeout=1000")
        assert popped.status_code == 503
        assert popped.json() == {"error": message, "code": "unavailable"}
        received = await api.post(
            server.url,
            json={"QueueUrl": "default", "WaitTimeSeconds": 1},
            headers={"X-Amz-Target": "AmazonSQS.ReceiveMessage"},
        )
        assert received.status_code == 503
        assert received.json()["message"] == message
        assert int(received.headers["retry-after"]) >= 1
        for accept in ("*/*", "application/json"):
            received = await api.post(
                f"{server.url}/000000000000/default",
                data={"Action": "ReceiveMessage", "WaitTimeSeconds": "1"},
                headers={"Accept": accept},
            )
            assert received.status_code == 503
            assert message in received.text
            assert int(received.headers["retry-after"]) >= 1
        # Others are served: those who do not wait, who add, and who ask whether all is well.
        assert (await api.get("/queue/message")).status_code == 404
        assert (await api.get("/health")).status_code == 200
        await add(api, "default")
        # One of the two has it, and waits no more.
        async with asyncio.timeout(LIMIT):
            while (await api.get("/queue/message", params=poll)).status_code == 503:
                await asyncio.sleep(0.05)


async def ask(server: Impatient, path: str, *, until: int) -> dict[str, str]:
    """Ask until the answer has a status, and return the JSON of it."""
    async with asyncio.timeout(LIMIT):
        while True:
            said = await server.ask("GET", path)
            start, _, body = said.partition(b"\r\n\r\n")
            if start.startswith(b"HTTP/1.1 %d " % until):
                assert until != 503 or b"retry-after: 1" in start
                found: dict[str, str] = json.loads(body)
                return found
            await asyncio.sleep(0.05)


async def test_health_answers_when_the_server_is_full(database: str) -> None:
    limits = Limits(requests=3, documents=2)
    async with run_impatient(database, limits) as server, AsyncExitStack() as stack:
        slow = b"POST /api/queue/message HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
        for _ in range(3):
            _, writer = await server.connect()
            stack.callback(writer.close)
            writer.write(slow)
        refused = await ask(server, "/api/queues", until=503)
        assert refused["message"].startswith("too many concurrent requests (3 at most")
        for path in ("/api/health", "/api/health/live", "/api/health/ready", "/health"):
            await ask(server, path, until=200)
        await ask(server, "/api/doc", until=200)
        # And the other way round.
        for _ in range(2):
            quiet = await asyncio.to_thread(open_quiet, server.address, "/api/reference/scalar.js")
            stack.enter_context(quiet)
        refused = await ask(server, "/api/doc", until=503)
        assert refused["message"].startswith("too many concurrent requests for documents")
        await ask(server, "/api/health", until=200)
