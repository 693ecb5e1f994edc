"""Database settings from environment variables.

DATABASE_URL        URL of a PostgreSQL server; takes precedence over the POSTGRES_* variables
POSTGRES_HOST       host name or socket directory (default localhost)
POSTGRES_PORT       (default 5432)
POSTGRES_DATABASE   (default postgres)
POSTGRES_USER       (default postgres)
POSTGRES_PASSWORD   (default none)
POSTGRES_SSL        true requires TLS, false forbids it (default: TLS if the server offers it)

If none is set, the bundled PostgreSQL is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from laneway.cli.errors import EnvironmentInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping

_PARTS = ("HOST", "PORT", "DATABASE", "USER", "PASSWORD", "SSL")
_SSL_MODES = {"true": "require", "1": "require", "false": "disable", "0": "disable"}
_LARGEST_PORT = 65535
# Characters that no host name contains.
_HOST = set("@/?#[] ")


@dataclass(frozen=True, slots=True)
class Environment:
    """The database that the environment names."""

    # May contain a password, so it is never printed.
    database_url: str | None = field(default=None, repr=False)
    # Whether the URL connects through PgBouncer in transaction mode, and a URL that bypasses it.
    pooled: bool = False
    direct_url: str | None = field(default=None, repr=False)


def read_environment(variables: Mapping[str, str]) -> Environment:
    """Read the variables. An empty one counts as not set, as compose files leave them."""
    if url := variables.get("DATABASE_URL"):
        return Environment(url)
    parts = {part: value for part in _PARTS if (value := variables.get(f"POSTGRES_{part}"))}
    return Environment(_join(parts) if parts else None)


def _join(parts: Mapping[str, str]) -> str:
    user = quote(parts.get("USER", "postgres"), safe="")
    if password := parts.get("PASSWORD"):
        user += ":" + quote(password, safe="")
    query = {}
    host = parts.get("HOST", "localhost")
    port = _check_port(parts.get("PORT", "5432"))
    if host.startswith("/"):
        # A socket directory does not fit into a URL's authority, so it is in the query.
        query["host"] = host
        query["port"] = port
        place = ""
    else:
        if not _HOST.isdisjoint(host):
            # The value is not repeated: it may be a URL with a password.
            raise EnvironmentInvalid(
                "POSTGRES_HOST",
                "is not a host name or address: to configure a URL, set DATABASE_URL",
            )
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if ssl := parts.get("SSL"):
        query["sslmode"] = _choose_ssl_mode(ssl)
    database = quote(parts.get("DATABASE", "postgres"), safe="")
    url = f"postgresql://{user}@{place}/{database}"
    return f"{url}?{urlencode(query)}" if query else url


def _check_port(port: str) -> str:
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= _LARGEST_PORT):
        raise EnvironmentInvalid("POSTGRES_PORT", f"is {port!r}: set a number from 1 to 65535")
    return port


def _choose_ssl_mode(ssl: str) -> str:
    mode = _SSL_MODES.get(ssl.lower())
    if mode is None:
        raise EnvironmentInvalid("POSTGRES_SSL", f"is {ssl!r}: set true or false")
    return mode
