"""Connections for commands: to the server or the database that the settings name."""

from __future__ import annotations

import functools
import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from laneway.cli.database import open_database
from laneway.cli.errors import DatabaseUnreachable
from laneway.cli.execution import execute
from laneway.cli.flags import list_options, list_own, make_parameter, sign, take_settings
from laneway.cli.output import Format, Output
from laneway.cli.settings import CLIENT_SETTINGS
from laneway.domain.errors import Unavailable
from laneway.domain.settings import EngineSettings, MaintenanceSettings
from laneway.library.connection import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from laneway.cli.settings import Settings
    from laneway.library.connection import Connection

# Commands do no maintenance: they end soon, and servers and workers do it.
_BRIEF = EngineSettings(maintenance=MaintenanceSettings(enabled=False))

_FORMAT = Annotated[Format, typer.Option("--format", help="Output format.")]


def with_lane(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Call the command with a connection and an output, whose flags are added to the command's own.

    In the bundled database, the schema is installed first.
    """
    return _with_lane(command, ready=True)


def with_raw_lane(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Like `with_lane`, but without installing the schema, for commands about the schema."""
    return _with_lane(command, ready=False)


def _with_lane(command: Callable[..., Awaitable[None]], *, ready: bool) -> Callable[..., None]:
    @functools.wraps(command)
    def wrapper(**flags: Any) -> None:
        # The command itself prints errors, so they are not logged too.
        logging.getLogger("laneway").addHandler(logging.NullHandler())
        output = Output(flags.pop("format_"))
        settings = take_settings(flags, CLIENT_SETTINGS)

        async def run() -> None:
            async with _open_lane(settings, ready=ready) as lane:
                await command(lane, output, **flags)

        execute(run())

    own = [*list_own(command, 2), make_parameter("format_", _FORMAT, Format.TABLE)]
    return sign(wrapper, [*own, *list_options(CLIENT_SETTINGS)])


@asynccontextmanager
async def _open_lane(settings: Settings, *, ready: bool) -> AsyncIterator[Connection]:
    url = settings.server_url
    if url is not None:
        connections = replace(_BRIEF.connections, size=settings["postgres_pool_size"])
        brief = replace(_BRIEF, connections=connections)
        async with connect(url, api_key=settings["api_key"], settings=brief) as lane:
            yield lane
        return
    environment = settings.environment
    brief = replace(_BRIEF, connections=settings.connections)
    async with open_database(environment, settings.data_dir) as dsn:
        try:
            async with connect(dsn, settings=brief) as lane:
                if ready and environment.database_url is None:
                    await lane.install()
                yield lane
        except Unavailable as error:
            if isinstance(error.__cause__, OSError):
                raise DatabaseUnreachable(dsn, error.__cause__) from error
            raise
