"""The PostgreSQL server of a run, and a new database with the schema for each comparison."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

import asyncpg

from benchmarks.cpu import find_postmaster
from laneway.embedded import EmbeddedPostgres
from laneway.sql.migrate import install

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from benchmarks.engine.scale import Scale
    from benchmarks.progress import Progress

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

_TEMPLATE = "laneway_benchmark"


@dataclass(frozen=True, slots=True)
class Database:
    """A database for one row. Its connections close with it."""

    dsn: str
    stack: AsyncExitStack

    async def connect(self) -> Connection:
        connection = await asyncpg.connect(self.dsn)
        self.stack.push_async_callback(connection.close, timeout=30)
        return connection


@dataclass(frozen=True, slots=True)
class Site:
    dsn: str
    postgres: str
    postmaster: int
    scale: Scale
    progress: Progress
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @asynccontextmanager
    async def open_database(self) -> AsyncIterator[Database]:
        name = f"{_TEMPLATE}_{next(self.numbers)}"
        await _execute(self.dsn, f"create database {name} template {_TEMPLATE}")
        try:
            async with AsyncExitStack() as stack:
                yield Database(_name_database(self.dsn, name), stack)
        finally:
            await _execute(self.dsn, f"drop database {name} with (force)")


@asynccontextmanager
async def open_site(dsn: str | None, scale: Scale, progress: Progress) -> AsyncIterator[Site]:
    """Use the server at the DSN, or start the bundled PostgreSQL with its default settings."""
    async with AsyncExitStack() as stack:
        if dsn is None:
            dsn = await stack.enter_async_context(_run_server())
        await _execute(dsn, f"drop database if exists {_TEMPLATE} with (force)")
        await _execute(dsn, f"create database {_TEMPLATE}")
        stack.push_async_callback(_execute, dsn, f"drop database {_TEMPLATE} with (force)")
        connection: Connection = await asyncpg.connect(_name_database(dsn, _TEMPLATE))
        try:
            await install(connection)
            postgres = await connection.fetchval("show server_version")
            postmaster = find_postmaster(connection.get_server_pid())
        finally:
            await connection.close()
        yield Site(dsn, postgres, postmaster, scale, progress)


@asynccontextmanager
async def _run_server() -> AsyncIterator[str]:
    with _make_folder() as folder:
        async with EmbeddedPostgres(folder / "data") as server:
            yield server.dsn


@contextmanager
def _make_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="laneway-benchmark-"))
    folder.chmod(0o755)  # the database's account must be able to enter it
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _name_database(dsn: str, name: str) -> str:
    return urlsplit(dsn)._replace(path=f"/{name}").geturl()


async def _execute(dsn: str, statement: str) -> None:
    connection: Connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
