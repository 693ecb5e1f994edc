"""Maps errors of the driver and the database to Laneway's errors."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, TypeAlias

import asyncpg

from laneway.domain.dsn import find_fault
from laneway.domain.errors import (
    Conflict,
    GroupNotFound,
    InternalError,
    InvalidMessage,
    InvalidRequest,
    LeaseLost,
    MessageTooLarge,
    Misconfigured,
    NotFound,
    QueueChanged,
    TransientConflict,
    Unavailable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laneway.domain.errors import LanewayError

# What a code means: a class, which takes the error's text, or a function of the error that makes one
# of data. The data are the call's arguments or, if those leave open what is missing, `find_name`.
Meaning: TypeAlias = "type[LanewayError] | Callable[[asyncpg.PostgresError], LanewayError]"
Meanings: TypeAlias = "Mapping[str, Meaning]"


def _too_large(error: asyncpg.PostgresError) -> MessageTooLarge:
    queue = find_name(error)
    if queue is None:
        return MessageTooLarge(describe_own(error))
    return MessageTooLarge(str(error.args[0]), queue=queue)


# The codes that Laneway's SQL functions raise.
OWN: Meanings = {
    "LW404": NotFound,
    "LW409": Conflict,
    "LW410": LeaseLost,
    "LW412": QueueChanged,
    "LW413": _too_large,
    "LW422": InvalidRequest,
    "LW428": Conflict,
    "LW503": TransientConflict,
}

# What to do where the server answers, but refuses the database or user.
_REFUSED = "Check the user and password in the database's URL"
_REMEDIES: Mapping[type[asyncpg.PostgresError], str] = {
    asyncpg.InvalidCatalogNameError: (
        "Check the database's name in its URL, or create it: create database NAME"
    ),
    asyncpg.InvalidAuthorizationSpecificationError: _REFUSED,
    asyncpg.InvalidPasswordError: _REFUSED,
}
_MISFIT = "Check the database's URL, or run `laneway admin install`"

# PostgreSQL's codes, complete or by class (the first two characters). Complete ones take
# precedence.
STANDARD: Meanings = {
    "08": Unavailable,  # connection exception
    "22": InvalidMessage,  # data exception: malformed JSON, a number out of range, a NUL in a text
    "23": InvalidRequest,  # integrity constraint
    "25006": Unavailable,  # read-only transaction: a standby, or a failover under way
    "28": Misconfigured,  # role or password refused
    "3D": Misconfigured,  # no such database
    "3F": Misconfigured,  # no such schema
    "40": TransientConflict,  # serialization failure, deadlock
    "42": Misconfigured,  # a function or table is missing, or the role may not use it
    "53": Unavailable,  # out of connections, memory or disk
    "54": InvalidMessage,  # beyond a limit: nested too deeply, a name too long for its index
    "55": TransientConflict,  # a lock not available, an object in use
    "57": Unavailable,  # shutting down, starting up, cancelled by a timeout or an operator
    "58": Unavailable,  # an error of the operating system
}


def translate(error: BaseException, means: Meanings = OWN) -> LanewayError:
    """Return Laneway's error for one that asyncpg raised.

    `means` says what a code, whole or by its class, means to one call; it goes before the others.
    """
    match error:
        case asyncpg.PostgresError():
            meaning = Misconfigured if _shows_pooler(error) else _find(error.sqlstate or "", means)
            made: LanewayError = (
                meaning(_describe(error, meaning)) if isinstance(meaning, type) else meaning(error)
            )
            return made
        case asyncpg.DataError():
            return InvalidMessage(f"a value cannot be stored: {error}")
        case TimeoutError():
            return Unavailable("the database did not answer in time: retry later")
        case asyncpg.OutdatedSchemaCacheError():
            return TransientConflict(f"the schema changed during the call ({error}): retry")
        # A server that disconnects may also interrupt an operation of the driver.
        case OSError() | asyncpg.InterfaceError() | asyncpg.InternalClientError():
            return Unavailable(f"database unreachable ({_name(error)}): retry later")
        case _:
            return InternalError(_name(error))


def explain_failed_connection(error: OSError) -> Unavailable:
    """Return the error for a database that could not be connected to, with what to check."""
    return Unavailable(f"database unreachable: {find_remedy(error)}")


def find_remedy(error: OSError) -> str:
    """Return why a connection could not be opened, and what to check. It names no address."""
    match error:
        case socket.gaierror():
            return f"host name not found ({error.strerror}). Check the host in the database's URL"
        case TimeoutError():
            return (
                "no answer in time. Check the host and port in the database's URL, and that no"
                " firewall blocks them"
            )
        case ConnectionRefusedError():
            return (
                "connection refused. Check the host and port in the database's URL, and that"
                " PostgreSQL is running there"
            )
        case ConnectionError():
            return (
                "the connection was closed before PostgreSQL answered. Check the port in the"
                " database's URL: another program may listen there"
            )
        case _:
            reason = error.strerror or _name(error)
            return f"{reason}. Check the database's URL, and that PostgreSQL is running there"


def describe_own(error: asyncpg.PostgresError) -> str:
    """Return the text and hint of an error that one of our functions raised."""
    hint = getattr(error, "hint", None)
    return f"{error.args[0]}. {hint}" if hint else str(error.args[0])


def find_name(error: asyncpg.PostgresError) -> str | None:
    """Return the name of what is missing, if the function gave it as the DETAIL of its error."""
    return getattr(error, "detail", None)


def missing_group(group_id: int) -> Meanings:
    """Return what LW404 means to a call that names a group by its id, which was looked up before."""
    return {"LW404": lambda _: GroupNotFound(group=group_id)}


def check_dsn(dsn: str) -> None:
    """Refuse an ambiguous DSN; the error does not quote it."""
    fault = find_fault(dsn)
    if fault is not None:
        raise Misconfigured(f"invalid DSN: {fault}")


def explain_dsn(error: ValueError) -> LanewayError:
    """Return why the driver cannot parse a DSN, without quoting it."""
    known = isinstance(error, asyncpg.ClientConfigurationError) and "URI" not in str(error)
    reason = f": {error}" if known else ", or invalid variable such as PGPORT"
    return Misconfigured(f"invalid DSN{reason}")


def _shows_pooler(error: asyncpg.PostgresError) -> bool:
    """Return whether PgBouncer refused a session parameter, or switched sessions."""
    if error.sqlstate == "08P01":
        return "startup parameter" in str(error)
    return error.sqlstate in {"26000", "42P05"}


def _find(sqlstate: str, means: Meanings) -> Meaning:
    for code in (sqlstate, sqlstate[:2]):
        for known in (means, OWN, STANDARD):
            if code in known:
                return known[code]
    return InternalError


def _describe(error: asyncpg.PostgresError, kind: type[LanewayError]) -> str:
    if error.sqlstate in OWN:
        return describe_own(error)
    if _shows_pooler(error):
        return (
            f"the DSN connects through a pooler in transaction mode ({error.args[0]}): connect with "
            "pooled=True and direct_dsn (the laneway command and its server: set "
            "LANEWAY_DATABASE_DIRECT_URL to a URL without the pooler, or set LANEWAY_DATABASE_POOLED=true), or use a "
            "DSN without the pooler"
        )
    if kind is Misconfigured:
        return f"{error.args[0]} ({error.sqlstate}). {_REMEDIES.get(type(error), _MISFIT)}"
    if isinstance(error, asyncpg.CharacterNotInRepertoireError):
        return f"a text with a NUL character, or not in UTF-8, cannot be stored ({error.sqlstate})"
    detail = getattr(error, "detail", None)
    text = f"{error.args[0]}: {detail}" if detail else str(error.args[0])
    return f"{text} ({error.sqlstate}){_name_setting(error)}"


def _name_setting(error: asyncpg.PostgresError) -> str:
    """Return a hint at the setting that may be the cause."""
    if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
        cause = "the server is a standby, or default_transaction_read_only is on"
    elif isinstance(error, asyncpg.QueryCanceledError) and "statement timeout" in str(error):
        cause = "statement_timeout of the role or database is too short"
    else:
        return ""
    return f": {cause}. `laneway admin install` says where it is set"


def _name(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
