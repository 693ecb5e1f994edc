"""The calls by which processes on one database tell each other what changed."""

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


async def wait_for_no_disk(connection: Connection) -> None:
    """Have the session's notifications go out at once: what they tell of is on disk already."""
    await fetch_value(
        connection, "select pg_catalog.set_config('synchronous_commit', 'off', false)"
    )


async def notify(connection: Connection, channel: str, payload: str) -> None:
    await fetch_value(connection, "select pg_catalog.pg_notify($1, $2)", channel, payload)


async def is_only_one(connection: Connection, name: str) -> bool:
    """Tell whether this session, and no other, is seen under its name on the database."""
    alone: bool = await fetch_value(
        connection,
        "select count(*) = 1 and bool_and(pid = pg_catalog.pg_backend_pid())"
        " from pg_catalog.pg_stat_activity where datname = pg_catalog.current_database()"
        " and pg_catalog.starts_with(application_name, $1)",
        name,
    )
    return alone
