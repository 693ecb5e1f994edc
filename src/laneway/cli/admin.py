"""The commands `laneway admin`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from laneway.cli.connections import with_bare_connection, with_connection
from laneway.cli.known_settings import LONGEST
from laneway.cli.output import Output, count
from laneway.library.connection import Connection

admin = typer.Typer(
    no_args_is_help=True, help="Manage the schema and the broker.", rich_markup_mode=None
)


@admin.command("install")
@with_bare_connection
async def install(connection: Connection, output: Output) -> None:
    """Install or upgrade the schema."""
    version = await connection.install()
    output.done(f"schema is at version {version}", version=version)


@admin.command("verify")
@with_bare_connection
async def verify(connection: Connection, output: Output) -> None:
    """Compare the schema with the one this version ships. Exits 1 if they differ."""
    problems = await connection.verify()
    output.done(*problems or ["schema is as shipped"], problems=problems)
    if problems:
        raise typer.Exit(1)


@admin.command("stats")
@with_connection
async def stats(connection: Connection, output: Output) -> None:
    """Show totals of the database."""
    output.one((await connection.admin.system_stats())._asdict())


@admin.command("reclaim")
@with_connection
async def reclaim(
    connection: Connection,
    output: Output,
    worker_id: Annotated[
        str | None, typer.Argument(help="Worker id (default: all workers that count as dead).")
    ] = None,
    *,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=LONGEST,
            help="Seconds without a heartbeat before a worker counts as dead (default: each worker's"
            " own).",
        ),
    ] = None,
) -> None:
    """Reclaim the messages of dead workers for others. The attempts count."""
    if worker_id is not None:
        back = {worker_id: await connection.admin.reclaim(worker_id)}
    else:
        silence = None if timeout is None else timedelta(seconds=timeout)
        back = await connection.admin.reclaim_dead(silence)
    total = sum(back.values())
    output.done(
        f"{count(len(back), 'worker')} reclaimed, {count(total, 'message')} reclaimed",
        reclaimed=back,
    )
