"""Errors of the command line.

Retryable
├── DatabaseNotReady        retry: another program uses the data directory, without a running server
└── DatabaseUnreachable     retry, or fix the address: no server answers there
LanewayError
├── DatabaseMissing         configure a database or server, or change the directory
├── ServerUnsupported       configure a database: the command cannot use a server
├── SettingInvalid          fix the call: a flag, variable or line of the settings file is invalid
│   └── FlagInvalid         a flag is invalid, or two contradict each other
└── AddressUnusable         fix the call: the server cannot listen on the address
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.dsn import name_place
from laneway.domain.errors import LanewayError, Retryable

if TYPE_CHECKING:
    from pathlib import Path


def explain(error: OSError | ValueError) -> str:
    """Return why a file cannot be read, without its path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


class DatabaseNotReady(Retryable):
    def __init__(self, directory: Path, holder: int | None) -> None:
        who = "another process" if holder is None else f"process {holder}"
        super().__init__(
            f"database in {directory} is not ready, and {who} uses the directory: try again"
        )


class DatabaseUnreachable(Retryable):
    def __init__(self, dsn: str, remedy: str) -> None:
        super().__init__(f"PostgreSQL server at {name_place(dsn)} unreachable: {remedy}")


class DatabaseMissing(LanewayError):
    def __init__(self, directory: Path) -> None:
        super().__init__(
            f"no database: none is configured, and there is no bundled PostgreSQL in {directory.absolute()}. Set"
            " SERVER_URL or DATABASE_URL, change to the directory of `laneway serve`, or start it here"
            " with: laneway serve"
        )


class ServerUnsupported(LanewayError):
    def __init__(self, where: str) -> None:
        super().__init__(
            f"this command works on a database only, and {where} configures a server. Configure its"
            " database with --database-url instead"
        )


class SettingInvalid(LanewayError):
    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where} {problem}")
        self.where = where
        self.problem = problem


class FlagInvalid(SettingInvalid):
    pass


class AddressUnusable(LanewayError):
    pass
