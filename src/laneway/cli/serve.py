"""The command `laneway serve`: prepare database, schema and sockets, and run the server."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from laneway.cli.database import open_connection, open_database
from laneway.cli.detectors import check_detectors
from laneway.cli.errors import AddressUnusable, SettingInvalid
from laneway.cli.server_settings import make_server_settings
from laneway.domain.errors import Retryable
from laneway.engine.procedures.keys import list_api_keys
from laneway.server.logs import set_up_logs
from laneway.server.queen.encryption import KeyUnusable as EncryptionKeyUnusable
from laneway.server.queen.encryption import Vault
from laneway.server.server_process import serve
from laneway.server.settings import is_loopback
from laneway.server.shared_counters import Sheet
from laneway.server.supervision import supervise
from laneway.server.tokens import KeyUnusable as TokenKeyUnusable
from laneway.server.tokens import Tokens
from laneway.sql.migrate import install

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from laneway.cli.settings import Settings
    from laneway.domain.settings import ConnectionSettings
    from laneway.server.settings import ServerSettings
    from laneway.server.tokens import TokenSettings

logger = logging.getLogger(__name__)

# How long to wait for a database that is starting.
PATIENCE = timedelta(seconds=30)
PAUSE = timedelta(milliseconds=500)

BACKLOG = 2048

LEFT_OUT = (
    "a connection pooler between this server and PostgreSQL drops session parameters. If it is "
    "PgBouncer in transaction mode, set LANEWAY_DATABASE_DIRECT_URL to a URL of the same database that "
    "bypasses it, or set LANEWAY_DATABASE_POOLED=true"
)
NO_SESSIONS = (
    "LANEWAY_DATABASE_POOLED without LANEWAY_DATABASE_DIRECT_URL: this server does no maintenance, and finds "
    "messages from other processes by polling once a second. Leases expire and old messages are "
    "removed only while another Laneway process with a direct connection is running. Set "
    "LANEWAY_DATABASE_DIRECT_URL to a URL of the same database that bypasses PgBouncer"
)


async def run_server(settings: Settings) -> None:
    server = read_keys(make_server_settings(settings))
    set_up_logs(server.log_level, server.log_format)
    await check_detectors(settings, server.activity)
    with ExitStack() as stack:
        listeners = [stack.enter_context(listen(server.host, server.port))]
        if server.sqs.port is not None:
            listeners.append(stack.enter_context(listen(server.host, server.sqs.port)))
        async with open_database(settings.environment, settings.data_dir, shared=False) as dsn:
            locked = await prepare(dsn, server)
            if not server.engine.connections.have_sessions:
                logger.warning(NO_SESSIONS)
            lines = make_banner(settings, server, listeners, locked=locked)

            def greet() -> None:
                for line in lines:
                    typer.echo(line, err=True)

            run = serve if server.workers == 1 else supervise
            with Sheet.make(workers=server.workers) as sheet:
                await run(dsn, server, listeners=listeners, sheet=sheet, ready=greet)


def read_keys(server: ServerSettings) -> ServerSettings:
    """Read the JWT public key if it is in a file; refuse invalid keys before anything starts."""
    server = replace(server, tokens=_read_public_key(server.tokens))
    for name, check in (
        ("QUEEN_ENCRYPTION_KEY", lambda: Vault.from_text(server.encryption_key)),
        ("JWT_SECRET and JWT_PUBLIC_KEY", lambda: Tokens.make(server.tokens)),
    ):
        try:
            check()
        except (EncryptionKeyUnusable, TokenKeyUnusable) as error:
            raise SettingInvalid(name, f"cannot be used: {error}") from error
    return server


def _read_public_key(tokens: TokenSettings) -> TokenSettings:
    """Read the public key from its PEM text, perhaps with escaped line breaks, or from a file."""
    key = tokens.public_key
    if key is None:
        return tokens
    if key.startswith("-----BEGIN"):
        return replace(tokens, public_key=key.replace("\\n", "\n"))
    try:
        return replace(tokens, public_key=Path(key).read_text())
    except (OSError, ValueError) as error:
        raise SettingInvalid("JWT_PUBLIC_KEY", f"cannot be read: {error}") from error


async def prepare(dsn: str, server: ServerSettings) -> bool:
    """Install the schema; return whether callers need a key.

    Refuses to listen on a public address without any key, unless insecure.
    """
    deadline = asyncio.get_running_loop().time() + PATIENCE.total_seconds()
    said = ""
    locked: bool | None = None
    while locked is None:
        try:
            locked = await _prepare(dsn, server.engine.connections)
        except Retryable as error:
            if asyncio.get_running_loop().time() > deadline:
                raise
            if str(error) != said:
                said = str(error)
                patience = PATIENCE.total_seconds()
                logger.warning("waiting for the database for up to %g s: %s", patience, said)
            await asyncio.sleep(PAUSE.total_seconds())
    locked = locked or bool(server.secret_key or server.tokens.secret or server.tokens.public_key)
    if not (locked or server.insecure or is_loopback(server.host)):
        raise AddressUnusable(
            f"cannot listen on {server.host} without a key, because other hosts can reach it. Create an"
            " API key with: laneway key create. Or set SECRET_KEY, or use --insecure"
        )
    return locked


async def _prepare(dsn: str, connections: ConnectionSettings) -> bool:
    """Install the schema; return whether API keys were ever created, also if all are revoked."""
    async with open_connection(dsn, connections) as connection:
        if not connections.through_pooler and not await _begins_as_asked(connection):
            logger.warning(LEFT_OUT)
        report = await install(connection)
        keys = await list_api_keys(connection, revoked=True)
    if report.changed:
        logger.info("schema is at version %d", report.version)
    return bool(keys)


async def _begins_as_asked(connection: asyncpg.Connection) -> bool:
    """Return whether the session has its parameters, which a pooler may drop silently."""
    source = await connection.fetchval(
        "select source from pg_catalog.pg_settings where name = 'statement_timeout'"
    )
    return bool(source == "client")


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; raise AddressUnusable if it cannot be opened."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        advice = "Choose another address with --host or --port"
        if error.errno == errno.EADDRINUSE:
            advice = "Stop the program that listens there, or choose another port with --port"
        raise AddressUnusable(
            f"cannot listen on {host} port {port}: {error.strerror or error}. {advice}"
        ) from error
    listener.setblocking(False)  # noqa: FBT003 - the standard library's signature
    return listener


def make_banner(
    settings: Settings,
    server: ServerSettings,
    listeners: Sequence[socket.socket],
    *,
    locked: bool,
) -> list[str]:
    """Return the lines to print once the server answers: where it listens, and what people need."""
    places = [name_place(listener) for listener in listeners]
    own = name_local_place(listeners[0])
    greeting = f"Laneway listens on {' and '.join(places)}"
    source = settings.chosen["secret_key"]
    key = f" ({source.where})" if source.value else ""
    access = f"API key required{key}" if locked else "no API key required"
    if server.log_format == "json":
        # The other lines would not be JSON.
        logger.info("database: %s; %s", settings.database, access)
        return [greeting]
    sqs = name_local_place(listeners[-1])
    return [
        greeting,
        f"  database   {settings.database}",
        f"  access     {access}",
        f"  REST       {own}/api    reference: {own}/api/reference",
        f"  streams    {own}",
        f"  SQS        {sqs}    (endpoint URL of AWS SDKs)",
        f"  metrics    {own}/metrics/prometheus",
    ]


def name_local_place(listener: socket.socket) -> str:
    """Return a URL that works on this machine, also if the server listens on every address."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return f"http://127.0.0.1:{port}"
    return name_place(listener)


def name_place(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
