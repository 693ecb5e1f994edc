"""The settings file, laneway.toml: settings by name, and tables for the parts that need more.

It is read and checked as a whole, so that a misspelt key is an error of every command.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

from laneway.cli.errors import SettingInvalid, explain
from laneway.cli.known_settings import CLIENT_SETTINGS, SETTINGS
from laneway.cli.known_tables import TABLES, TYPES
from laneway.domain.dsn import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from laneway.cli.known_tables import Key, Table

DEFAULT_FILE = Path("laneway.toml")

_SETTINGS = {item.name for item in (*SETTINGS, *CLIENT_SETTINGS)}
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file whose keys are known, and whose tables have values of the right types.

    The path of a table or key is the names that lead to it: "detectors", "load".
    """

    path: Path = DEFAULT_FILE
    text: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[Table, ...] = TABLES

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that the file has. Their values are not checked."""
        return {name: value for name, value in self.values.items() if name in _SETTINGS}

    def get_table(self, *path: str) -> Mapping[str, Any]:
        """Return what the file has in a table; empty without the table."""
        found: Any = self.values
        for name in path:
            found = found.get(name, {})
        table: Mapping[str, Any] = found
        return table

    def refuse(self, *path: str, problem: str) -> SettingInvalid:
        """Return the error of a key or table, for its owner to raise."""
        return SettingInvalid(f"{_write(path)} in {self._find_place(path)}", problem)

    def list_keys(self) -> Iterator[tuple[str, Any, str]]:
        """Yield each key of the tables: its path, its value with secrets hidden, and its source."""
        for table in self.tables:
            for path in _expand(self.values, table.parts):
                given = self.get_table(*path)
                for key in table.keys:
                    name = _write((*path, key.name))
                    value = given.get(key.name, key.default)
                    shown = HIDDEN if key.secret and value is not None else value
                    yield name, shown, f"{name} in {self.path}" if key.name in given else "default"

    def check(self) -> None:
        """Raise SettingInvalid for an unknown key, or a value of a wrong type in a table."""
        self._check_table(self.values, ())

    def _check_table(self, values: Mapping[str, Any], path: tuple[str, ...]) -> None:
        tables = [table for table in self.tables if _leads(path, table)]
        keys = {
            key.name: key for table in tables for key in table.keys if len(table.parts) == len(path)
        }
        below = {table.parts[len(path)] for table in tables if len(table.parts) > len(path)}
        for name, value in values.items():
            if not path and name in _SETTINGS:
                continue
            if name in keys:
                self._check_value(keys[name], value, (*path, name))
            elif name in below or "*" in below:
                if not isinstance(value, dict):
                    raise self.refuse(*path, name, problem="is not a table")
                self._check_table(value, (*path, name))
            else:
                known = [*keys, *sorted(below)] if path else [*sorted(_SETTINGS), *sorted(below)]
                raise self._refuse_name((*path, name), known)

    def _check_value(self, key: Key, value: Any, path: Sequence[str]) -> None:
        if not _has_type(value, key.type):
            shown = HIDDEN if key.secret else repr(value)
            raise self.refuse(*path, problem=f"is {shown}: set {TYPES[key.type]}")

    def _refuse_name(self, path: Sequence[str], known: Sequence[str]) -> SettingInvalid:
        *table, name = path
        near = get_close_matches(name, known, n=1)
        if near:
            advice = f'did you mean "{near[0]}"?'
        elif table:
            advice = f"the keys of this table are {', '.join(known)}"
        else:
            advice = "`laneway config` lists the settings"
        place = self._find_place(path)
        if table:
            return SettingInvalid(
                f"{place}, table [{_write(table)}],", f'contains the unknown key "{name}": {advice}'
            )
        return SettingInvalid(place, f'contains the unknown setting "{name}": {advice}')

    def _find_place(self, path: Sequence[str]) -> str:
        line = _find_line(self.text, path)
        return str(self.path) if line is None else f"line {line} of {self.path}"


def read_file(file: Path | None, tables: tuple[Table, ...] = TABLES) -> SettingsFile:
    """Read and check a settings file. One that is named must exist, the default one need not."""
    path = file or DEFAULT_FILE
    if file is None and not path.exists():
        return SettingsFile(tables=tables)
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise SettingInvalid(str(path), f"cannot be read: {explain(error)}") from error
    read = SettingsFile(path, text, values, tables)
    read.check()
    return read


def _leads(path: Sequence[str], table: Table) -> bool:
    """Return whether a path is that of the table, or of one that it is in."""
    parts = table.parts[: len(path)]
    return len(parts) == len(path) and all(
        part in ("*", name) for part, name in zip(parts, path, strict=True)
    )


def _expand(values: Mapping[str, Any], parts: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the paths of the tables of this form: one for each name in the place of a *."""
    if not parts:
        return [()]
    names = values if parts[0] == "*" else [parts[0]]
    return [(name, *path) for name in names for path in _expand(values.get(name, {}), parts[1:])]


def _has_type(value: Any, wanted: Any) -> bool:
    if wanted is float:
        return type(value) is int or (type(value) is float and isfinite(value))
    if get_origin(wanted) is None:
        return type(value) is wanted
    if type(value) is not get_origin(wanted):
        return False
    items = value.values() if isinstance(value, dict) else value
    return all(type(item) is get_args(wanted)[-1] for item in items)


def _write(path: Sequence[str]) -> str:
    return ".".join(name if _BARE.fullmatch(name) else json.dumps(name) for name in path)


def _find_line(text: str, path: Sequence[str]) -> int | None:
    """Return the line where the statement begins that sets a path: tomllib does not tell."""
    lines = text.split("\n")
    start = 1
    for count in range(1, len(lines) + 1):
        try:
            found: Any = tomllib.loads("\n".join(lines[:count]))
        except ValueError:
            continue  # within a value of several lines
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        if found is not None:
            return start
        start = count + 1
    return None
