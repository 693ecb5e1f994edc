"""Common to every route: errors, CORS, request ids and limits."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.protocol.rest.calls import add

if TYPE_CHECKING:
    import httpx

    from tests.protocol.conftest import Shared


@pytest.mark.parametrize(
    "path", ["/api/x", "/api", "/api/queue/message/1/2/3", "/x", "/api/health/other"]
)
async def test_unknown_route_is_named(api: httpx.AsyncClient, shared: Shared, path: str) -> None:
    answer = await api.get(shared.server.url + path)
    assert answer.status_code == 404
    assert answer.json() == {"message": f"Not Found - {path}"}


async def test_other_method_is_refused(api: httpx.AsyncClient) -> None:
    answer = await api.delete("/queue/ack")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert answer.json()["message"].startswith("Method Not Allowed")


async def test_head_is_get_without_the_body(api: httpx.AsyncClient, queue: str) -> None:
    for path in ("/health", "/queue/config", "/queues", "/doc", "/reference", f"/queues/{queue}"):
        asked = await api.head(path)
        answer = await api.get(path, headers={"Accept-Encoding": "identity"})
        assert asked.status_code == answer.status_code == 200, path
        assert asked.content == b""
        assert asked.headers["content-type"] == answer.headers["content-type"]
    for path in ("/queue/main/export", "/queue/events"):
        # On one connection: whatever came after the head would be taken for the next answer.
        asked = await api.head(path)
        assert asked.status_code == 200, path
        assert (await api.get("/health/live")).json() == {"status": "OK"}
    assert (await api.head("/queues/none")).status_code == 404


async def test_head_claims_no_message(api: httpx.AsyncClient, queue: str) -> None:
    await add(api, queue)
    for path in ("/queue/message", "/queue/messages/batch?count=1"):
        asked = await api.head(path, params={"queue": queue})
        assert asked.status_code == 405
        assert "HEAD" not in asked.headers["allow"]
    listed = await api.get("/queue/main/messages", params={"queueName": queue})
    assert listed.json()["pagination"]["total"] == 1


async def test_trailing_slash_is_tolerated(api: httpx.AsyncClient, queue: str) -> None:
    body = {"type": "a", "payload": 1, "queue": queue}
    assert (await api.post("/queue/message/", json=body)).status_code == 201
    assert (await api.get("/health/")).status_code == 200
    message_id = await add(api, queue)
    assert (await api.post(f"/queue/message/{message_id}/nack/")).status_code == 404


async def test_cors_headers_allow_reading_responses(api: httpx.AsyncClient, shared: Shared) -> None:
    """Here one of the server's own; test_origins says which those are."""
    page = {"Origin": shared.server.url}
    for path in ("/queue/config", "/nowhere"):
        answer = await api.get(path, headers=page)
        assert answer.headers["access-control-allow-origin"] == shared.server.url
        assert "X-Request-ID" in answer.headers["access-control-expose-headers"]
    answer = await api.options(
        "/queue/message",
        headers={
            **page,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type,x-api-key",
        },
    )
    assert answer.status_code == 204
    assert "content-length" not in answer.headers
    assert answer.headers["access-control-allow-origin"] == shared.server.url
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "content-type,x-api-key"


async def test_request_id_is_kept_or_generated(api: httpx.AsyncClient) -> None:
    answer = await api.get("/queue/config", headers={"X-Request-ID": "mine-1"})
    assert answer.headers["x-request-id"] == "mine-1"
    first = (await api.get("/queue/config")).headers["x-request-id"]
    second = (await api.get("/queue/config")).headers["x-request-id"]
    assert first != second
    too_long = await api.get("/queue/config", headers={"X-Request-ID": "x" * 200})
    assert too_long.headers["x-request-id"] != "x" * 200


@pytest.mark.parametrize("chunked", [False, True], ids=["told", "chunked"])
async def test_body_beyond_the_limit_is_413(
    api: httpx.AsyncClient,
    *,
    chunked: bool,
) -> None:
    size = 17 * 1024 * 1024

    async def pieces() -> object:
        for _ in range(17):
            yield b" " * (1024 * 1024)

    content = pieces() if chunked else b" " * size
    answer = await api.post("/queue/message", content=content)  # type: ignore[arg-type]
    assert answer.status_code == 413
    assert "larger than" in answer.json()["message"]
    assert "LANEWAY_MAX_BODY_BYTES" in answer.json()["message"]


async def test_headers_beyond_the_limit_are_431(shared: Shared) -> None:
    for head in (
        b"GET /api/health HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 100_000 + b"\r\n\r\n",
        b"GET /api/health HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 100_000,
        b"GET /" + b"x" * 100_000,
    ):
        assert (await talk(shared, head)).startswith(b"HTTP/1.1 431 ")


FLOOD = 12 * 1024 * 1024
UPLOAD = b"POST /api/%b HTTP/1.1\r\nHost: localhost\r\n%b\r\n"
CLOSE = b"Connection: close\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
SIZED = b"Content-Length: %d\r\n"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(b"GET /api/health HTTP/1.1\r\nX-Long: ", 431, id="headers"),
        pytest.param(b"GET /", 431, id="address"),
        pytest.param(b"nonsense\r\n\r\n", 400, id="nonsense"),
        pytest.param(UPLOAD % (b"queue/message", SIZED % 10**9), 413, id="body"),
        pytest.param(UPLOAD % (b"queue/message", SIZED % 10**9 + CLOSE), 413, id="body, closing"),
        pytest.param(UPLOAD % (b"queue/message", CHUNKED), 400, id="no chunks"),
        pytest.param(UPLOAD % (b"nowhere", SIZED % FLOOD + CLOSE), 404, id="nowhere, closing"),
        pytest.param(UPLOAD % (b"queue/ack/1", SIZED % 10**9), 404, id="nowhere"),
    ],
)
async def test_client_that_sends_its_whole_body_first_gets_the_refusal(
    shared: Shared, head: bytes, status: int
) -> None:
    def flood() -> bytes:
        place = urlsplit(shared.server.url)
        with socket.create_connection((place.hostname, place.port), timeout=20) as client:
            client.sendall(head)
            for _ in range(FLOOD // 65536):
                client.sendall(b"x" * 65536)
            return client.recv(65536)

    said = await asyncio.to_thread(flood)
    assert said.startswith(b"HTTP/1.1 %d " % status)
    assert json.loads(said.partition(b"\r\n\r\n")[2])["message"]


async def test_refused_connection_is_closed(shared: Shared) -> None:
    place = urlsplit(shared.server.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(UPLOAD % (b"queue/message", SIZED % 10**9))
    said = await reader.readuntil(b"\r\n\r\n")
    assert b"connection: close" in said
    writer.write(b"GET /api/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"HTTP/1.1" not in await reader.read()
    writer.close()


async def test_what_is_not_http_is_400(shared: Shared) -> None:
    assert (await talk(shared, b"nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400 ")


async def test_pipelined_requests_are_answered_in_order(shared: Shared) -> None:
    request = b"GET /api/%b HTTP/1.1\r\nHost: localhost\r\n%b\r\n"
    said = await talk(
        shared,
        request % (b"health/live", b"") + request % (b"nowhere", b"Connection: close\r\n"),
    )
    assert said.index(b"200 OK") < said.index(b"404 Not Found")


async def test_chunked_body_is_read_whole(shared: Shared, queue: str) -> None:
    body = json.dumps({"type": "a", "payload": "x" * 1000, "queue": queue}).encode()
    head = b"POST /api/queue/message HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += b"Content-Length: %d\r\n\r\n" % len(body)
    said = await talk(shared, head + body[:10], body[10:500], body[500:])
    assert said.startswith(b"HTTP/1.1 201 ")


async def test_large_responses_are_compressed_on_request(
    api: httpx.AsyncClient,
) -> None:
    plain = await api.get("/doc", headers={"Accept-Encoding": "identity"})
    packed = await api.get("/doc", headers={"Accept-Encoding": "br, gzip;q=0.5"})
    refused = await api.get("/doc", headers={"Accept-Encoding": "gzip;q=0"})
    assert "content-encoding" not in plain.headers
    assert "content-encoding" not in refused.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.json() == plain.json()
    assert gzip.compress(plain.content)


async def talk(shared: Shared, *pieces: bytes) -> bytes:
    """Send bytes as they are, and return what comes back until the server hangs up."""
    place = urlsplit(shared.server.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)
        async with asyncio.timeout(20):
            return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize("name", ["queue", "queueName", "queue_name"])
@pytest.mark.parametrize(
    "path", ["/queue/main/messages", "/queue/main/export", "/queue/metrics", "/queue/message"]
)
async def test_parameter_for_the_queue_has_three_names(
    api: httpx.AsyncClient, queue: str, path: str, name: str
) -> None:
    await add(api, queue)
    answer = await api.get(path, params={name: queue})
    assert answer.status_code == 200
    found = answer.json()
    if path == "/queue/message":
        assert found["queue_name"] == queue
    elif path == "/queue/metrics":
        assert found["queued"] == 1
    else:
        rows = found if isinstance(found, list) else found["messages"]
        assert [row["queue_name"] for row in rows] == [queue]
    missing = await api.get(path, params={name: "no-such-queue"})
    assert missing.status_code == 404
