"""The commands of `laneway`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laneway.cli import keys
from laneway.cli.benchmark import benchmark
from laneway.cli.database import open_connection, open_database
from laneway.cli.demo import run_demo
from laneway.cli.environment import read_environment
from laneway.cli.execution import execute
from laneway.cli.flags import with_settings
from laneway.cli.lake import lake
from laneway.cli.queues import queue
from laneway.cli.settings import show_settings
from laneway.cli.state import reclaim, stats
from laneway.cli.top import top
from laneway.cli.traffic import dequeue, enqueue, tail
from laneway.cli.workers import worker
from laneway.cli.workflows import workflow
from laneway.embedded import find_running
from laneway.sql.migrate import install, verify

if TYPE_CHECKING:
    from laneway.cli.settings import Settings
    from laneway.sql.migrate import InstallReport, Problem

# Plain help: a table's narrow columns would cut the flags' names short.
app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,
)
admin = typer.Typer(no_args_is_help=True, help="Look after the schema.", rich_markup_mode=None)
app.add_typer(admin, name="admin")
key = typer.Typer(
    no_args_is_help=True, help="Make, list and revoke API keys.", rich_markup_mode=None
)
app.add_typer(key, name="key")
app.add_typer(lake, name="lake")
app.add_typer(queue, name="queue")
app.add_typer(worker, name="worker")
app.add_typer(workflow, name="workflow")
app.command("enqueue")(enqueue)
app.command("dequeue")(dequeue)
app.command("tail")(tail)
app.command("top")(top)
app.command("benchmark")(benchmark)
admin.command("stats")(stats)
admin.command("reclaim")(reclaim)

DataDir = Annotated[
    Path,
    typer.Option(
        "--data-dir", "--data", help="Where the embedded PostgreSQL lives when no other is given."
    ),
]
DEFAULT_DATA_DIR = Path(".laneway")


def main() -> None:
    app()


@app.callback()
def describe() -> None:
    """Laneway: a message broker on PostgreSQL."""


@app.command()
@with_settings
def serve(settings: Settings) -> None:
    """Run the server; without a database given, on the embedded PostgreSQL.

    Every setting is a flag, an environment variable (PORT) and a line of laneway.toml (port); flags
    win over the environment, the environment over the file.
    """
    # Loaded here: no other command needs the server, and each starts the quicker for it.
    from laneway.cli.serve import run_server  # noqa: PLC0415 - see above

    execute(run_server(settings))


@app.command()
@with_settings
def config(settings: Settings) -> None:
    """Print every setting and where it comes from, secrets hidden."""
    show_settings(settings)


@app.command()
def demo(data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Install the schema and show the broker at work."""

    async def command() -> None:
        async with open_database(read_environment(os.environ), data_dir) as dsn:
            await run_demo(dsn)

    execute(command())


@app.command()
def url(data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Print the URL of the database in use, for psql and other clients."""

    async def command() -> str | None:
        return read_environment(os.environ).database_url or find_running(data_dir)

    found = execute(command())
    if found is None:
        typer.echo(f"laneway: no embedded database is running in {data_dir}", err=True)
        raise typer.Exit(1)
    typer.echo(found)


@key.command("create")
def create_key(
    role: Annotated[str, typer.Option(help="What it may do: read, write or admin.")],
    queue: Annotated[
        str | None, typer.Option(help="The queues it is limited to, as a pattern: mail-*")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What to call it.")] = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Make a key and print it: it is not shown again."""
    environment = read_environment(os.environ)
    execute(
        keys.create_key(environment, data_dir, role=keys.read_role(role), name=name, pattern=queue)
    )


@key.command("list")
def list_keys(
    *,
    revoked: Annotated[bool, typer.Option("--revoked", help="Also those out of force.")] = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """List the keys, of which only hashes are kept."""
    execute(keys.list_keys(read_environment(os.environ), data_dir, revoked=revoked))


@key.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(help="The key's id, as `laneway key list` shows it.")],
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Put a key out of force."""
    execute(keys.revoke_key(read_environment(os.environ), data_dir, key_id))


@admin.command("install")
def install_schema(data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Bring the schema to the version of this Laneway."""

    async def command() -> InstallReport:
        async with (
            open_database(read_environment(os.environ), data_dir) as dsn,
            open_connection(dsn) as connection,
        ):
            return await install(connection)

    report = execute(command())
    for migration in report.migrations:
        typer.echo(f"applied migration {migration}")
    for routine in report.applied:
        typer.echo(f"applied {routine}")
    for routine in report.dropped:
        typer.echo(f"dropped {routine}")
    typer.echo(f"the schema is at version {report.version}")


@admin.command("verify")
def verify_schema(data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Compare the schema with the one this Laneway ships; exit 1 if they differ."""

    async def command() -> list[Problem]:
        async with (
            open_database(read_environment(os.environ), data_dir) as dsn,
            open_connection(dsn) as connection,
        ):
            return await verify(connection)

    problems = execute(command())
    for problem in problems:
        typer.echo(f"{problem.subject} {problem.message}")
    if problems:
        raise typer.Exit(1)
    typer.echo("the schema is as shipped")
