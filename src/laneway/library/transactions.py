"""Pushes inside the caller's own transaction, on whatever connection it has.

The drivers are told apart by name, so that none of them has to be installed.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from laneway.domain.errors import InvalidRequest, MessageTooLarge, QueueNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.errors import LanewayError
    from laneway.domain.messages import OutgoingMessage

Kind: TypeAlias = Literal["asyncpg", "psycopg", "sqlalchemy"]

_CASTS = ("text", "json", "text", "smallint", "interval", "text", "json", "interval", "smallint")
_MARKS = {
    "asyncpg": [f"${n}::{cast}" for n, cast in enumerate(_CASTS, 1)],
    "psycopg": [f"%s::{cast}" for cast in _CASTS],
    # A colon pair would be read as a parameter's name.
    "sqlalchemy": [f"cast(:p{n} as {cast})" for n, cast in enumerate(_CASTS)],
}
_MEANINGS: dict[str, type[LanewayError]] = {"LW404": QueueNotFound, "LW413": MessageTooLarge}


class Push(NamedTuple):
    """The statement that pushes one message, and what it is called with."""

    queue: str
    message: OutgoingMessage

    @property
    def arguments(self) -> tuple[Any, ...]:
        body, partition, priority, delay, key, headers, lease, max_attempts = self.message
        return (
            self.queue,
            body,
            partition,
            priority,
            delay,
            key,
            headers,
            lease,
            max_attempts,
        )


async def push_in(connection: Any, pushes: Sequence[Push]) -> list[int]:
    """Push on a connection, asynchronous or not; return the places in the outbox."""
    kind = find_kind(connection)
    places = []
    for push in pushes:
        try:
            answer = _execute(connection, kind, push)
            if inspect.isawaitable(answer):
                answer = await answer
            if kind != "asyncpg":
                row = answer.fetchone()
                answer = (await row if inspect.isawaitable(row) else row)[0]
            places.append(int(answer))
        except Exception as error:
            raise _explain(error) from error
    return places


def find_kind(connection: object) -> Kind:
    for parent in type(connection).__mro__:
        driver = parent.__module__.partition(".")[0]
        match driver:
            case "asyncpg" | "psycopg" | "sqlalchemy":
                return driver
    raise InvalidRequest(
        f"cannot push on a {type(connection).__name__}: give a connection of psycopg, asyncpg or "
        "SQLAlchemy, or a session of SQLAlchemy"
    )


def _execute(connection: Any, kind: Kind, push: Push) -> Any:
    statement = f"select laneway.outbox_push({', '.join(_MARKS[kind])})"
    match kind:
        case "asyncpg":
            return connection.fetchval(statement, *push.arguments)
        case "psycopg":
            return connection.execute(statement, push.arguments)
        case "sqlalchemy":
            from sqlalchemy import text  # noqa: PLC0415 - there, since its connection is

            values = {f"p{n}": value for n, value in enumerate(push.arguments)}
            return connection.execute(text(statement), values)


def _explain(error: Exception) -> Exception:
    """Return ours where the queue is at fault; whatever else it is, is the caller's connection's."""
    origin: Any = getattr(error, "orig", None) or error
    origin = getattr(origin, "__cause__", None) or origin
    kind = _MEANINGS.get(getattr(origin, "sqlstate", None) or "")
    return error if kind is None else kind(str(origin).splitlines()[0])
