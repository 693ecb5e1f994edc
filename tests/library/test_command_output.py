"""Output of the `laneway` command: complete, escaped, and never lost silently."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import laneway
from tests.library.conftest import QUIET
from tests.library.terminal import LANEWAY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.library.conftest import Place
    from tests.library.shell import Shell

# Sets the title of a terminal, in the spellings with one and two bytes, and turns text around.
EVIL = "\x1b]0;pwned\x07\x9b31m\u202e\r"
SHOWN = r"\x1b]0;pwned\x07\x9b31m\u202e\r"


@pytest.fixture
def closed() -> Iterator[int]:
    """Return a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def test_messages_are_settled_once_they_are_printed(local: Shell, queue: str, closed: int) -> None:
    local.run("enqueue", "[1]", "--queue", queue, "--messages", "3")
    take = ("dequeue", "--queue", queue, "--ack", "--timeout", "0")
    for form in ("table", "json"):
        with Path("/dev/full").open("w") as full:
            lost = local.run(*take, "--format", form, output=full)
        words = "laneway: cannot write the output: No space left on device\n"
        assert (lost.returncode, lost.stderr) == (1, words)
        gone = local.run(*take, "--format", form, output=closed)
        assert (gone.returncode, gone.stderr) == (141, "")
    # They were released, and no attempt counts.
    taken = local.json(*take)
    assert [item["attempt"] for item in taken] == [1, 1, 1]
    assert local.json("queue", "metrics", queue)["acknowledged"] == 3


async def test_leases_that_expire_while_printing_are_reported(
    place: Place, local: Shell, queue: str
) -> None:
    async with laneway.connect(place.dsn, settings=QUIET) as lane:
        await lane.producer(queue).enqueue("x" * 500_000)
        slow = subprocess.Popen(
            [LANEWAY, "dequeue", "--queue", queue, "--ack", "--ack-timeout", "0.1"],
            cwd=local.folder,
            env={"PATH": "/usr/bin:/bin", **local.variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with slow:
            assert slow.stdout is not None
            # It has begun to print, and cannot go on before the rest is read.
            assert slow.stdout.read(1)
            message = await lane.consumer(queue).dequeue(wait=timedelta(seconds=30))
            assert message is not None
            assert message.attempt == 2
            _, said = slow.communicate(timeout=60)
    assert slow.returncode == 1
    assert said.startswith(b"laneway: 1 of 1 message not acked, because the lease had expired")


def test_output_that_cannot_be_written_is_no_traceback(local: Shell, closed: int) -> None:
    for arguments in (
        ["--help"],
        ["config"],
        ["admin", "install"],
        ["top", "--looks", "1"],
    ):
        with Path("/dev/full").open("w") as full:
            lost = local.run(*arguments, output=full)
        words = "laneway: cannot write the output: No space left on device\n"
        assert (lost.returncode, lost.stderr) == (1, words)
    for arguments in (["config"], ["queue", "list"]):
        gone = local.run(*arguments, output=closed)
        assert (gone.returncode, gone.stderr) == (141, "")


def test_closed_output_is_no_traceback(local: Shell) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"{LANEWAY} queue list >&-"],
        cwd=local.folder,
        env={"PATH": "/usr/bin:/bin", **local.variables},
        capture_output=True,
        text=True,
        check=False,
    )
    words = "laneway: cannot write the output: Bad file descriptor\n"
    assert (done.returncode, done.stderr) == (1, words)


async def test_control_characters_of_messages_are_escaped(
    place: Place, local: Shell, queue: str
) -> None:
    evil_queue = f"{queue}{EVIL}"
    async with laneway.connect(place.dsn, settings=QUIET) as lane:
        await lane.admin.create_queue(evil_queue)
        await lane.start(EVIL, queue=queue, run_id=f"{queue}{EVIL}")
        with local.terminal("tail", queue) as tail:
            tail.expect("following")
            await lane.producer(queue).enqueue({"text": EVIL}, partition=EVIL)
            await lane.producer(queue).enqueue({"text": EVIL}, partition=EVIL)
            consumer = lane.consumer(queue, name=EVIL, partition=EVIL)
            message = await consumer.dequeue()
            assert message is not None
            await consumer.fail(message, f"{EVIL}\n00:00:00 forged line")
            tail.expect(f"by {SHOWN}")
            tail.expect(f"{SHOWN}\\n00:00:00 forged line")
            _assert_harmless(tail.raw)
        for arguments in (
            ("queue", "list"),
            ("queue", "messages", queue),
            ("queue", "get", evil_queue),
            ("workflow", "list"),
            ("workflow", "get", f"{queue}{EVIL}"),
            ("queue", "get", EVIL),
            ("dequeue", "--queue", queue, "--count", "5", "--timeout", "0"),
        ):
            with local.terminal(*arguments) as shown:
                shown.wait()
                assert SHOWN in "".join(shown.text.split()), shown.text
                _assert_harmless(shown.raw)
        with local.terminal("top", "--updates", "1") as top:
            top.wait()
            _assert_harmless(top.raw)
        listed = local.run("queue", "list", "--format", "json").stdout
        _assert_harmless(listed)
        assert evil_queue in [item["queue"] for item in json.loads(listed)]
        await lane.admin.delete_queue(evil_queue)


def test_payloads_of_a_table_are_json(local: Shell, queue: str) -> None:
    local.run("enqueue", "-", "--queue", queue, given='{"a": "[b]", "n": null}\n"x"\n[true]\n')
    shown = local.run("dequeue", "--queue", queue).stdout
    for wanted in ('{"a":"[b]","n":null}', '"x"', "[true]"):
        assert wanted in shown


def test_version_is_printed(local: Shell) -> None:
    done = local.run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    name, _, number = done.stdout.strip().partition(" ")
    assert name == "laneway"
    assert number[0].isdigit()


def test_help_names_only_existing_commands(local: Shell) -> None:
    assert "below" not in local.run("queue", "list", "--help").stdout


def _assert_harmless(raw: str) -> None:
    for order in ("\x1b]", "\x07", "\x9b", "\u202e", "\x1b[31mred"):
        assert order not in raw
