"""The database a command works on: the one it was pointed at, or the embedded one."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from laneway.cli.errors import DatabaseNotReady, DatabaseUnreachable
from laneway.domain.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import asyncpg

    from laneway.cli.environment import Environment
    from laneway.domain.settings import ConnectionSettings

# How long a command waits for a server that another program starts or stops.
PATIENCE = timedelta(seconds=20)
_LOOK = timedelta(milliseconds=50)
# Longer than any migration takes.
_LONG = timedelta(days=1)


@asynccontextmanager
async def open_database(
    environment: Environment, data_dir: Path, *, shared: bool = True
) -> AsyncIterator[str]:
    """Yield a DSN; an embedded server that no program runs yet is started, and stopped after.

    shared: one that another program runs will do, though it ends with that program.
    """
    from laneway.embedded import EmbeddedPostgres

    async with AsyncExitStack() as stack:
        if environment.database_url is not None:
            yield environment.database_url
        elif shared:
            yield await _share(data_dir, stack)
        else:
            yield (await stack.enter_async_context(EmbeddedPostgres(data_dir))).dsn


def find_database(environment: Environment, data_dir: Path) -> str | None:
    """Return the DSN of the database given, or of the embedded one where it runs."""
    from laneway.embedded import find_running

    return environment.database_url or find_running(data_dir)


@asynccontextmanager
async def open_connection(
    dsn: str, connections: ConnectionSettings
) -> AsyncIterator[asyncpg.Connection]:
    """Yield a connection, past a pooler where the settings say how; its calls may take long.

    What the database refuses is told in our own terms.
    """
    import asyncpg

    from laneway.engine import pool
    from laneway.engine.sqlstates import translate

    patient = replace(connections, connect_timeout=PATIENCE, call_timeout=_LONG)
    direct = connections.direct_dsn is not None
    try:
        connection = await pool.open_connection(dsn, patient, direct=direct)
    except Unavailable as error:
        if isinstance(error.__cause__, OSError):
            place = connections.direct_dsn or dsn
            raise DatabaseUnreachable(place, error.__cause__) from error
        raise
    try:
        yield connection
    except asyncpg.PostgresError as error:
        raise translate(error) from error
    finally:
        await connection.close()


async def _share(data_dir: Path, stack: AsyncExitStack) -> str:
    """Return the DSN of the server that runs there, or of one that stops with the stack.

    Another program may have the directory and be about to start its server, or to stop it.
    """
    from laneway.embedded import EmbeddedPostgres, find_running
    from laneway.embedded.errors import DataDirectoryInUse

    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE.total_seconds()
    while True:
        running = find_running(data_dir)
        if running is not None:
            return running
        try:
            return (await stack.enter_async_context(EmbeddedPostgres(data_dir))).dsn
        except DataDirectoryInUse as error:
            if loop.time() >= end:
                raise DatabaseNotReady(error.directory, error.holder) from error
        await asyncio.sleep(_LOOK.total_seconds())
