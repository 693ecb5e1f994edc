"""Gives a command a flag for every setting."""

from __future__ import annotations

import functools
import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from laneway.cli.execution import reporting
from laneway.cli.settings import SETTINGS, read_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.cli.settings import Settings

_CONFIG = "config"


def with_settings(command: Callable[[Settings], None]) -> Callable[..., None]:
    """Call the command with the settings that flags, environment and file make together."""

    @functools.wraps(command)
    def wrapper(**flags: Any) -> None:
        file = flags.pop(_CONFIG)
        with reporting():
            settings = read_settings(flags, os.environ, file)
        command(settings)

    parameters = [
        inspect.Parameter(
            _CONFIG,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                Path | None, typer.Option(help="A file of settings.  [default: laneway.toml]")
            ],
        )
    ]
    for setting in SETTINGS:
        default = "" if setting.default is None else f"  [default: {setting.default}]"
        names = [setting.flag, setting.short] if setting.short else []
        option = typer.Option(*names, help=f"{setting.meaning}{default}", show_default=False)
        parameters.append(
            inspect.Parameter(
                setting.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[setting.kind | None, option],
            )
        )
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {item.name: item.annotation for item in parameters}
    del wrapper.__wrapped__
    return wrapper
