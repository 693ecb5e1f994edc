"""Gives a command a connection: to a server by URL, or to the database the settings lead to."""

from __future__ import annotations

import functools
import inspect
import os
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from laneway.cli.database import open_database
from laneway.cli.execution import execute, reporting
from laneway.cli.output import Format, Output
from laneway.cli.settings import CLIENT_SETTINGS, read_settings
from laneway.domain.settings import EngineSettings, MaintenanceSettings
from laneway.library.connection import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from laneway.cli.settings import Settings
    from laneway.library.connection import Connection

# A command is over soon: what has to be done all the time is left to servers and workers.
_BRIEF = EngineSettings(maintenance=MaintenanceSettings(enabled=False))

_FORMAT = Annotated[Format, typer.Option("--format", help="How results are printed.")]
_CONFIG = Annotated[Path | None, typer.Option(help="A file of settings.  [default: laneway.toml]")]
_SHOWN = {"server_url", "api_key", "database_url", "data_dir"}


def with_lane(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Call the command with a connection and an output, made from flags that are added to its own.

    The command's first two arguments are these; what follows are its own arguments and options.
    """

    @functools.wraps(command)
    def wrapper(**flags: Any) -> None:
        output = Output(flags.pop("format_"))
        file = flags.pop("config")
        given = {item.name: flags.pop(item.name, None) for item in CLIENT_SETTINGS}
        with reporting():
            settings = read_settings(given, os.environ, file, wanted=CLIENT_SETTINGS)

        async def run() -> None:
            async with open_lane(settings) as lane:
                await command(lane, output, **flags)

        execute(run())

    hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints[parameter.name])
        for parameter in list(inspect.signature(command).parameters.values())[2:]
    ]
    parameters = [*own, _make("format_", _FORMAT, Format.TABLE), _make("config", _CONFIG)]
    for setting in CLIENT_SETTINGS:
        if setting.name in _SHOWN:
            names = [setting.flag, setting.short] if setting.short else [setting.flag]
            option = typer.Option(*names, help=setting.meaning, show_default=False)
            parameters.append(_make(setting.name, Annotated[setting.kind | None, option]))
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {item.name: item.annotation for item in parameters}
    del wrapper.__wrapped__
    return wrapper


@asynccontextmanager
async def open_lane(settings: Settings) -> AsyncIterator[Connection]:
    connections = replace(_BRIEF.connections, size=settings["postgres_pool_size"])
    brief = replace(_BRIEF, connections=connections)
    url = settings["server_url"]
    if url is not None:
        async with connect(url, api_key=settings["api_key"], settings=brief) as lane:
            yield lane
        return
    environment = settings.environment
    async with (
        open_database(environment, settings.data_dir) as dsn,
        connect(dsn, settings=brief) as lane,
    ):
        if environment.database_url is None:
            # The database that comes along is ready to use as it is.
            await lane.install()
        yield lane


def _make(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
