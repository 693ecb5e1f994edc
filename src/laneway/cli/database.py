"""The database a command works on: the one it was pointed at, or the embedded one."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from laneway.cli.errors import DatabaseUnreachable, SettingInvalid
from laneway.embedded import EmbeddedPostgres, find_running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from laneway.cli.environment import Environment


@asynccontextmanager
async def open_database(environment: Environment, data_dir: Path) -> AsyncIterator[str]:
    """Yield a DSN; an embedded server that no program runs yet is started, and stopped after."""
    running = environment.database_url or find_running(data_dir)
    if running is not None:
        yield running
        return
    async with EmbeddedPostgres(data_dir) as server:
        yield server.dsn


@asynccontextmanager
async def open_connection(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    try:
        connection = await asyncpg.connect(dsn)
    except OSError as error:
        raise DatabaseUnreachable(dsn, error) from error
    except ValueError as error:
        raise SettingInvalid("the database's URL", f"cannot be used: {error}") from error
    try:
        yield connection
    finally:
        await connection.close()
