"""Sends statements: with a time limit, with translated errors, and in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import asyncpg

from laneway.domain.errors import InternalError
from laneway.engine.sqlstates import OWN, translate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.engine.sqlstates import Meanings

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class Step(NamedTuple):
    """The progress of work in steps; after None: not begun, or at its end."""

    total: int
    after: int | None


START = Step(0, None)


async def fetch(
    connection: Connection, statement: str, *arguments: object, means: Meanings = OWN
) -> list[asyncpg.Record]:
    try:
        return await connection.fetch(statement, *arguments)
    except Exception as error:
        raise _explain(connection, error, means) from error


async def fetch_value(
    connection: Connection, statement: str, *arguments: object, means: Meanings = OWN
) -> Any:
    try:
        return await connection.fetchval(statement, *arguments)
    except Exception as error:
        raise _explain(connection, error, means) from error


def number(arguments: Sequence[object]) -> str:
    """Return the places of these arguments in a statement: $1, $2, …."""
    return ", ".join(f"${place}" for place in range(1, len(arguments) + 1))


def _explain(connection: Connection, error: Exception, means: Meanings) -> Exception:
    if isinstance(error, TimeoutError) or (
        isinstance(error, asyncpg.InternalClientError)
        and not isinstance(error, asyncpg.OutdatedSchemaCacheError)
    ):
        # The caller no longer waits, so the session is closed with its statement.
        connection.terminate()
    elif (
        isinstance(error, asyncpg.InterfaceError)
        and not isinstance(error, asyncpg.DataError)
        and not connection.is_closed()
    ):
        return InternalError(f"a connection was misused: {error}")
    return translate(error, means)
