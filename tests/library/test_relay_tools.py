"""The tools of Relay, with the options that its README prints."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from tests.library.shell import Shell
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from pathlib import Path

KEY = "GR+pRF8Utzqkd9IF4lzkdEZ0nEPQ4IyyXRZaskpGEWg="
TYPES = {"email_send", "image_process", "data_sync", "notification", "backup"}


def test_generated_messages_have_random_types_and_priorities(shell: Shell, queue: str) -> None:
    pushed = shell.json("enqueue", "--queue", queue, "--messages", "300", "--batch-size", "100")
    assert pushed["pushed"] == 300
    found = shell.json("dequeue", "--queue", queue, "--count", "300", "--timeout", "0", "--ack")
    assert {item["partition"] for item in found} == TYPES
    assert {item["priority"] for item in found} == set(range(10))
    shell.json("enqueue", "--queue", queue, "--messages", "20", "--type", "one", "--priority", "3")
    found = shell.json("dequeue", "--queue", queue, "--count", "20", "--timeout", "0", "--ack")
    assert {(item["partition"], item["priority"]) for item in found} == {("one", 3)}


def test_more_than_ten_thousand_messages_are_dequeued(shell: Shell, queue: str) -> None:
    shell.json("enqueue", "1", "--queue", queue, "--messages", "12000", "--batch-size", "6000")
    taken = ("dequeue", "--queue", queue, "--timeout", "0", "--ack-timeout", "600", "--ack")
    found = shell.json(*taken, "--count", "11000")
    assert len({item["id"] for item in found}) == 11_000
    assert len(shell.json(*taken, "--count", "11000")) == 1000
    assert shell.json("queue", "metrics", queue)["acknowledged"] == 12_000


async def test_key_is_given_by_flag_or_variable(database: str, tmp_path: Path) -> None:
    async with run_laneway(database, SECRET_KEY=KEY) as server:
        shell = Shell(server.url, tmp_path)
        sample = ("enqueue", "--messages", "10", "--batch-size", "1")
        refused = await asyncio.to_thread(shell.run, *sample)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "API key" in refused.stderr
        done = await asyncio.to_thread(shell.run, *sample, "--api-key", KEY)
        assert done.stdout == "10 messages enqueued to default\n", done.stderr
        shell.variables["SECRET_KEY"] = KEY
        found = await asyncio.to_thread(
            shell.json, "dequeue", "--count", "10", "--ack", "--consumer", "my-worker"
        )
        assert len(found) == 10


@pytest.mark.parametrize(
    ("variables", "name"),
    [({}, "default"), ({"QUEUE_NAME": "jobs"}, "jobs"), ({"LANEWAY_QUEUE_NAME": "jobs"}, "jobs")],
)
async def test_missing_default_queue_is_created(
    database: str, tmp_path: Path, variables: dict[str, str], name: str
) -> None:
    shell = Shell(database, tmp_path)
    shell.variables |= variables
    empty = await asyncio.to_thread(shell.run, "dequeue", "--timeout", "0")
    assert empty.returncode == 6, empty.stderr
    pushed = await asyncio.to_thread(shell.run, "enqueue", "1", "--format", "json")
    assert json.loads(pushed.stdout)["queue"] == name
    # Only the default queue: a wrong name is an error.
    missing = await asyncio.to_thread(shell.run, "enqueue", "1", "--queue", "mial")
    assert missing.returncode == 3
    assert [item["queue"] for item in await asyncio.to_thread(shell.json, "queue", "list")] == [
        name
    ]
