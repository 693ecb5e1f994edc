"""Errors of the bundled PostgreSQL.

LanewayError
└── EmbeddedError              give up: an operator must look
    ├── DataDirectoryInUse     another program runs a database on the directory
    ├── DataDirectoryUnusable  the directory cannot be written, or another PostgreSQL made it
    ├── NoAccount              root needs an unprivileged account to run PostgreSQL as
    ├── NoBinaries             the bundled PostgreSQL is not installed
    └── ServerFailed           initdb or postgres ended with an error
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import LanewayError

if TYPE_CHECKING:
    from pathlib import Path


class EmbeddedError(LanewayError):
    """The bundled PostgreSQL cannot run."""


class DataDirectoryInUse(EmbeddedError):
    def __init__(self, directory: Path, holder: int | None) -> None:
        who = f"process {holder}" if holder is not None else "another process"
        super().__init__(
            f"the data directory {directory} is in use by {who}. Stop that program, "
            "choose another data directory, or connect to its database (`laneway url` prints it)"
        )
        self.directory = directory
        self.holder = holder


class DataDirectoryUnusable(EmbeddedError):
    def __init__(self, directory: Path, reason: str) -> None:
        super().__init__(f"the data directory {directory} is unusable: {reason}")
        self.directory = directory


class NoAccount(EmbeddedError):
    def __init__(self, tried: tuple[str, ...]) -> None:
        super().__init__(
            "PostgreSQL refuses to run as root and none of the accounts "
            f"{', '.join(tried)} exists. Add one with `useradd --system {tried[0]}`, "
            "or run Laneway as an ordinary user"
        )


class NoBinaries(EmbeddedError):
    def __init__(self, place: str) -> None:
        super().__init__(
            f"no PostgreSQL programs found in {place}. Install Laneway with its dependencies, "
            "or set DATABASE_URL to a PostgreSQL server"
        )


class ServerFailed(EmbeddedError):
    def __init__(self, what: str, log: str) -> None:
        super().__init__(f"{what}; the end of its log:\n{log}")
