"""Gives a command flags for settings, beside its own arguments and options."""

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

_FILE = Annotated[Path | None, typer.Option(help="A file of settings.  [default: laneway.toml]")]

# Those of the database that are worth a flag with every command; the others are read all the same.
_SHOWN = {"server_url", "api_key", "database_url", "data_dir"}


def with_settings(command: Callable[[Settings], None]) -> Callable[..., None]:
    """Call the command with every setting, each of which is a flag."""

    @functools.wraps(command)
    def wrapper(**flags: Any) -> None:
        command(take_settings(flags, SETTINGS))

    shown = [_make_option(setting, default=setting.default) for setting in SETTINGS]
    return sign(wrapper, [_CONFIG, *shown])


def with_database(command: Callable[..., None]) -> Callable[..., None]:
    """Call the command with the settings of the database, and what it has of its own."""

    @functools.wraps(command)
    def wrapper(**flags: Any) -> None:
        command(take_settings(flags, DATABASE_SETTINGS), **flags)

    return sign(wrapper, [*list_own(command, 1), *list_options(DATABASE_SETTINGS)])


def list_own(command: Callable[..., Any], given: int) -> list[inspect.Parameter]:
    """Return the command's own arguments and options, after the first so many."""
    hints = get_type_hints(command, include_extras=True)
    own = list(inspect.signature(command).parameters.values())[given:]
    return [parameter.replace(annotation=hints[parameter.name]) for parameter in own]


def list_options(settings: Iterable[Setting]) -> list[inspect.Parameter]:
    """Return a file of settings, and those of the settings that are worth a flag everywhere."""
    return [_CONFIG, *(_make_option(item) for item in settings if item.name in _SHOWN)]


def take_settings(flags: dict[str, Any], wanted: Sequence[Setting]) -> Settings:
    """Take from the flags those of settings, and return what they make with the other sources."""
    file = flags.pop(_CONFIG.name)
    given: Mapping[str, Any] = {item.name: flags.pop(item.name, None) for item in wanted}
    with reporting():
        return read_settings(given, os.environ, file, wanted=wanted)


def sign(
    wrapper: Callable[..., None], parameters: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """Have Typer see these parameters, and not those of what is wrapped."""
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
    told = "" if default is None else f"  [default: {default}]"
    option = typer.Option(*names, help=f"{setting.meaning}{told}", show_default=False)
    return make_parameter(setting.name, Annotated[setting.kind | None, option])


_CONFIG = make_parameter("config", _FILE)
