"""What `laneway key` does: makes, lists and revokes API keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from laneway.cli.database import open_connection, open_database
from laneway.domain.keys import Role
from laneway.engine.procedures import keys as procedures
from laneway.server.authentication import PREFIX, make_key
from laneway.sql.migrate import install

if TYPE_CHECKING:
    from pathlib import Path

    from laneway.cli.environment import Environment


async def create_key(
    environment: Environment, data_dir: Path, *, role: Role, name: str | None, pattern: str | None
) -> None:
    """Print the key, the only time it is seen, alone on stdout so that a script can keep it."""
    key = make_key()
    async with (
        open_database(environment, data_dir) as dsn,
        open_connection(dsn) as connection,
    ):
        await install(connection)
        await procedures.create_key(
            connection,
            key_id=key.key_id,
            name=name or key.key_id,
            role=role,
            pattern=pattern,
            digest=key.digest,
        )
    reach = f' for queues like "{pattern}"' if pattern else ""
    typer.echo(
        f"for SQS: access key id {PREFIX}_{key.key_id}, secret access key {key.digest.hex()}",
        err=True,
    )
    typer.echo(f"key {key.key_id}, role {role}{reach}; it is not shown again:", err=True)
    typer.echo(key.text)


async def list_keys(environment: Environment, data_dir: Path, *, revoked: bool) -> None:
    async with (
        open_database(environment, data_dir) as dsn,
        open_connection(dsn) as connection,
    ):
        await install(connection)
        keys = await procedures.list_keys(connection, revoked=revoked)
    table = Table()
    for column in ("id", "name", "role", "queues", "created", "revoked"):
        table.add_column(column)
    for key in keys:
        table.add_row(
            key.key_id,
            key.name,
            str(key.role),
            key.pattern or "all",
            f"{key.created_at:%Y-%m-%d %H:%M:%S}",
            f"{key.revoked_at:%Y-%m-%d %H:%M:%S}" if key.revoked_at else "",
        )
    Console().print(table)


async def revoke_key(environment: Environment, data_dir: Path, key_id: str) -> None:
    async with (
        open_database(environment, data_dir) as dsn,
        open_connection(dsn) as connection,
    ):
        await install(connection)
        await procedures.revoke_key(connection, key_id)
    typer.echo(f"key {key_id} is revoked; running servers refuse it within seconds")


def read_role(text: str) -> Role:
    """Return the role that a person names."""
    try:
        return Role[text.upper()]
    except KeyError:
        raise typer.BadParameter(f"{text!r} is not a role: say read, write or admin") from None
