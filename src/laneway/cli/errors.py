"""What can be wrong with how the command was called.

Retryable
├── DatabaseNotReady        retry: another program has the data directory, and no server runs on it
└── DatabaseUnreachable     retry, or fix the address: no server answers there
LanewayError
├── EnvironmentInvalid      fix the request: an environment variable cannot be understood
├── SettingInvalid          fix the request: a flag, variable or line of the file cannot be
│   └── FlagInvalid         a flag cannot be, or two contradict each other
└── AddressUnusable         fix the request: the server cannot listen there
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.dsn import name_place
from laneway.domain.errors import LanewayError, Retryable

if TYPE_CHECKING:
    from pathlib import Path


class DatabaseNotReady(Retryable):
    def __init__(self, directory: Path, holder: int | None) -> None:
        who = "another process" if holder is None else f"process {holder}"
        super().__init__(
            f"{who} has the data directory {directory}, and its database is not ready: try again"
        )


class DatabaseUnreachable(Retryable):
    def __init__(self, dsn: str, reason: Exception) -> None:
        super().__init__(f"no PostgreSQL server answers at {name_place(dsn)}: {reason}")


class EnvironmentInvalid(LanewayError):
    def __init__(self, variable: str, problem: str) -> None:
        super().__init__(f"the environment variable {variable} {problem}")


class SettingInvalid(LanewayError):
    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where} {problem}")
        self.where = where
        self.problem = problem


class FlagInvalid(SettingInvalid):
    pass


class AddressUnusable(LanewayError):
    pass
