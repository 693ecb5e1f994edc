"""Connections for commands: to the server or the database that the settings name."""

from __future__ import annotations

import functools
import logging
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from laneway.cli.database import open_database
from laneway.cli.errors import DatabaseUnreachable
from laneway.cli.execution import execute
from laneway.cli.flags import (
    ON_EITHER,
    list_options,
    list_own,
    make_parameter,
    sign,
    take_settings,
)
from laneway.cli.known_settings import CLIENT_SETTINGS
from laneway.cli.output import Format, FormatOption, Output
from laneway.domain.errors import AccessDenied, QueueExists, QueueNotFound, Unavailable
from laneway.domain.settings import EngineSettings, MaintenanceSettings
from laneway.library.connection import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from laneway.cli.settings import Settings
    from laneway.library.connection import Connection

# Commands do no maintenance: they end soon, and servers and workers do it.
BRIEF = EngineSettings(maintenance=MaintenanceSettings(enabled=False))


# In which databases a command installs the schema before it starts.
Install: TypeAlias = Literal["any", "bundled", "none"]


@dataclass(frozen=True, slots=True)
class ChosenQueue:
    """The queue that a command acts on. is_default: no flag names it."""

    name: str
    is_default: bool

    async def ensure(self, connection: Connection) -> None:
        """Create the default queue if it is missing and the API key allows it."""
        if not self.is_default:
            return
        try:
            await connection.admin.get_queue(self.name)
        except QueueNotFound:
            with suppress(QueueExists, AccessDenied):
                await connection.admin.create_queue(self.name)


def with_connection(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Call the command with a connection and an output, whose flags are added to the command's own.

    In the bundled database, the schema is installed first.
    """
    return _with_connection(command, install="bundled")


def with_queue(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Like `with_connection`, with the queue of --queue, else of the settings, as third argument."""
    return _with_connection(command, install="bundled", queue=True)


def with_installed_connection(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Like `with_connection`, but the schema is installed first in any database."""
    return _with_connection(command, install="any")


def with_bare_connection(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Like `with_connection`, but without installing the schema, for commands about the schema."""
    return _with_connection(command, install="none")


def _with_connection(
    command: Callable[..., Awaitable[None]], *, install: Install, queue: bool = False
) -> Callable[..., None]:
    @functools.wraps(command)
    def wrapper(**flags: Any) -> None:
        # The command itself prints errors, so they are not logged too.
        logging.getLogger("laneway").addHandler(logging.NullHandler())
        output = Output(flags.pop("format_"))
        settings = take_settings(flags, CLIENT_SETTINGS)
        chosen = (_choose_queue(settings),) if queue else ()

        async def run() -> None:
            async with _open_connection(settings, install) as connection:
                await command(connection, output, *chosen, **flags)

        execute(run())

    given = 3 if queue else 2
    shown = ("queue_name",) if queue else ()
    own = [*list_own(command, given), make_parameter("format_", FormatOption, Format.TABLE)]
    return sign(wrapper, [*own, *list_options(CLIENT_SETTINGS, *shown)], note=ON_EITHER)


def _choose_queue(settings: Settings) -> ChosenQueue:
    chosen = settings.chosen["queue_name"]
    return ChosenQueue(settings["queue_name"], is_default=chosen.source != "flag")


@asynccontextmanager
async def _open_connection(settings: Settings, install: Install) -> AsyncIterator[Connection]:
    url = settings.server_url
    if url is not None:
        connections = replace(BRIEF.connections, size=settings["postgres_pool_size"])
        brief = replace(BRIEF, connections=connections)
        async with connect(url, api_key=settings["api_key"], settings=brief) as connection:
            yield connection
        return
    environment = settings.environment
    bundled = environment.database_url is None
    brief = replace(
        BRIEF,
        connections=settings.connections,
        priority_levels=settings["max_priority_levels"],
    )
    async with open_database(environment, settings.data_dir) as dsn:
        try:
            async with connect(dsn, settings=brief) as connection:
                if install == "any" or (install == "bundled" and bundled):
                    await connection.install()
                yield connection
        except Unavailable as error:
            if isinstance(error.__cause__, OSError):
                from laneway.engine.sqlstates import find_remedy

                raise DatabaseUnreachable(dsn, find_remedy(error.__cause__)) from error
            raise
