"""Errors of installing the schema.

Retryable
└── ServerInRecovery        retry: a standby, or a failover under way
LanewayError
└── SchemaError             give up: an operator must look
    ├── SchemaTooNew        the database was installed by a newer Laneway
    ├── SchemaTampered      an applied migration is not the one this Laneway ships
    ├── PackageBroken       the files this Laneway ships contradict one another
    ├── ServerTooOld        the PostgreSQL server is older than the oldest supported
    ├── ServerReadOnly      transactions are read-only by a setting
    └── TimeLimitTooShort   a setting ends statements or transactions too soon
"""

from __future__ import annotations

from laneway.domain.errors import LanewayError, Retryable


class SchemaError(LanewayError):
    """The schema cannot be installed; nothing was changed."""


class SchemaTooNew(SchemaError):
    def __init__(self, installed: int, shipped: int) -> None:
        super().__init__(
            f"the database is at schema version {installed} but this version of Laneway knows only "
            f"{shipped}. Upgrade Laneway, or connect to another database"
        )


class SchemaTampered(SchemaError):
    pass


class PackageBroken(SchemaError):
    pass


class ServerTooOld(SchemaError):
    def __init__(self, version: str, oldest: int) -> None:
        super().__init__(
            f"the server runs PostgreSQL {version} but Laneway needs {oldest} or newer. "
            "Upgrade the server, or connect to another one"
        )


class ServerReadOnly(SchemaError):
    """change: the SQL that removes the setting, if known."""

    def __init__(self, place: str, change: str | None) -> None:
        super().__init__(
            f"default_transaction_read_only is on {place}, and Laneway has to write: "
            f"{_advise(change, 'set it to off there')}"
        )


class TimeLimitTooShort(SchemaError):
    def __init__(self, name: str, value: str, place: str, change: str | None) -> None:
        super().__init__(
            f"{name} is {value} {place}, and Laneway's calls may take longer: "
            f"{_advise(change, 'set it to 0 or to 30s there')}"
        )


class ServerInRecovery(Retryable):
    def __init__(self) -> None:
        super().__init__(
            "the PostgreSQL server is a standby in recovery, and Laneway needs to write. Connect to the "
            "primary, or name all hosts in the URL and add target_session_attrs=read-write"
        )


def _advise(change: str | None, otherwise: str) -> str:
    return otherwise if change is None else f"as its owner or a superuser, run {change}"
