"""Flags for settings, added to a command's own arguments and options."""

from __future__ import annotations

import functools
import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from laneway.cli.errors import ServerUnsupported
from laneway.cli.execution import reporting
from laneway.cli.known_settings import CLIENT_SETTINGS, DATABASE_SETTINGS
from laneway.cli.settings_sources import list_former, list_mistyped, read_dotenv, read_settings
from laneway.cli.stdio import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from laneway.cli.known_settings import Setting
    from laneway.cli.settings import Settings

_FILE = Annotated[Path | None, typer.Option(help="Settings file.  [default: laneway.toml]")]

# The settings with a flag on every command. The others are read from the environment and the file.
_SHOWN = {"server_url", "api_key", "database_url", "data_dir"}


# What a command works on, as its help says.
ON_EITHER = "Works on a server (--url) or directly on a database (--database-url)."
ON_DATABASE = "Works directly on a database, not over a server."
ON_NEITHER = "Uses no server and no database."


def with_settings(
    settings: Sequence[Setting], note: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call the command with these settings and its own options, and add a flag for each setting.

    note: what the command works on.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapper(**flags: Any) -> None:
            command(take_settings(flags, settings), **flags)

        shown = [_make_option(setting, default=setting.default) for setting in settings]
        return sign(wrapper, [*list_own(command, 1), _CONFIG, *shown], note=note)

    return decorate


def with_database(command: Callable[..., None]) -> Callable[..., None]:
    """Call the command with the database's settings and its own options, and add their flags.

    It is refused if a server is configured, because it would work on another database.
    """

    @functools.wraps(command)
    def wrapper(**flags: Any) -> None:
        settings = take_settings(flags, CLIENT_SETTINGS)
        with reporting():
            if settings.server_url is not None:
                raise ServerUnsupported(settings.chosen["server_url"].where)
        command(settings, **flags)

    own = [*list_own(command, 1), *list_options(DATABASE_SETTINGS)]
    return sign(wrapper, own, note=ON_DATABASE)


def with_client(command: Callable[..., None]) -> Callable[..., None]:
    """Call the command with the settings of a server or database, and its own options."""

    @functools.wraps(command)
    def wrapper(**flags: Any) -> None:
        command(take_settings(flags, CLIENT_SETTINGS), **flags)

    own = [*list_own(command, 1), *list_options(CLIENT_SETTINGS)]
    return sign(wrapper, own, note=ON_EITHER)


def with_nothing(command: Callable[..., None]) -> Callable[..., None]:
    """Say in the command's help that it uses no server and no database."""
    command.__doc__ = _add_note(command, ON_NEITHER)
    return command


def list_own(command: Callable[..., Any], given: int) -> list[inspect.Parameter]:
    """Return the command's own arguments and options, without the first `given` parameters."""
    hints = get_type_hints(command, include_extras=True)
    own = list(inspect.signature(command).parameters.values())[given:]
    return [parameter.replace(annotation=hints[parameter.name]) for parameter in own]


def list_options(settings: Iterable[Setting], *also: str) -> list[inspect.Parameter]:
    """Return the options for the settings file, and for the settings that all commands show, or `also`."""
    shown = _SHOWN | set(also)
    return [_CONFIG, *(_make_option(item) for item in settings if item.name in shown)]


def take_settings(flags: dict[str, Any], wanted: Sequence[Setting]) -> Settings:
    """Remove the settings' flags from `flags`, and read the settings from all sources."""
    file = flags.pop(_CONFIG.name)
    given: Mapping[str, Any] = {item.name: flags.pop(item.name, None) for item in wanted}
    with reporting():
        dotenv = read_dotenv()
        settings = read_settings(given, os.environ, file, dotenv=dotenv, wanted=wanted)
    warnings = (*list_former(settings, os.environ), *list_mistyped({**dotenv, **os.environ}))
    for warning in warnings:
        tell(f"laneway: {warning}")
    return settings


def sign(
    wrapper: Callable[..., None], parameters: Sequence[inspect.Parameter], *, note: str
) -> Callable[..., None]:
    """Make Typer see these parameters instead of those of the wrapped function, and the note."""
    wrapper.__doc__ = _add_note(wrapper, note)
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {item.name: item.annotation for item in parameters}
    del wrapper.__wrapped__  # type: ignore[attr-defined]
    return wrapper


def make_parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _add_note(command: Callable[..., None], note: str) -> str:
    return f"{inspect.getdoc(command)}\n\n{note}"


def _make_option(setting: Setting, default: Any = None) -> inspect.Parameter:
    names = [setting.flag, setting.short] if setting.short else []
    shown = "" if default is None else f"  [default: {default}]"
    option = typer.Option(*names, help=f"{setting.meaning}{shown}", show_default=False)
    return make_parameter(setting.name, Annotated[setting.kind | None, option])


_CONFIG = make_parameter("config", _FILE)
