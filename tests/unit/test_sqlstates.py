"""Every database or driver error becomes one of ours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import pytest

import laneway.sql
from laneway.domain.errors import (
    InternalError,
    InvalidMessage,
    Misconfigured,
    NotFound,
    QueueNotFound,
    TransientConflict,
    Unavailable,
)
from laneway.engine.sqlstates import OWN, find_name, translate

if TYPE_CHECKING:
    from laneway.domain.errors import LanewayError

FUNCTIONS = Path(laneway.sql.__file__).parent / "functions"


def test_map_of_our_own_codes_is_total() -> None:
    raised = {
        code
        for file in FUNCTIONS.rglob("*.sql")
        for code in re.findall(r"errcode\s*=\s*'(LW\w{3})'", file.read_text())
    }
    assert raised == set(OWN)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (asyncpg.DeadlockDetectedError("x"), TransientConflict),
        (asyncpg.SerializationError("x"), TransientConflict),
        (asyncpg.LockNotAvailableError("x"), TransientConflict),
        (asyncpg.QueryCanceledError("x"), Unavailable),
        (asyncpg.OutdatedSchemaCacheError("x"), TransientConflict),
        (asyncpg.AdminShutdownError("x"), Unavailable),
        (asyncpg.CannotConnectNowError("x"), Unavailable),
        (asyncpg.TooManyConnectionsError("x"), Unavailable),
        (asyncpg.ReadOnlySQLTransactionError("x"), Unavailable),
        (asyncpg.DiskFullError("x"), Unavailable),
        (asyncpg.ConnectionDoesNotExistError("x"), Unavailable),
        (asyncpg.InterfaceError("connection is closed"), Unavailable),
        (asyncpg.InternalClientError("another operation (2) is in progress"), Unavailable),
        (ConnectionRefusedError("x"), Unavailable),
        (TimeoutError(), Unavailable),
        (asyncpg.InvalidTextRepresentationError("x"), InvalidMessage),
        (asyncpg.CharacterNotInRepertoireError("x"), InvalidMessage),
        (asyncpg.StatementTooComplexError("x"), InvalidMessage),
        (asyncpg.DataError("x"), InvalidMessage),
        (asyncpg.UndefinedFunctionError("x"), Misconfigured),
        (asyncpg.InvalidPasswordError("x"), Misconfigured),
        (asyncpg.InvalidCatalogNameError("x"), Misconfigured),
        (asyncpg.ProtocolViolationError("unsupported startup parameter: jit"), Misconfigured),
        (asyncpg.ProtocolViolationError("x"), Unavailable),
        (asyncpg.InvalidSQLStatementNameError("x"), Misconfigured),
        (asyncpg.InternalServerError("x"), InternalError),
        (RuntimeError("x"), InternalError),
    ],
)
def test_errors_by_what_the_caller_does_next(error: Exception, kind: type[LanewayError]) -> None:
    translated = translate(error)
    assert type(translated) is kind
    assert str(translated)


def test_call_may_override_the_error_of_a_code() -> None:
    error = asyncpg.PostgresError.new(
        {"C": "LW404", "M": "queue 7 does not exist", "H": "Make it."}
    )
    translated = translate(error, {"LW404": NotFound})
    assert type(translated) is NotFound
    assert str(translated) == "queue 7 does not exist. Make it."


def test_call_makes_an_error_of_its_data() -> None:
    error = asyncpg.PostgresError.new({"C": "LW404", "M": "text", "D": "mails", "H": "Hint."})
    translated = translate(error, {"LW404": lambda raised: QueueNotFound(queue=find_name(raised))})
    assert isinstance(translated, QueueNotFound)
    assert translated.queue == "mails"
    assert "text" not in str(translated)
