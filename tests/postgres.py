"""The PostgreSQL servers that the tests run on."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

import asyncpg

from laneway.embedded import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

Connect: TypeAlias = Callable[[], Awaitable["asyncpg.Connection[asyncpg.Record]"]]

# The database of each server that has the schema in it and nothing else.
TEMPLATE = "laneway_template"

_DISK = Path("/tmp")  # noqa: S108 - each directory in it is made by mkdtemp
_MEMORY = Path("/dev/shm")  # noqa: S108 - see _DISK
# What one server may come to: its log of changes, and the databases of the tests under way.
_ROOM = 2 * 1024**3

# Speed over durability; a test of durability starts a server of its own without these.
THROWAWAY = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "512MB",
    "shared_buffers": "256MB",
    "autovacuum_naptime": "1min",
}


def find_binaries() -> Path | None:
    """Return the programs of the PostgreSQL that LANEWAY_TEST_POSTGRES names, None for the bundled 18."""
    match os.environ.get("LANEWAY_TEST_POSTGRES", "18"):
        case "18":
            return None
        case "15" | "16" | "17" as version:
            debian = f"/usr/lib/postgresql/{version}/bin"
            return Path(os.environ.get(f"LANEWAY_POSTGRES_{version}_BIN", debian))
        case other:
            raise ValueError(f"LANEWAY_TEST_POSTGRES is {other!r}: set it to 15, 16, 17 or 18")


@contextmanager
def open_directory(parent: Path = _DISK) -> Iterator[Path]:
    """Make a directory that the database's account may enter; pytest's own are closed to it."""
    folder = Path(tempfile.mkdtemp(prefix="laneway-test-", dir=parent))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@asynccontextmanager
async def run_server() -> AsyncIterator[EmbeddedPostgres]:
    """Run a throwaway server, in memory where there is room: a clone is hundreds of files."""
    with open_directory(_choose_throwaway_parent()) as folder:
        async with EmbeddedPostgres(
            folder / "data", settings=THROWAWAY, binaries=find_binaries()
        ) as server:
            yield server


@asynccontextmanager
async def make_database(server: str, name: str, template: str = TEMPLATE) -> AsyncIterator[str]:
    """Yield the DSN of a database with the schema in it, dropped at the end."""
    await execute(server, f"create database {name} template {template} strategy file_copy")
    try:
        yield name_database(server, name)
    finally:
        await execute(server, f"drop database {name} with (force)")


def name_database(dsn: str, name: str) -> str:
    """Return the DSN of another database on the same server."""
    return urlsplit(dsn)._replace(path=f"/{name}").geturl()


async def execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _choose_throwaway_parent() -> Path:
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM:
        return _MEMORY
    return _DISK
