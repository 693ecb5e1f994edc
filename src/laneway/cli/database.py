"""The database of a command: the configured one, or the bundled PostgreSQL."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from laneway.cli.errors import DatabaseMissing, DatabaseNotReady, DatabaseUnreachable
from laneway.domain.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import asyncpg

    from laneway.cli.database_url import Environment
    from laneway.domain.settings import ConnectionSettings

# How long a command waits for a PostgreSQL server that another program is starting or stopping.
PATIENCE = timedelta(seconds=20)
_LOOK = timedelta(milliseconds=50)
# Longer than any migration takes.
_LONG = timedelta(days=1)


@asynccontextmanager
async def open_database(
    environment: Environment, data_dir: Path, *, shared: bool = True, create: bool = False
) -> AsyncIterator[str]:
    """Yield a DSN. The bundled server is started if it is not running, and stopped afterwards.

    shared: use a bundled server that another program runs, although it ends with that program.
    Otherwise, or with `create`, the database is created if there is none.
    """
    from laneway.embedded import EmbeddedPostgres

    async with AsyncExitStack() as stack:
        if environment.database_url is not None:
            yield environment.database_url
        elif shared:
            yield await _share(data_dir, stack, create=create)
        else:
            yield (await stack.enter_async_context(EmbeddedPostgres(data_dir))).dsn


def find_database(environment: Environment, data_dir: Path) -> str | None:
    """Return the DSN of the configured database, or of the bundled one if it is running."""
    from laneway.embedded import find_running

    return environment.database_url or find_running(data_dir)


@asynccontextmanager
async def open_connection(
    dsn: str, connections: ConnectionSettings
) -> AsyncIterator[asyncpg.Connection]:
    """Yield a connection with long timeouts; it bypasses the pooler if a direct DSN is configured.

    Errors of the database are raised as Laneway's errors.
    """
    import asyncpg

    from laneway.engine import pool
    from laneway.engine.sqlstates import find_remedy, translate

    patient = replace(connections, connect_timeout=PATIENCE, call_timeout=_LONG)
    direct = connections.direct_dsn is not None
    try:
        connection = await pool.open_connection(dsn, patient, direct=direct)
    except Unavailable as error:
        if isinstance(error.__cause__, OSError):
            place = connections.direct_dsn or dsn
            raise DatabaseUnreachable(place, find_remedy(error.__cause__)) from error
        raise
    try:
        yield connection
    except (asyncpg.PostgresError, asyncpg.InterfaceError, ConnectionError) as error:
        raise translate(error) from error
    finally:
        await connection.close()


async def _share(data_dir: Path, stack: AsyncExitStack, *, create: bool) -> str:
    """Return the DSN of the running bundled server, or start one that stops with the stack.

    Waits while another program that uses the directory is starting or stopping its server.
    """
    from laneway.embedded import EmbeddedPostgres, find_running, has_database
    from laneway.embedded.errors import DataDirectoryInUse

    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE.total_seconds()
    while True:
        running = find_running(data_dir)
        if running is not None:
            return running
        if not (create or has_database(data_dir)):
            raise DatabaseMissing(data_dir)
        try:
            return (await stack.enter_async_context(EmbeddedPostgres(data_dir))).dsn
        except DataDirectoryInUse as error:
            if loop.time() >= end:
                raise DatabaseNotReady(error.directory, error.holder) from error
        await asyncio.sleep(_LOOK.total_seconds())
