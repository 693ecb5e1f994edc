"""The command `laneway`. Subcommands import what they need when they run, to start quickly."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from laneway.cli.admin import admin
from laneway.cli.benchmark import benchmark
from laneway.cli.database import find_database, open_database
from laneway.cli.dead_letters import dlq
from laneway.cli.execution import execute, reporting
from laneway.cli.flags import ON_NEITHER, with_database, with_settings
from laneway.cli.gateway import gateway
from laneway.cli.groups import group
from laneway.cli.keys import key
from laneway.cli.known_settings import SERVER_SETTINGS, SETTINGS
from laneway.cli.lake import lake
from laneway.cli.output import Format, FormatOption, Output
from laneway.cli.queues import queue
from laneway.cli.schedules import schedule
from laneway.cli.settings import Settings, show_settings
from laneway.cli.stdio import OutputLost, guard_output, tell
from laneway.cli.top import top
from laneway.cli.traffic import dequeue, enqueue, tail
from laneway.cli.workers import worker
from laneway.cli.workflows import workflow

# Plain help: the narrow columns of tables would truncate the flags' names.
app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(admin, name="admin")
app.add_typer(dlq, name="dlq")
app.add_typer(gateway, name="gateway")
app.add_typer(group, name="group")
app.add_typer(key, name="key")
app.add_typer(lake, name="lake")
queue.add_typer(dlq, name="dlq")
app.add_typer(queue, name="queue")
app.add_typer(schedule, name="schedule")
app.add_typer(worker, name="worker")
app.add_typer(workflow, name="workflow")
app.command("enqueue")(enqueue)
app.command("dequeue")(dequeue)
app.command("tail")(tail)
app.command("top")(top)
app.command("benchmark")(benchmark)


def main() -> None:
    guard_output()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except OutputLost as error:
        # Not printed if the reader closed the pipe; other errors, such as a full disk, are.
        if error.code == 1:
            tell(f"laneway: {error}")
        sys.exit(error.code)


def show_version(asked: bool) -> None:  # noqa: FBT001 - called back by Typer
    if asked:
        from importlib.metadata import version

        typer.echo(f"laneway {version('laneway')}")
        raise typer.Exit


@app.callback()
def describe(
    *,
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Laneway: a message broker on PostgreSQL."""


@app.command()
@with_settings(SETTINGS, "Works directly on a database.")
def serve(settings: Settings) -> None:
    """Run the server, on the bundled PostgreSQL unless a database is configured.

    Every setting is a flag (--port), an environment variable (LANEWAY_PORT), also in .env, and a line
    of laneway.toml (port). Flags have precedence over the environment, that over .env, and .env over
    laneway.toml.
    """
    from laneway.cli.serve import run_server

    execute(run_server(settings))


@app.command()
@with_settings((*SETTINGS, *SERVER_SETTINGS), ON_NEITHER)
def config(settings: Settings, *, format_: FormatOption = Format.TABLE) -> None:
    """Print each setting, its value and where that comes from, with secrets hidden."""
    show_settings(settings, Output(format_))


@app.command()
@with_database
def demo(settings: Settings) -> None:
    """Walk through a message's lifecycle and benchmark this machine."""
    from laneway.cli.demo import run_demo

    async def command() -> None:
        async with open_database(settings.environment, settings.data_dir, create=True) as dsn:
            await run_demo(dsn, settings.connections)

    execute(command())


@app.command()
@with_database
def url(settings: Settings) -> None:
    """Print the database's URL, for psql and other clients."""
    with reporting():
        found = find_database(settings.environment, settings.data_dir)
    if found is None:
        tell(
            f"laneway: bundled PostgreSQL is not running in {settings.data_dir.resolve()}. Start it"
            " with: laneway serve"
        )
        raise typer.Exit(1)
    typer.echo(found)
