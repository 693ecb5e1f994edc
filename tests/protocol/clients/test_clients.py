"""Clients in different languages exchange messages over plain HTTP and JSON."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.postgres import make_database
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator

    from tests.protocol.servers import RunningServer

HERE = Path(__file__).parent
SECRET = "GR+pRF8Utzqkd9IF4lzkdEZ0nEPQ4IyyXRZaskpGEWg="  # noqa: S105 - what is tested
VIDEO = {"file": "movie.mp4", "quality": "1080p"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running(server: str) -> AsyncIterator[RunningServer]:
    async with (
        make_database(server, "clients") as dsn,
        run_laneway(dsn, SECRET_KEY=SECRET) as running,
    ):
        yield running


@pytest.fixture
async def locked(running: RunningServer) -> RunningServer:
    """Return a server that wants a key and holds no messages."""
    async with running.client(**{"X-API-KEY": SECRET}) as api:
        assert (await api.delete("/queue/clear")).status_code == 200
    return running


@pytest.fixture
def node() -> str:
    found = shutil.which(os.environ.get("LANEWAY_NODE", "node"))
    if found is None:
        pytest.fail("Node.js is not on this machine: run tests/install/node")
    return found


async def test_node_produces_and_python_consumes(locked: RunningServer, node: str) -> None:
    async with start(locked, sys.executable, HERE / "worker.py") as worker:
        answer = await run_node(locked, node, "produce.mjs")
        assert answer["status"] == 201
        assert answer["body"]["message"] == "Message added successfully"
        assert answer["body"]["queue"] == "default"
        assert await read_line(worker) == "Processing: movie.mp4"
        assert await read_line(worker) == "Processed: 1080p"
        assert await read_line(worker) == "Acknowledged"
    await expect_settled(locked, answer["body"]["id"])


async def test_node_produces_and_go_consumes(
    locked: RunningServer, node: str, tmp_path: Path
) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("there is no Go on this machine")
    program = tmp_path / "worker"
    build = await asyncio.create_subprocess_exec(
        go, "build", "-o", program, HERE / "worker.go", env={**os.environ, "CGO_ENABLED": "0"}
    )
    assert await build.wait() == 0
    async with start(locked, program) as worker:
        answer = await run_node(locked, node, "produce.mjs")
        assert await read_line(worker) == "movie.mp4"
        assert await read_line(worker) == "acknowledged"
    await expect_settled(locked, answer["body"]["id"])


async def test_node_uses_every_operation_of_a_message(locked: RunningServer, node: str) -> None:
    told = await run_node(locked, node, "lifecycle.mjs")
    statuses = {step: answer["status"] for step, answer in told.items()}
    assert statuses == {
        "added": 201,
        "taken": 200,
        "touched": 200,
        "nacked": 200,
        "waiting": 200,
        "late": 400,
        "batch": 200,
        "acked": 200,
        "nothing": 404,
    }
    assert told["added"]["body"]["message"] == "Batch processed: 3/3 messages enqueued"
    assert told["taken"]["body"]["payload"] == {"n": 3}
    assert told["touched"]["body"]["lock_token"] == told["taken"]["body"]["lock_token"]
    assert [message["last_error"] for message in told["waiting"]["body"]["messages"]] == ["no"]
    messages = told["batch"]["body"]["messages"]
    assert [message["payload"]["n"] for message in messages] == [3, 2, 1]
    assert [message["attempt_count"] for message in messages] == [2, 1, 1]
    assert sorted(told["acked"]["body"]["succeeded"]) == sorted(told["added"]["body"]["ids"])
    assert told["acked"]["body"]["failed"] == []
    assert told["nothing"]["body"] == {"message": "Message not found"}


async def test_node_follows_live_updates(locked: RunningServer, node: str) -> None:
    async with start(locked, node, HERE / "events.mjs") as watcher:
        assert await read_line(watcher) == "listening"
        answer = await run_node(locked, node, "produce.mjs")
        update = json.loads(await read_line(watcher))
    assert update["queue"] == "default"
    assert update["payload"]["ids"] == [answer["body"]["id"]]


async def test_shell_adds_takes_and_acknowledges_with_curl(database: str) -> None:
    async with run_laneway(database) as server:
        added = await run_curl(
            server,
            """curl -X POST http://localhost:3001/api/queue/message \\
              -H "Content-Type: application/json" \\
              -d '{
                "type": "email_send",
                "payload": {
                  "to": "user@example.com",
                  "subject": "Welcome!"
                },
                "priority": 0
              }'""",
        )
        assert added["message"] == "Message added successfully"
        message = await run_curl(
            server, 'curl "http://localhost:3001/api/queue/message?timeout=30"'
        )
        assert message["id"] == added["id"]
        assert message["payload"] == {"to": "user@example.com", "subject": "Welcome!"}
        acked = await run_curl(
            server,
            """curl -X POST http://localhost:3001/api/queue/ack \\
              -H "Content-Type: application/json" \\
              -d '{
                "id": "message-id-here",
                "lock_token": "lock-token-here"
              }'""".replace("message-id-here", message["id"]).replace(
                "lock-token-here", message["lock_token"]
            ),
        )
        assert acked == {"message": "Message acknowledged"}


async def test_client_without_a_key_is_refused(locked: RunningServer, node: str) -> None:
    answer = await run_node(locked, node, "produce.mjs", key="")
    assert answer["status"] == 401
    assert answer["body"]["error"] == "Unauthorized"


@asynccontextmanager
async def start(
    server: RunningServer, program: str | Path, *arguments: Path, key: str = SECRET
) -> AsyncIterator[Process]:
    """Run a client until the block is left."""
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        env={**os.environ, "API_URL": f"{server.url}/api/queue", "SECRET_KEY": key},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        # Reads the rest too, so that nothing is left open.
        await process.communicate()


async def read_line(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        return (await process.stdout.readline()).decode().rstrip("\n")


async def run_node(
    server: RunningServer, node: str, script: str, *, key: str = SECRET
) -> dict[str, Any]:
    async with start(server, node, HERE / script, key=key) as process:
        answer: dict[str, Any] = json.loads(await read_line(process))
        return answer


async def run_curl(server: RunningServer, command: str) -> dict[str, Any]:
    command = command.replace("http://localhost:3001", server.url)
    process = await asyncio.create_subprocess_shell(
        command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    assert process.returncode == 0
    answer: dict[str, Any] = json.loads(output)
    return answer


async def expect_settled(server: RunningServer, message_id: str) -> None:
    async with server.client(**{"X-API-KEY": SECRET}) as api:
        answer = await api.get("/queue/acknowledged/messages", params={"queueName": "default"})
        assert [message["id"] for message in answer.json()["messages"]] == [message_id]
