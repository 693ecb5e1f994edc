"""The calls by which processes on one database notify each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.call import fetch_value
from laneway.engine.sqlstates import translate

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.engine.procedures.call import Connection


async def listen(connection: Connection, channel: str, hear: Callable[[str], None]) -> None:
    """Call `hear` with each payload for as long as the connection lives."""

    def callback(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        hear(str(payload))

    try:
        await connection.add_listener(channel, callback)
    except Exception as error:
        raise translate(error) from error


async def commit_asynchronously(connection: Connection) -> None:
    """Let notifications go out without waiting for the disk: they announce durable data."""
    await fetch_value(
        connection, "select pg_catalog.set_config('synchronous_commit', 'off', false)"
    )


async def notify(connection: Connection, channel: str, payload: str) -> None:
    await fetch_value(connection, "select pg_catalog.pg_notify($1, $2)", channel, payload)


async def is_only_one(connection: Connection, name: str) -> bool:
    """Return whether this session is the only one with its name on the database."""
    alone: bool = await fetch_value(
        connection,
        "select count(*) = 1 and bool_and(pid = pg_catalog.pg_backend_pid())"
        " from pg_catalog.pg_stat_activity where datname = pg_catalog.current_database()"
        " and pg_catalog.starts_with(application_name, $1)",
        name,
    )
    return alone
