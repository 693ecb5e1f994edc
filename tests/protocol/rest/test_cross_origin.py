"""Web pages reach nothing without a key, and what CORS allows with one."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from tests.postgres import make_database
from tests.protocol.rest.calls import add
from tests.protocol.rest.test_keys import make_keys
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from tests.protocol.conftest import Shared
    from tests.protocol.servers import RunningServer

SECRET = "the secret of the house"  # noqa: S105 - of a server that lives as long as its test
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0"
FOREIGN = "http://evil.example"
ANSWERS = pytest.mark.parametrize(
    "path",
    ["/api/queue/message", "/api/v1/push", "/", "/library/v1/push"],
    ids=["rest", "streams", "sqs", "library"],
)


@pytest.fixture
def port(shared: Shared) -> int:
    return urlsplit(shared.server.url).port or 0


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def named(server: str) -> AsyncIterator[RunningServer]:
    """Yield a server without keys, told which names and pages are its own."""
    async with (
        make_database(server, "named") as dsn,
        run_laneway(
            dsn,
            "--allowed-hosts",
            "laneway, mq.example",
            LANEWAY_ALLOWED_ORIGINS="https://app.example, http://localhost:5173",
            LANEWAY_SQS_HOST="queues.example:9324",
            LANEWAY_SQS_PORT="0",
        ) as running,
    ):
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def locked(server: str) -> AsyncIterator[RunningServer]:
    async with (
        make_database(server, "origins_locked") as dsn,
        run_laneway(dsn, SECRET_KEY=SECRET) as running,
    ):
        yield running


async def ask(
    server: RunningServer, method: str, path: str, body: bytes = b"", /, **headers: str
) -> tuple[int, dict[str, str], str]:
    """Send exactly these headers, with _ for -, and return status, headers and body."""
    place = urlsplit(server.url)
    headers.setdefault("host", place.netloc)
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    head = f"{method} {path} HTTP/1.1\r\n{lines}Connection: close\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    async with asyncio.timeout(30):
        said = (await reader.read()).decode()
    writer.close()
    start, _, text = said.partition("\r\n\r\n")
    status, *rest = start.split("\r\n")
    pairs = (line.partition(": ") for line in rest)
    return int(status.split()[1]), {name.lower(): value for name, _, value in pairs}, text


@ANSWERS
async def test_foreign_page_cannot_post(shared: Shared, path: str) -> None:
    """As a form or a script sends it without asking first: as text/plain."""
    for origin in (FOREIGN, "null", "https://localhost.evil.example", "http://localhost:1"):
        status, headers, text = await ask(
            shared.server, "POST", path, b"{}", origin=origin, content_type="text/plain"
        )
        assert status == 403, (origin, text)
        assert "access-control-allow-origin" not in headers
        assert origin in text
        assert "LANEWAY_ALLOWED_ORIGINS" in text
        assert "laneway key create" in text


async def test_foreign_page_cannot_enqueue(
    shared: Shared, api: httpx.AsyncClient, queue: str
) -> None:
    body = json.dumps({"type": "job", "payload": 1, "queue": queue}).encode()
    status, _, _ = await ask(
        shared.server,
        "POST",
        "/api/queue/message",
        body,
        origin=FOREIGN,
        content_type="text/plain",
    )
    assert status == 403
    listed = await api.get("/queue/main/messages", params={"queueName": queue})
    assert listed.json()["pagination"]["total"] == 0


@ANSWERS
async def test_preflight_of_a_foreign_page_is_refused(shared: Shared, path: str) -> None:
    status, headers, _ = await ask(
        shared.server,
        "OPTIONS",
        path,
        origin=FOREIGN,
        access_control_request_method="DELETE",
        access_control_request_headers="content-type",
    )
    assert status == 403
    assert not [name for name in headers if name.startswith("access-control-allow")]


@pytest.mark.parametrize(
    "sent",
    [
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "image"},
        {"sec_fetch_site": "same-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "image"},
        {
            "sec_fetch_site": "cross-site",
            "sec_fetch_mode": "navigate",
            "sec_fetch_dest": "document",
        },
        {"origin": FOREIGN},
        {"referer": "http://evil.example/page", "user_agent": CHROME},
        # A page may keep its address to itself, and browsers say no more to an address in the LAN.
        {"user_agent": CHROME},
    ],
    ids=["image", "same site", "link", "script", "referer", "silent"],
)
async def test_foreign_page_cannot_dequeue(
    shared: Shared, api: httpx.AsyncClient, queue: str, sent: dict[str, str]
) -> None:
    await add(api, queue)
    for path in (
        f"/api/queue/message?queue={queue}",
        f"/api/queue/messages/batch?count=1&queue={queue}",
        f"/api/v1/pop/queue/{queue}?autoAck=true",
        f"/?Action=ReceiveMessage&QueueUrl={queue}",
    ):
        status, _, text = await ask(shared.server, "GET", path, **sent)
        assert status == 403, (path, text)
    assert (await api.get("/queue/message", params={"queue": queue})).status_code == 200


async def test_foreign_page_cannot_listen_or_read(shared: Shared) -> None:
    """Whatever a page may load without asking is refused, but for a link to a page of ours."""
    image = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "image"}
    frame = {**image, "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"}
    link = {**image, "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    for path in ("/api/queue/events", "/api/queue/main/export", "/api/reference", "/metrics"):
        assert (await ask(shared.server, "GET", path, **image))[0] == 403, path
        assert (await ask(shared.server, "GET", path, **frame))[0] == 403, path
    status, headers, _ = await ask(shared.server, "GET", "/api/reference", **link)
    assert status == 200
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:3001", "localhost.evil.example", "127.0.0.1.evil", "a b"]
)
@ANSWERS
async def test_other_host_name_is_refused(shared: Shared, path: str, host: str) -> None:
    """A name that leads here without our knowing: its page would be one of our own."""
    status, headers, text = await ask(
        shared.server, "POST", path, b"{}", host=host, origin=f"http://{host}"
    )
    assert status == 403
    assert "access-control-allow-origin" not in headers
    assert host.partition(":")[0] in text
    assert "LANEWAY_ALLOWED_HOSTS" in text
    assert "laneway key create" in text


async def test_refusal_has_the_format_of_its_protocol(shared: Shared) -> None:
    other = {"host": "evil.example"}
    _, _, text = await ask(shared.server, "GET", "/api/queues", **other)
    assert json.loads(text)["error"] == "Forbidden"
    _, _, text = await ask(shared.server, "POST", "/api/v1/push", b"{}", **other)
    assert json.loads(text)["code"] == "forbidden"
    _, headers, text = await ask(
        shared.server, "POST", "/", b"{}", x_amz_target="AmazonSQS.ListQueues", **other
    )
    assert headers["x-amzn-query-error"] == "AccessDenied;Sender"
    assert json.loads(text)["__type"].endswith("#AccessDeniedException")
    status, headers, text = await ask(shared.server, "POST", "/", b"Action=ListQueues", **other)
    assert (status, headers["content-type"]) == (403, "text/xml")
    assert "<Code>AccessDenied</Code>" in text


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:{port}",
        "localhost.:{port}",
        "127.0.0.1:{port}",
        "127.9.9.9",
        "[::1]:{port}",
        "192.168.1.20:{port}",
        "sqs.us-east-1.localhost:{port}",
        "laneway.localhost",
    ],
)
async def test_own_host_names_and_addresses_are_accepted(
    shared: Shared, port: int, host: str
) -> None:
    status, _, text = await ask(shared.server, "GET", "/api/queues", host=host.format(port=port))
    assert status == 200, text


async def test_client_without_a_host_header_is_accepted(shared: Shared) -> None:
    place = urlsplit(shared.server.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(b"GET /api/queues HTTP/1.0\r\n\r\n")
    async with asyncio.timeout(30):
        assert b" 200 " in await reader.read()
    writer.close()


async def test_same_origin_pages_are_accepted(shared: Shared, port: int, queue: str) -> None:
    """The reference page, under whichever of our names it was opened, and addresses typed by hand."""
    body = json.dumps({"type": "job", "payload": 1, "queue": queue}).encode()
    for origin in (
        shared.server.url,
        f"http://localhost:{port}",
        f"http://laneway.localhost:{port}",
    ):
        status, headers, text = await ask(
            shared.server, "POST", "/api/queue/message", body, origin=origin
        )
        assert status == 201, text
        assert headers["access-control-allow-origin"] == origin
        assert headers["vary"] == "Origin"
    take = f"/api/queue/message?queue={queue}"
    own = {"referer": f"{shared.server.url}/api/reference", "user_agent": CHROME}
    for sent in ({"sec_fetch_site": "same-origin"}, {"sec_fetch_site": "none"}, own):
        assert (await ask(shared.server, "GET", take, **sent))[0] == 200, sent


@pytest.mark.parametrize(
    "agent",
    [
        "curl/8.5.0",
        "Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1.19041.1",
        "node",
    ],
)
async def test_programs_without_an_origin_are_accepted(
    shared: Shared, api: httpx.AsyncClient, queue: str, agent: str
) -> None:
    await add(api, queue)
    path = f"/api/queue/message?queue={queue}"
    assert (await ask(shared.server, "GET", path, user_agent=agent, sec_fetch_mode="cors"))[
        0
    ] == 200


async def test_configured_hosts_and_origins_are_accepted(named: RunningServer) -> None:
    for host in (
        "laneway:3001",
        "mq.example",
        "SQS.eu-west-1.MQ.example:80",
        "queues.example:9324",
        "sqs.eu-west-1.queues.example:9324",
        # With a port of its own, what is set up for LocalStack works as it is.
        "sqs.eu-west-1.localhost.localstack.cloud:4566",
    ):
        assert (await ask(named, "GET", "/api/queues", host=host))[0] == 200, host
    for host in ("xlaneway", "other.example", "laneway.evil.example"):
        assert (await ask(named, "GET", "/api/queues", host=host))[0] == 403, host
    for origin in ("https://app.example", "http://localhost:5173"):
        status, headers, _ = await ask(
            named, "OPTIONS", "/api/queue/ack", origin=origin, access_control_request_method="POST"
        )
        assert (status, headers["access-control-allow-origin"]) == (204, origin)
        assert headers["vary"] == "Origin"
        status, headers, _ = await ask(named, "GET", "/api/queues", origin=origin)
        assert (status, headers["access-control-allow-origin"]) == (200, origin)
    for origin in ("http://app.example", "https://app.example:8443", "https://x.app.example"):
        assert (await ask(named, "GET", "/api/queues", origin=origin))[0] == 403, origin


async def test_any_origin_is_accepted_with_a_key_unless_some_are_configured(
    locked: RunningServer, database: str
) -> None:
    sent = {"origin": FOREIGN, "host": "mq.example", "sec_fetch_site": "cross-site"}
    status, headers, _ = await ask(locked, "GET", "/api/queues", x_api_key=SECRET, **sent)
    assert (status, headers["access-control-allow-origin"]) == (200, "*")
    status, headers, _ = await ask(locked, "GET", "/api/queues", **sent)
    assert (status, headers["access-control-allow-origin"]) == (401, "*")
    asked = {"origin": "null", "access_control_request_method": "DELETE"}
    status, headers, _ = await ask(locked, "OPTIONS", "/api/queue/clear", **asked)
    assert (status, headers["access-control-allow-origin"]) == (204, "*")
    flags = ("--allowed-origins", "https://app.example/")
    async with run_laneway(database, *flags, SECRET_KEY=SECRET) as strict:
        status, headers, _ = await ask(strict, "GET", "/api/queues", x_api_key=SECRET, **sent)
        assert status == 403
        assert "access-control-allow-origin" not in headers
        sent["origin"] = "https://app.example"
        status, headers, _ = await ask(strict, "GET", "/api/queues", x_api_key=SECRET, **sent)
        assert (status, headers["access-control-allow-origin"]) == (200, "https://app.example")


async def test_wildcard_origin_is_not_returned_without_a_key(database: str) -> None:
    async with run_laneway(database, LANEWAY_ALLOWED_ORIGINS="*") as server:
        assert (await ask(server, "GET", "/api/queues", origin=FOREIGN))[0] == 403


async def test_network_server_accepts_host_names_without_a_dot(database: str) -> None:
    """As Docker Compose gives them. Whoever can make such a name up can call the server himself."""
    async with run_laneway(database, "--host", "0.0.0.0", "--insecure") as server:  # noqa: S104
        port = urlsplit(server.url).port
        here = type(server)(server.process, f"http://127.0.0.1:{port}", server._log)
        for host, expected in (
            (f"laneway:{port}", 200),
            (f"192.168.1.20:{port}", 200),
            ("laneway.evil.example", 403),
        ):
            assert (await ask(here, "GET", "/api/queues", host=host))[0] == expected, host


async def test_first_request_is_checked_against_existing_keys(database: str) -> None:
    """Also one to an open path, which needs none."""
    await make_keys(database)
    async with run_laneway(database) as server:
        assert (await ask(server, "GET", "/api/health", host="mq.example"))[0] == 200
