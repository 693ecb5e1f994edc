"""Commands whose database dies under them end, or go on, without asyncio's own reports."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio

from laneway.cli.database import open_connection
from laneway.domain.errors import Retryable
from laneway.domain.settings import ConnectionSettings
from laneway.embedded import EmbeddedPostgres
from tests.postgres import execute, find_binaries, open_directory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

LANEWAY = Path(sys.executable).with_name("laneway")
REPORTS = re.compile(
    r"Traceback|Fatal error|never retrieved|never awaited|Exception in|was destroyed|Unclosed"
)

APP = """
import laneway
app = laneway.App()

@app.handler("mail")
async def send(message):
    pass
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_directory() as made:
        (made / "jobs.py").write_text(APP)
        yield made


@pytest_asyncio.fixture
async def postgres(folder: Path) -> AsyncIterator[EmbeddedPostgres]:
    """Run a server of its own, because it is killed."""
    async with EmbeddedPostgres(folder / "data", binaries=find_binaries()) as server:
        yield server


class Command:
    """A running command, whose sessions are those of a user of its name."""

    def __init__(self, process: asyncio.subprocess.Process, name: str, log: Path) -> None:
        self.process = process
        self.name = name
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text()


async def start(folder: Path, dsn: str, line: str) -> Command:
    name = line.split(maxsplit=1)[0]
    log = folder / f"{name}.log"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            LANEWAY,
            *line.split(),
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "DATABASE_URL": dsn},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=file,
        )
    return Command(process, name, log)


async def end(command: Command) -> None:
    if command.process.returncode is None:
        command.process.kill()
        await command.process.wait()


async def wait_for_sessions(dsn: str, names: set[str]) -> None:
    """Return once users of these names have sessions that have done something."""
    while not names <= await list_sessions(dsn):
        await asyncio.sleep(0.05)


async def list_sessions(dsn: str) -> set[str]:
    """Return the users of the sessions; none while the server starts."""
    try:
        connection = await asyncpg.connect(dsn)
    except (OSError, asyncpg.PostgresError):
        return set()
    try:
        rows = await connection.fetch(
            "select usename from pg_stat_activity where usename is not null and query_start is not null"
        )
        return {row["usename"] for row in rows}
    finally:
        await connection.close()


async def test_killed_database_is_reported_in_one_line_at_most(
    folder: Path, postgres: EmbeddedPostgres
) -> None:
    lines = {
        "serve --port 0",
        "worker run jobs:app --log-level error",
        "tail mail",
        "top",
        "dequeue --queue mail --timeout 300",
        "benchmark --duration 300",
    }
    async with asyncio.timeout(110), AsyncExitStack() as stack:
        for line in ("admin install", "queue create mail"):
            prepared = await start(folder, postgres.dsn, line)
            assert await prepared.process.wait() == 0, prepared.log
        commands = {}
        for line in lines:
            user = line.split(maxsplit=1)[0]
            await execute(postgres.dsn, f"create role {user} login superuser")
            dsn = urlsplit(postgres.dsn)._replace(netloc=f"{user}@").geturl()
            command = await start(folder, dsn, line)
            stack.push_async_callback(end, command)
            commands[command.name] = command
        await wait_for_sessions(postgres.dsn, set(commands))
        while "listens on" not in commands["serve"].log:
            await asyncio.sleep(0.05)
        os.kill(postgres.pid, signal.SIGKILL)
        # These go on once the server is started again; the others may, or end at once.
        await wait_for_sessions(postgres.dsn, {"serve", "worker"})
        for name, command in commands.items():
            if command.process.returncode is None:
                command.process.terminate()
            accepted = {0} if name in ("serve", "worker") else {5, 143}
            assert await command.process.wait() in accepted, command.log
    for command in commands.values():
        assert REPORTS.findall(command.log) == []
        if command.name not in ("serve", "worker"):
            assert len(command.log.splitlines()) <= 1


async def test_connection_lost_in_a_transaction_is_the_database_unreachable(database: str) -> None:
    async def lose() -> None:
        async with open_connection(database, ConnectionSettings()) as connection:
            pid = connection.get_server_pid()
            async with connection.transaction():
                await execute(database, f"select pg_terminate_backend({pid}, 10000)")
                await connection.execute("select 1")

    with pytest.raises(Retryable):
        await lose()
