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
    Table(
        "gateway",
        (
            Key("private_networks", list[str], []),
            Key("retention_days", float, 30.0),
            Key("idempotency_hours", float, 24.0),
            Key("concurrency", int, 10),
            Key("shutdown_seconds", float, 120.0),
        ),
    ),
    Table(
        "gateway.targets.*",
        (
            Key("kind", str, "http"),
            Key("url", str),
            Key("urls", list[str]),
            Key("method", str, "POST"),
            Key("headers", dict[str, str], {}, secret=True),
            Key("timeout_seconds", float, 30.0),
            Key("redelivery", str, "at-most-once"),
            Key("permanent_statuses", list[int], []),
            Key("permanent_texts", list[str], []),
            Key("attempts", int, 3),
            Key("retry_first_seconds", float, 1.0),
            Key("retry_factor", float, 2.0),
            Key("retry_cap_seconds", float, 60.0),
            Key("concurrency", int),
            Key("rate", float),
            Key("breaker_failures", int, 5),
            Key("breaker_seconds", float, 30.0),
            Key("private_networks", list[str], []),
            Key("webhook_secrets", list[str], [], secret=True),
            Key("callback_url", str),
            Key("callback_allowed", list[str], []),
            Key("callback_secrets", list[str], [], secret=True),
            Key("options", dict[str, str], {}, secret=True),
            Key("statuses", dict[str, str], {}),
        ),
    ),
)
