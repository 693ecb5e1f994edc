"""Enqueueing in the caller's own transaction, on a connection of psycopg, asyncpg or SQLAlchemy.

Drivers are recognised by name, so that none of them has to be installed.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from laneway.domain.errors import (
    InvalidMessage,
    InvalidRequest,
    MessageTooLarge,
    QueueNotFound,
)
from laneway.library.portal import is_without_loop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.errors import LanewayError
    from laneway.domain.messages import OutgoingMessage

Kind: TypeAlias = Literal["asyncpg", "psycopg", "sqlalchemy"]

_CASTS = (
    "text",
    "json[]",
    "text",
    "smallint",
    "interval",
    "text[]",
    "json",
    "interval",
    "smallint",
)


def _mark(mark: str, cast: str) -> str:
    # As text first, because the connection may have its own encoder for json. With cast(), because
    # SQLAlchemy reads a double colon as a parameter.
    through = cast.replace("json", "text")
    return (
        f"cast({mark} as {cast})"
        if cast == through
        else f"cast(cast({mark} as {through}) as {cast})"
    )


_MARKS = {
    "asyncpg": [_mark(f"${n}", cast) for n, cast in enumerate(_CASTS, 1)],
    "psycopg": [_mark("%s", cast) for cast in _CASTS],
    "sqlalchemy": [_mark(f":p{n}", cast) for n, cast in enumerate(_CASTS)],
}
_NO_QUEUE = "LW404"
_MEANINGS: dict[str, type[LanewayError]] = {
    "LW413": MessageTooLarge,
    "LW422": InvalidMessage,
}

# Connections with a transaction, by driver and class name, and whether they need an event loop.
_CONNECTIONS: dict[tuple[str, str], bool] = {
    ("asyncpg", "Connection"): True,
    ("asyncpg", "PoolConnectionProxy"): True,
    ("psycopg", "Connection"): False,
    ("psycopg", "AsyncConnection"): True,
    ("sqlalchemy", "Connection"): False,
    ("sqlalchemy", "Session"): False,
    ("sqlalchemy", "scoped_session"): False,
    ("sqlalchemy", "AsyncConnection"): True,
    ("sqlalchemy", "AsyncSession"): True,
    ("sqlalchemy", "async_scoped_session"): True,
}


class Push(NamedTuple):
    """Messages to push in one statement. They differ only in their bodies and dedup keys."""

    queue: str
    messages: Sequence[OutgoingMessage]

    @property
    def arguments(self) -> tuple[Any, ...]:
        first = self.messages[0]
        return (
            self.queue,
            [message.body for message in self.messages],
            first.partition,
            first.priority,
            first.delay,
            None if first.dedup_key is None else [message.dedup_key for message in self.messages],
            first.headers,
            first.lease,
            first.max_attempts,
        )


async def push_in(connection: Any, push: Push) -> list[int]:
    """Push messages on a connection, all or none; return their outbox ids.

    On a synchronous connection nothing is awaited, so laneway.sync can run it in the caller's thread.
    """
    kind = find_kind(connection)
    if not push.messages:
        return []
    try:
        answer = _execute(connection, kind, push)
        if inspect.isawaitable(answer):
            answer = await answer
        if kind != "asyncpg":
            row = answer.fetchone()
            answer = (await row if inspect.isawaitable(row) else row)[0]
        return list(answer)
    except Exception as error:
        raise _explain(error, push.queue) from error


def find_kind(connection: object) -> Kind:
    kind = type(connection)
    for parent in kind.__mro__:
        driver = parent.__module__.partition(".")[0]
        needs_loop = _CONNECTIONS.get((driver, parent.__name__))
        if needs_loop is None:
            continue
        if needs_loop and is_without_loop():
            raise InvalidRequest(
                f"cannot push on a {kind.__name__} of {driver} from laneway.sync, because it needs an"
                " event loop: use a synchronous connection, or laneway.connect in place of laneway.sync"
            )
        match driver:
            case "asyncpg" | "psycopg":
                return driver
            case "sqlalchemy":
                _require_postgresql(connection)
                return driver
    raise InvalidRequest(
        f"cannot push on a {kind.__name__}: use a connection of psycopg, asyncpg or SQLAlchemy, or a "
        "SQLAlchemy session. From a pool or engine, acquire a connection first"
    )


def _require_postgresql(connection: Any) -> None:
    bound = connection if hasattr(connection, "dialect") else getattr(connection, "bind", None)
    dialect = getattr(getattr(bound, "dialect", None), "name", "postgresql")
    if dialect != "postgresql":
        raise InvalidRequest(
            f"cannot push on a connection to {dialect}: use one to Laneway's PostgreSQL database"
        )


def _execute(connection: Any, kind: Kind, push: Push) -> Any:
    statement = f"select laneway.outbox_push_many({', '.join(_MARKS[kind])})"
    match kind:
        case "asyncpg":
            return connection.fetchval(statement, *push.arguments)
        case "psycopg":
            from psycopg import AsyncConnection, AsyncCursor, Cursor  # noqa: PLC0415 - as below
            from psycopg.rows import tuple_row  # noqa: PLC0415 - as below

            # An explicit row factory, because the connection's may not return tuples.
            kind_of = AsyncCursor if isinstance(connection, AsyncConnection) else Cursor
            return kind_of(connection, row_factory=tuple_row).execute(statement, push.arguments)
        case "sqlalchemy":
            from sqlalchemy import text  # noqa: PLC0415 - installed, since its connection is

            values = {f"p{n}": value for n, value in enumerate(push.arguments)}
            return connection.execute(text(statement), values)


def _explain(error: Exception, queue: str) -> Exception:
    """Return Laneway's error for one of its SQLSTATEs; any other error unchanged."""
    origin: Any = getattr(error, "orig", None) or error
    origin = getattr(origin, "__cause__", None) or origin
    sqlstate = getattr(origin, "sqlstate", None) or ""
    if sqlstate == _NO_QUEUE:
        return QueueNotFound(queue=queue)
    kind = _MEANINGS.get(sqlstate)
    return error if kind is None else kind(str(origin).splitlines()[0])
