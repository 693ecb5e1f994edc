"""The tables of the settings file: their keys, and the types of the values.

A part of Laneway that is configured by a table adds it here. What the keys mean together, the part
checks itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# The types that a key can have, and how errors name them.
TYPES = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list[str]: "a list of strings",
    list[int]: "a list of whole numbers",
    dict[str, str]: "a table of strings",
}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a table.

    type: one of TYPES. default: its value where the file does not have it, as `config` shows it.
    """

    name: str
    type: Any
    default: Any = None
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table. path: its name in the file, "detectors"; * in it is a name that the user chooses."""

    path: str
    keys: tuple[Key, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.split("."))


TABLES = (
    Table(
        "detectors",
        (
            Key("load", list[str], []),
            Key("enable", list[str], []),
            Key("disable", list[str], []),
            Key("time_limit_seconds", float, 5.0),
        ),
    ),
)
