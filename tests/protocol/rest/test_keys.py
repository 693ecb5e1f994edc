"""The secret, keys of every role, and keys limited to some queues."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
import pytest_asyncio

from laneway.domain.keys import Role, digest_key, make_key
from laneway.engine.procedures.keys import create_api_key
from laneway.server.server_process import make_surfaces
from laneway.server.settings import ServerSettings
from tests.postgres import make_database
from tests.protocol.rest.calls import NOBODY, add, dequeue
from tests.protocol.servers import LANEWAY, make_queue, run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx

    from laneway.server.operations import Operation
    from tests.protocol.servers import RunningServer

SECRET = "the secret of the house"  # noqa: S105 - what else would a test of secrets have
OPEN = ("/health", "/health/live", "/health/ready", "/doc", "/docs", "/reference")


class Locked:
    """A server with a secret, and keys made by the command."""

    def __init__(self, server: RunningServer, dsn: str, keys: dict[str, str]) -> None:
        self.server = server
        self.dsn = dsn
        self.keys = keys

    def client(self, key: str | None = None) -> httpx.AsyncClient:
        headers = {} if key is None else {"X-API-KEY": self.keys.get(key, key)}
        return self.server.client(**headers)


async def make_keys(dsn: str) -> dict[str, str]:
    """Return a key of each role, and one that may write to some queues only."""
    wanted: dict[str, tuple[Role, str | None]] = {str(role): (role, None) for role in Role}
    wanted["limited"] = (Role.WRITE, "mail-*")
    keys = {}
    connection = await asyncpg.connect(dsn)
    for name, (role, pattern) in wanted.items():
        key = make_key()
        keys[name] = key.text
        await create_api_key(
            connection, key_id=key.key_id, name=name, role=role, pattern=pattern, digest=key.digest
        )
    await connection.close()
    return keys


def run_command(dsn: str, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [LANEWAY, *arguments],
        env={"PATH": "/usr/bin:/bin", "DATABASE_URL": dsn, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def locked(server: str) -> AsyncIterator[Locked]:
    async with make_database(server, "locked") as dsn:
        for name in ("mail-1", "fax"):
            await make_queue(dsn, name)
        keys = await make_keys(dsn)
        async with run_laneway(dsn, SECRET_KEY=SECRET) as running:
            yield Locked(running, dsn, keys)


async def test_without_a_key_only_open_paths_answer(locked: Locked) -> None:
    async with locked.client() as api:
        for path in OPEN:
            assert (await api.get(path)).status_code == 200, path
            assert (await api.get(path + "/")).status_code == 200, path
        for path in ("/queue/config", "/queue/message", f"{locked.server.url}/metrics"):
            answer = await api.get(path)
            assert answer.status_code == 401, path
            assert answer.json() == {
                "error": "Unauthorized",
                "message": "Missing X-API-KEY header",
            }
        for path in (
            "/queue/message/health",
            "/queue/doc",
            "/queue/message?x=/health",
            "/x/health",
        ):
            assert (await api.get(path)).status_code != 200, path
        assert (await api.options("/queue/message")).status_code == 204


async def test_every_route_but_the_open_ones_asks_for_a_key(locked: Locked) -> None:
    """Of every protocol, whatever is sent along: nothing is decoded for one who is not let in."""
    opened = {path for _, path, item in list_routes() if item.role is None}
    assert opened == {f"/api{path}" for path in OPEN} | {
        "/api/reference/scalar.js",
        "/api/queue/events",
        "/health",
        # Its callers sign what they send.
        "/api/v1/webhooks/main",
    }
    async with locked.client() as api, locked.client("wrong") as wrong:
        for method, path, item in list_routes():
            if item.role is None:
                continue
            for client in (api, wrong):
                for variant in (path, path + "/", path.replace("queue", "%71ueue")):
                    place = locked.server.url + variant
                    answer = await client.request(method, place, content=b"{")
                    assert answer.status_code == 401, (method, variant)


async def test_roles_are_those_of_the_router(locked: Locked) -> None:
    """A key of a lesser role gets no further on any route than being told so."""
    order = list(Role)
    for role in order:
        async with locked.client(str(role)) as api:
            for method, path, item in list_routes():
                if item.role is not None and order.index(item.role) > order.index(role):
                    answer = await api.request(method, locked.server.url + path, content=b"{")
                    assert answer.status_code == 403, (role, method, path)


def list_routes() -> list[tuple[str, str, Operation[Any, Any]]]:
    """Return every route but those of SQS, whose requests are signed: they have tests of their own."""
    return [
        (method, re.sub(r"\{[A-Za-z_]+\}", "main", surface.prefix + item.path), item)
        for surface in make_surfaces(ServerSettings())
        if surface.name != "sqs"
        for item in surface.operations
        for method in ((item.method, "HEAD") if item.safe else (item.method,))
    ]


async def test_secret_may_do_everything(locked: Locked) -> None:
    async with locked.client(SECRET) as api:
        await add(api, "fax")
        assert (await api.get(f"{locked.server.url}/metrics")).status_code == 200
    async with locked.server.client(Authorization=f"Bearer {SECRET}") as api:
        assert (await api.get("/queue/config")).status_code == 200


@pytest.mark.parametrize("key", ["wrong", SECRET + "x", SECRET[:-1], "lw_00000000_x", "", "é"])
async def test_wrong_key_is_refused(locked: Locked, key: str) -> None:
    async with locked.server.client() as api:
        answer = await api.get("/queue/config", headers={b"X-API-KEY": key.encode()})
        assert answer.status_code == 401
        expected = "Invalid API key" if key else "Missing X-API-KEY header"
        assert answer.json() == {"error": "Unauthorized", "message": expected}


async def test_key_with_another_secret_is_refused(locked: Locked) -> None:
    key_id = locked.keys["admin"].split("_")[1]
    async with locked.client(f"lw_{key_id}_{'x' * 43}") as api:
        assert (await api.get("/queue/config")).status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "body", "least"),
    [
        ("GET", "/queue/config", None, "read"),
        ("GET", "/../metrics", None, "read"),
        ("POST", "/queue/message", {"type": "a", "payload": 1, "queue": "fax"}, "write"),
        ("POST", "/queue/batch", [{"type": "a", "payload": 1, "queue": "fax"}], "write"),
        ("GET", "/queue/message?queue=mail-1", None, "write"),
        ("GET", "/queue/messages/batch?queue=mail-1&count=1", None, "write"),
        ("POST", "/queue/ack", {"id": NOBODY}, "write"),
        ("POST", "/queue/ack/batch", {"acks": [{"id": NOBODY}]}, "write"),
        ("POST", "/queue/nack/batch", {"nacks": [{"id": NOBODY}]}, "write"),
        ("POST", f"/queue/message/{NOBODY}/nack", {}, "write"),
        ("PUT", f"/queue/message/{NOBODY}/touch", {"lock_token": "x"}, "write"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_each_operation_takes_its_role(
    locked: Locked, method: str, path: str, body: object, least: str
) -> None:
    roles = ["read", "write", "admin"]
    for role in roles:
        async with locked.client(role) as api:
            answer = await api.request(method, path, json=body)
        if roles.index(role) < roles.index(least):
            assert answer.status_code == 403, role
            assert answer.json()["error"] == "Forbidden"
        else:
            assert answer.status_code not in {401, 403}, (role, answer.text)


async def test_limited_key_reaches_its_queues_only(locked: Locked) -> None:
    async with locked.client("admin") as api:
        foreign = await add(api, "fax")
        await dequeue(api, "fax")
    async with locked.client("limited") as api:
        own = await add(api, "mail-1")
        message = await dequeue(api, "mail-1")
        assert message["id"] == own
        touch = {"lock_token": message["lock_token"], "extend_seconds": 9}
        assert (await api.put(f"/queue/message/{own}/touch", json=touch)).status_code == 200
        one = {"type": "a", "payload": 1}
        for method, path, body in (
            ("POST", "/queue/message", one),
            ("POST", "/queue/message", {**one, "queue": "fax"}),
            ("POST", "/queue/batch", [{**one, "queue": "mail-1"}, {**one, "queue": "fax"}]),
            ("GET", "/queue/message", None),
            ("GET", "/queue/message?queue=fax", None),
            ("GET", "/queue/messages/batch?queue=fax&count=1", None),
            ("GET", "/../metrics", None),
        ):
            answer = await api.request(method, path, json=body)
            assert answer.status_code == 403, (method, path, answer.text)
        # Of messages of other queues there is nothing, whether they exist or not.
        both = {"acks": [{"id": foreign}, {"id": own}]}
        answer = await api.post("/queue/ack/batch", json=both)
        assert answer.json()["succeeded"] == [own]
        missing = {"error": "Message not found", "code": "NOT_FOUND"}
        assert answer.json()["failed"] == [{"id": foreign, **missing}]
        assert (await api.post("/queue/ack", json={"id": NOBODY})).status_code == 400


async def test_revoked_key_stops_working(locked: Locked) -> None:
    made = run_command(locked.dsn, "key", "create", "--role", "read", "--name", "short-lived")
    key = made.stdout.strip()
    key_id = key.split("_")[1]
    async with locked.client(key) as api:
        # A new key is known after at most a few seconds, and so is one that is gone.
        await until(api, 200)
        listed = run_command(locked.dsn, "key", "list").stdout
        assert re.search(rf"{key_id}.*short-lived.*read.*all", listed)
        assert key not in listed
        run_command(locked.dsn, "key", "revoke", key_id)
        await until(api, 401)
    assert key_id not in run_command(locked.dsn, "key", "list").stdout
    assert key_id in run_command(locked.dsn, "key", "list", "--revoked").stdout


async def test_key_for_no_queue_is_refused(locked: Locked) -> None:
    made = run_command(locked.dsn, "key", "create", "--role", "read", "--queue", "", code=2)
    assert "--queue is empty" in made.stderr


async def test_new_key_works_at_once(server: str) -> None:
    async with (
        make_database(server, "new_keys") as dsn,
        run_laneway(dsn, "--secret-key", SECRET) as running,
    ):
        async with running.client(**{"X-API-KEY": SECRET}) as api:
            assert (await api.get("/queues")).status_code == 200
        keys = await make_keys(dsn)
        async with running.client(**{"X-API-KEY": keys["read"]}) as api:
            assert (await api.get("/queues")).status_code == 200


async def test_keys_are_kept_as_hashes(locked: Locked) -> None:
    connection = await asyncpg.connect(locked.dsn)
    try:
        rows = await connection.fetch("select k::text from laneway.api_key k")
    finally:
        await connection.close()
    text = "\n".join(row[0] for row in rows)
    for key in locked.keys.values():
        assert key.split("_", 2)[2] not in text


async def until(api: httpx.AsyncClient, status: int) -> None:
    async with asyncio.timeout(20):
        while (await api.get("/queue/config")).status_code != status:
            await asyncio.sleep(0.05)


async def test_key_commands_work_over_a_server(database: str, tmp_path: Path) -> None:
    async with run_laneway(database) as server:

        async def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
            def call() -> subprocess.CompletedProcess[str]:
                return subprocess.run(
                    [LANEWAY, "key", *arguments],
                    cwd=tmp_path,
                    env={"PATH": "/usr/bin:/bin", "SERVER_URL": server.url, **variables},
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )

            return await asyncio.to_thread(call)

        made = await run("create", "--role", "admin")
        key = made.stdout.strip()
        async with server.client(**{"X-API-KEY": key}) as api:
            assert (await api.get("/queues")).status_code == 200
        async with asyncio.timeout(30), server.client() as api:
            # Without a key, until the server has read that one exists.
            while (await api.get("/queues")).status_code == 200:
                await asyncio.sleep(0.05)
        refused = await run("create", "--role", "admin")
        assert (refused.returncode, refused.stdout) == (1, "")
        limited = await run("create", "--role", "admin", "--queue", "mail-*", LANEWAY_API_KEY=key)
        own = limited.stdout.strip()
        assert (await run("create", "--role", "read", LANEWAY_API_KEY=own)).returncode == 1
        listed = await run("list", "--format", "json", LANEWAY_API_KEY=key)
        assert [item["queues"] for item in json.loads(listed.stdout)] == ["all", "mail-*"]
        for text in (key, own):
            assert text not in listed.stdout
            assert digest_key(text.encode()).hex() not in listed.stdout
        key_id = json.loads(listed.stdout)[1]["id"]
        assert (await run("revoke", key_id, LANEWAY_API_KEY=key)).returncode == 0
        assert (await run("revoke", "nobody", LANEWAY_API_KEY=key)).returncode == 3
    assert list(tmp_path.iterdir()) == []
