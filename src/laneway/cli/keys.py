"""The commands `laneway key`: create, list and revoke API keys."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from laneway.cli.database import open_connection, open_database
from laneway.cli.execution import execute
from laneway.cli.flags import with_database
from laneway.cli.settings import Settings
from laneway.domain.escapes import escape
from laneway.domain.keys import Role

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import asyncpg

    from laneway.domain.keys import ApiKey

key = typer.Typer(
    no_args_is_help=True, help="Create, list and revoke API keys.", rich_markup_mode=None
)


@key.command("create")
@with_database
def create(
    settings: Settings,
    *,
    role: Annotated[str, typer.Option(help="Rights of the API key: read, write or admin.")],
    queue: Annotated[
        str | None, typer.Option(help="Limit the API key to queues, by a pattern such as mail-*.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the API key (default: its id).")] = None,
) -> None:
    """Create an API key and print it. It is not shown again.

    Once an API key exists, the server requires one.
    """
    from laneway.engine.procedures import keys as procedures
    from laneway.server.authentication import PREFIX, make_key

    chosen = _read_role(role)
    if queue == "":
        raise typer.BadParameter("--queue is empty: use a pattern such as 'mail-*', or omit it")
    made = make_key()

    async def command() -> None:
        async with _open_keys(settings) as connection:
            await procedures.create_api_key(
                connection,
                key_id=made.key_id,
                name=name or made.key_id,
                role=chosen,
                pattern=queue,
                digest=made.digest,
            )

    execute(command())
    reach = f' for queues matching "{queue}"' if queue else ""
    typer.echo(
        f"for SQS: access key id {PREFIX}_{made.key_id}, secret access key {made.digest.hex()}",
        err=True,
    )
    typer.echo(f"API key {made.key_id}, role {chosen}{reach}; it is not shown again:", err=True)
    # The only output on stdout, for scripts.
    typer.echo(made.text)


@key.command("list")
@with_database
def list_(
    settings: Settings,
    *,
    revoked: Annotated[bool, typer.Option("--revoked", help="Include revoked API keys.")] = False,
) -> None:
    """List API keys, without their secrets."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from laneway.engine.procedures import keys as procedures

    async def command() -> list[ApiKey]:
        async with _open_keys(settings) as connection:
            return await procedures.list_api_keys(connection, revoked=revoked)

    table = Table()
    for column in ("id", "name", "role", "queues", "created", "revoked"):
        table.add_column(column)
    for found in execute(command()):
        table.add_row(
            found.key_id,
            Text(escape(found.name)),
            str(found.role),
            Text(escape(found.pattern or "all")),
            f"{found.created_at:%Y-%m-%d %H:%M:%S}",
            f"{found.revoked_at:%Y-%m-%d %H:%M:%S}" if found.revoked_at else "",
        )
    Console().print(table)


@key.command("revoke")
@with_database
def revoke(
    settings: Settings,
    key_id: Annotated[str, typer.Argument(help="API key id, as `laneway key list` shows it.")],
) -> None:
    """Revoke an API key."""
    from laneway.engine.procedures import keys as procedures

    async def command() -> None:
        async with _open_keys(settings) as connection:
            await procedures.revoke_api_key(connection, key_id)

    execute(command())
    typer.echo(f"API key {key_id} revoked; running servers refuse it within seconds")


@asynccontextmanager
async def _open_keys(settings: Settings) -> AsyncIterator[asyncpg.Connection]:
    from laneway.sql.migrate import install

    async with (
        open_database(settings.environment, settings.data_dir) as dsn,
        open_connection(dsn, settings.connections) as connection,
    ):
        await install(connection)
        yield connection


def _read_role(text: str) -> Role:
    """Return the role of this name."""
    try:
        return Role[text.upper()]
    except KeyError:
        raise typer.BadParameter(f"{text!r} is not a role: use read, write or admin") from None
