"""Checks PostgreSQL URLs, and hides their passwords."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMES = ("postgresql://", "postgres://")
HIDDEN = "********"

_LARGEST_PORT = 65535
_ENCODE = (
    "Percent-encode the user and the password: @ is %40, / is %2F, ? is %3F, # is %23, % is %25, "
    ": is %3A, [ is %5B, ] is %5D"
)
_LOOKS = "The format is postgresql://user:password@host:5432/database"

# Parameters whose values may contain an @, if there is no user before the host.
_FREE_TEXTS = {
    "application_name",
    "database",
    "dbname",
    "host",
    "options",
    "passfile",
    "password",
    "sslpassword",
    "user",
}


def find_fault(dsn: str) -> str | None:
    """Return what is wrong with a DSN and how to write it, without quoting it; None if nothing.

    A special character in a password that is not percent-encoded changes where the password ends.
    Drivers then take a part of it for the host or port, and print that in their errors. So
    ambiguous DSNs are refused before any driver sees them.
    """
    if not dsn.startswith(SCHEMES):
        return f"it must start with {SCHEMES[0]}. {_LOOKS}"
    authority, path, query = _split(dsn)
    problem = _find_misplaced(dsn, authority, path, query) or _find_unreadable(dsn)
    if problem is not None:
        return f"{problem}. {_ENCODE}. {_LOOKS}"
    problem = _find_wrong_host(authority.rpartition("@")[2], query)
    return None if problem is None else f"{problem}. {_LOOKS}"


def hide_password(dsn: str) -> str:
    """Return the DSN without its password; one that cannot be parsed is hidden completely."""
    if find_fault(dsn) is not None:
        return HIDDEN
    parts = urlsplit(dsn)
    user, at, place = parts.netloc.rpartition("@")
    if ":" in user:
        user = f"{user.partition(':')[0]}:{HIDDEN}"
    query = parts.query
    if "password" in query:
        shown = [(name, HIDDEN if "password" in name else text) for name, text in parse_qsl(query)]
        query = urlencode(shown, safe="*/")
    return parts._replace(netloc=f"{user}{at}{place}", query=query).geturl()


def name_place(dsn: str) -> str:
    """Return the host and port of a DSN, or the directory of its socket."""
    if find_fault(dsn) is not None:
        return "?"
    authority, _, query = _split(dsn)
    return authority.rpartition("@")[2] or dict(parse_qsl(query)).get("host", "?")


def _split(dsn: str) -> tuple[str, str, str]:
    """Return the part before the first slash or question mark, the path, and the query."""
    before, _, query = dsn.partition("://")[2].partition("?")
    authority, _, path = before.partition("/")
    return authority, path, query


def _find_misplaced(dsn: str, authority: str, path: str, query: str) -> str | None:
    user, at, _ = authority.rpartition("@")
    if "@" in user:
        return 'it has more than one "@"'
    if "#" in dsn:
        return 'it has a "#", which ends a URL'
    if "@" in path:
        return 'it has an "@" after a "/"'
    if not at and any("@" in text for text in _list_strange_texts(query)):
        return 'it has an "@" after a "?"'
    return None


def _list_strange_texts(query: str) -> Iterable[str]:
    for pair in query.split("&"):
        name, _, _ = pair.partition("=")
        if name not in _FREE_TEXTS:
            yield pair


def _find_unreadable(dsn: str) -> str | None:
    try:
        parts = urlsplit(dsn)
        if parts.query:
            parse_qsl(parts.query, strict_parsing=True)
    except ValueError:
        # Without the reason, which would quote the DSN.
        return "it cannot be parsed as a URL"
    return None


def _find_wrong_host(places: str, query: str) -> str | None:
    ports = dict(parse_qsl(query)).get("port", "").split(",")
    for place in places.split(",") if places else ():
        if not place:
            return "a host is missing beside a comma"
        if place.startswith("["):
            _, closed, port = place.rpartition("]")
            if not closed or (port and not port.startswith(":")):
                return "an address in brackets is not followed by a port"
            port = port.removeprefix(":")
        else:
            _, _, port = place.partition(":")
            if ":" in port:
                return "a host has more than one port; an IPv6 address goes in brackets, as [::1]"
        ports.append(unquote(port))
    if not all(map(_is_port, filter(None, ports))):
        return f"a port must be a number up to {_LARGEST_PORT}"
    return None


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 1 <= int(text) <= _LARGEST_PORT
