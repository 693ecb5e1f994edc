"""Output of commands: tables and lines for people, or JSON for programs."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from laneway.domain.escapes import escape, escape_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

_WIDE = 10_000

# Numbers that are names, which are written without thousands separators.
_NAMES = {"pid", "version"}

_ERRORS = {"error", "reason"}

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="Output format.")]


class Output:
    """Prints results to stdout, flushed when a method returns.

    Control characters in tables and lines are escaped; JSON has its own escapes.
    """

    def __init__(self, chosen: Format) -> None:
        self.format = chosen

    @property
    def is_json(self) -> bool:
        return self.format is Format.JSON

    def rows(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Print a list: JSON with all fields, or a table of the given columns."""
        if self.is_json:
            self.json([_plain(row) for row in rows])
            return
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
        for column in columns:
            right = any(isinstance(row.get(column), int | float) for row in rows)
            # Long values are wrapped, except the name or id in the first column.
            table.add_column(
                column.replace("_", " "),
                justify="right" if right else "left",
                overflow="fold",
                no_wrap=column == columns[0],
            )
        for row in rows:
            # As Text, so that message contents are not read as markup.
            table.add_row(*(Text(_write(column, _shorten(column, row))) for column in columns))
        _print(table)

    def one(self, row: Mapping[str, Any]) -> None:
        if self.is_json:
            self.json(_plain(row))
            return
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, show_header=False)
        for name, value in row.items():
            text = (
                escape(str(value), lines=True) if value and name in _ERRORS else _write(name, value)
            )
            table.add_row(name.replace("_", " "), Text(text))
        _print(table)

    def done(self, *lines: str, **facts: Any) -> None:
        """Print the outcome of a command: the lines, or the facts as a JSON object."""
        if self.is_json:
            self.json(_plain(facts))
        else:
            self.lines(*lines)

    def lines(self, *lines: str) -> None:
        sys.stdout.write("".join(f"{escape(line)}\n" for line in lines))
        sys.stdout.flush()

    def json(self, value: Any) -> None:
        sys.stdout.write(escape_json(_encode(value).decode()) + "\n")
        sys.stdout.flush()


def count(number: int, noun: str) -> str:
    """Return the number with the noun, in the plural unless the number is one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _print(table: Table) -> None:
    from rich.console import Console

    # Lines for a pipe are not wrapped.
    Console(width=None if sys.stdout.isatty() else _WIDE).print(table)
    sys.stdout.flush()


def _shorten(column: str, row: Mapping[str, Any]) -> Any:
    """Return a cell of a list: of an error, the line before its traceback."""
    value = row.get(column)
    return str(value).partition("\n")[0] if value and column in _ERRORS else value


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in row.items()
    }


def _write(name: str, value: Any) -> str:  # noqa: PLR0911 - one for each type of value
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:,.2f}"
        case int():
            return str(value) if name in _NAMES else f"{value:,}"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case timedelta():
            return f"{value.total_seconds():,.1f} s"
        case list():
            return escape(", ".join(map(str, value)))
        case dict():
            return escape(", ".join(f"{key}: {item}" for key, item in value.items()))
        case _:
            return escape(str(value))
