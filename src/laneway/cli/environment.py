"""The environment, read once into a settings object.

DATABASE_URL        a PostgreSQL server to use, as a URL; wins over the parts
POSTGRES_HOST       the same in parts: host name or socket directory (default localhost)
POSTGRES_PORT       (default 5432)
POSTGRES_DATABASE   (default postgres)
POSTGRES_USER       (default postgres)
POSTGRES_PASSWORD   (default none)
POSTGRES_SSL        true requires TLS, false forbids it (default: TLS where the server offers it)

With none of them set the embedded PostgreSQL is used.
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
# What no host name has.
_HOST = set("@/?#[] ")


@dataclass(frozen=True, slots=True)
class Environment:
    """What the environment asks for."""

    # May hold passwords, so never printed.
    database_url: str | None = field(default=None, repr=False)
    # Whether the URL leads through PgBouncer in transaction mode, and one that leads past it.
    pooled: bool = False
    direct_url: str | None = field(default=None, repr=False)


def read_environment(variables: Mapping[str, str]) -> Environment:
    """Treat an empty variable as one that is not set, as compose files leave them."""
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
        # A URL's authority cannot hold a socket directory; its query can.
        query["host"] = host
        query["port"] = port
        place = ""
    else:
        if not _HOST.isdisjoint(host):
            # Not repeated: it may be a URL, with a password in it.
            raise EnvironmentInvalid(
                "POSTGRES_HOST", "is no host name or address: set a whole URL as DATABASE_URL"
            )
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if ssl := parts.get("SSL"):
        query["sslmode"] = _choose_ssl_mode(ssl)
    database = quote(parts.get("DATABASE", "postgres"), safe="")
    url = f"postgresql://{user}@{place}/{database}"
    return f"{url}?{urlencode(query)}" if query else url


def _check_port(port: str) -> str:
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= _LARGEST_PORT):
        raise EnvironmentInvalid("POSTGRES_PORT", f"is {port!r}: set a number up to 65535")
    return port


def _choose_ssl_mode(ssl: str) -> str:
    mode = _SSL_MODES.get(ssl.lower())
    if mode is None:
        raise EnvironmentInvalid("POSTGRES_SSL", f"is {ssl!r}: set true or false")
    return mode
