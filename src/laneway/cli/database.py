"""The database a command works on: the one it was pointed at, or the embedded one."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from laneway.cli.errors import DatabaseUnreachable, SettingInvalid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import asyncpg

    from laneway.cli.environment import Environment


@asynccontextmanager
async def open_database(
    environment: Environment, data_dir: Path, *, shared: bool = True
) -> AsyncIterator[str]:
    """Yield a DSN; an embedded server that no program runs yet is started, and stopped after.

    shared: one that another program runs will do, though it ends with that program.
    """
    from laneway.embedded import EmbeddedPostgres

    running = find_database(environment, data_dir) if shared else environment.database_url
    if running is not None:
        yield running
        return
    async with EmbeddedPostgres(data_dir) as server:
        yield server.dsn


def find_database(environment: Environment, data_dir: Path) -> str | None:
    """Return the DSN of the database given, or of the embedded one where it runs."""
    from laneway.embedded import find_running

    return environment.database_url or find_running(data_dir)


@asynccontextmanager
async def open_connection(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """Yield a connection; what the database refuses is told in our own terms."""
    import asyncpg

    from laneway.engine.sqlstates import translate

    try:
        connection = await asyncpg.connect(dsn)
    except OSError as error:
        raise DatabaseUnreachable(dsn, error) from error
    except ValueError as error:
        raise SettingInvalid("the database's URL", f"cannot be used: {error}") from error
    except asyncpg.PostgresError as error:
        raise translate(error) from error
    try:
        yield connection
    except asyncpg.PostgresError as error:
        raise translate(error) from error
    finally:
        await connection.close()
