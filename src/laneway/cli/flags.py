"""Flags for settings, added to a command's own arguments and options."""

from __future__ import annotations

import functools
import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from laneway.cli.execution import reporting
from laneway.cli.settings import DATABASE_SETTINGS, SETTINGS, read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from laneway.cli.settings import Setting, Settings

_FILE = Annotated[Path | None, typer.Option(help="Settings file.  [default: laneway.toml]")]

# The settings with a flag on every command. The others are read from the environment and the file.
_SHOWN = {"server_url", "api_key", "database_url", "data_dir"}


def with_settings(command: Callable[[Settings], None]) -> Callable[..., None]:
    """Call the command with all settings, and add a flag for each."""

    @functools.wraps(command)
    def wrapper(**flags: Any) -> None:
        command(take_settings(flags, SETTINGS))

    shown = [_make_option(setting, default=setting.default) for setting in SETTINGS]
    return sign(wrapper, [_CONFIG, *shown])


def with_database(command: Callable[..., None]) -> Callable[..., None]:
    """Call the command with the database's settings and its own options, and add their flags."""

    @functools.wraps(command)
    def wrapper(**flags: Any) -> None:
        command(take_settings(flags, DATABASE_SETTINGS), **flags)

    return sign(wrapper, [*list_own(command, 1), *list_options(DATABASE_SETTINGS)])


def list_own(command: Callable[..., Any], given: int) -> list[inspect.Parameter]:
    """Return the command's own arguments and options, without the first `given` parameters."""
    hints = get_type_hints(command, include_extras=True)
    own = list(inspect.signature(command).parameters.values())[given:]
    return [parameter.replace(annotation=hints[parameter.name]) for parameter in own]


def list_options(settings: Iterable[Setting]) -> list[inspect.Parameter]:
    """Return the options for the settings file and for the settings that every command shows."""
    return [_CONFIG, *(_make_option(item) for item in settings if item.name in _SHOWN)]


def take_settings(flags: dict[str, Any], wanted: Sequence[Setting]) -> Settings:
    """Remove the settings' flags from `flags`, and read the settings from all sources."""
    file = flags.pop(_CONFIG.name)
    given: Mapping[str, Any] = {item.name: flags.pop(item.name, None) for item in wanted}
    with reporting():
        return read_settings(given, os.environ, file, wanted=wanted)


def sign(
    wrapper: Callable[..., None], parameters: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """Make Typer see these parameters instead of those of the wrapped function."""
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {item.name: item.annotation for item in parameters}
    del wrapper.__wrapped__  # type: ignore[attr-defined]
    return wrapper


def make_parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _make_option(setting: Setting, default: Any = None) -> inspect.Parameter:
    names = [setting.flag, setting.short] if setting.short else []
    shown = "" if default is None else f"  [default: {default}]"
    option = typer.Option(*names, help=f"{setting.meaning}{shown}", show_default=False)
    return make_parameter(setting.name, Annotated[setting.kind | None, option])


_CONFIG = make_parameter("config", _FILE)
