"""The URL of a database, from its parts.

postgres_host       host name or socket directory (default localhost)
postgres_port       (default 5432)
postgres_database   (default postgres)
postgres_user       (default postgres)
postgres_password   (default none)
postgres_ssl        true requires TLS, false forbids it (default: TLS if the server offers it)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping

_SSL_MODES = {"true": "require", "1": "require", "false": "disable", "0": "disable"}
_LARGEST_PORT = 65535
# Characters that no host name contains.
_HOST = set("@/?#[] ")


class PartInvalid(ValueError):
    """A part is invalid. name: the setting."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(problem)
        self.name = name
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Environment:
    """The database that the settings name; the bundled PostgreSQL if there is no URL."""

    # May contain a password, so it is never printed.
    database_url: str | None = field(default=None, repr=False)
    # Whether the URL connects through PgBouncer in transaction mode, and a URL that bypasses it.
    pooled: bool = False
    direct_url: str | None = field(default=None, repr=False)


def join_parts(parts: Mapping[str, str]) -> str:
    """Return the URL; raise PartInvalid, which never repeats a host."""
    user = quote(parts.get("postgres_user", "postgres"), safe="")
    if password := parts.get("postgres_password"):
        user += ":" + quote(password, safe="")
    query = {}
    host = parts.get("postgres_host", "localhost")
    port = _check_port(parts.get("postgres_port", "5432"))
    if host.startswith("/"):
        # A socket directory does not fit into a URL's authority, so it is in the query.
        query["host"] = host
        query["port"] = port
        place = ""
    else:
        if not _HOST.isdisjoint(host):
            # The value is not repeated: it may be a URL with a password.
            raise PartInvalid(
                "postgres_host",
                "is not a host name or address: to configure a URL, set DATABASE_URL",
            )
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if ssl := parts.get("postgres_ssl"):
        query["sslmode"] = _choose_ssl_mode(ssl)
    database = quote(parts.get("postgres_database", "postgres"), safe="")
    url = f"postgresql://{user}@{place}/{database}"
    return f"{url}?{urlencode(query)}" if query else url


def _check_port(port: str) -> str:
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= _LARGEST_PORT):
        raise PartInvalid("postgres_port", f"is {port!r}: set a number from 1 to 65535")
    return port


def _choose_ssl_mode(ssl: str) -> str:
    mode = _SSL_MODES.get(ssl.lower())
    if mode is None:
        raise PartInvalid("postgres_ssl", f"is {ssl!r}: set true or false")
    return mode
