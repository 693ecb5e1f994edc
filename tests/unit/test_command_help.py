"""The help of every command says what the command works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command

from laneway.cli.flags import ON_DATABASE, ON_EITHER, ON_NEITHER
from laneway.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Iterator


ON_DATABASE_ONLY = {"demo", "lake offload", "lake replay", "lake run", "url"}
ALONE = {"config", "gateway target add", "gateway target list", "lake report", "lake sql"}


def walk(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    nested = getattr(command, "commands", None)
    if nested is None:
        yield path, command
        return
    for name, item in nested.items():
        yield from walk(item, f"{path} {name}".strip())


COMMANDS = dict(walk(get_command(app)))


@pytest.mark.parametrize("path", COMMANDS)
def test_help_says_whether_the_command_works_over_a_server(path: str) -> None:
    command = COMMANDS[path]
    said = command.help or ""
    options = {name for parameter in command.params for name in parameter.opts}
    if path == "serve":
        assert "Works directly on a database" in said
    elif path in ALONE:
        assert ON_NEITHER in said
    elif path in ON_DATABASE_ONLY or path.startswith("gateway "):
        assert ON_DATABASE in said
        assert "--database-url" in options
        assert "--url" not in options
    else:
        assert ON_EITHER in said
        assert {"--url", "--api-key", "--database-url", "--data-dir"} <= options
