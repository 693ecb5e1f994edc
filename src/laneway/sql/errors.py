"""What can stop the schema from being installed.

LanewayError
└── SchemaError             give up: a person has to look
    ├── SchemaTooNew        the database was installed by a newer Laneway
    ├── SchemaTampered      an applied migration is not the one this Laneway ships
    ├── PackageBroken       the files this Laneway ships contradict one another
    └── ServerTooOld        the PostgreSQL server is older than the oldest supported
"""

from __future__ import annotations

from laneway.domain.errors import LanewayError


class SchemaError(LanewayError):
    """The schema cannot be installed; nothing was changed."""


class SchemaTooNew(SchemaError):
    def __init__(self, installed: int, shipped: int) -> None:
        super().__init__(
            f"the database is at schema version {installed} but this Laneway knows only "
            f"{shipped}: upgrade this Laneway, or point it at another database"
        )


class SchemaTampered(SchemaError):
    pass


class PackageBroken(SchemaError):
    pass


class ServerTooOld(SchemaError):
    def __init__(self, version: str, oldest: int) -> None:
        super().__init__(
            f"the server runs PostgreSQL {version} but Laneway needs {oldest} or newer: "
            "upgrade the server, or point Laneway at another one"
        )
