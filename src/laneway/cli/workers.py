"""The commands `laneway worker`."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import sys
from contextlib import AsyncExitStack
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from laneway.cli.connections import BRIEF, with_connection
from laneway.cli.database import open_database
from laneway.cli.errors import FlagInvalid
from laneway.cli.execution import ENDED_BY_SIGNAL, reporting
from laneway.cli.flags import with_client
from laneway.cli.known_settings import LONGEST
from laneway.cli.output import Output, count
from laneway.cli.settings import Settings
from laneway.domain.errors import LanewayError
from laneway.domain.settings import EngineSettings
from laneway.domain.workers import WorkerInfo
from laneway.library.connection import Connection, connect
from laneway.server.logs import choose_format, set_up_logs

if TYPE_CHECKING:
    from laneway.worker.app import App

logger = logging.getLogger(__name__)

worker = typer.Typer(
    no_args_is_help=True, help="Run, inspect and stop workers.", rich_markup_mode=None
)

Id = Annotated[str, typer.Argument(help="Worker id, as `laneway worker list` shows it.")]


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


_COLUMNS = (
    "worker_id",
    "kind",
    "host",
    "pid",
    "queues",
    "state",
    "held",
    "handled",
    "failed",
    "silence",
    "healthy",
)


@worker.command("run")
@with_client
def run(
    settings: Settings,
    app: Annotated[str, typer.Argument(help="App, as module:name.")],
    *,
    name: Annotated[str | None, typer.Option(help="Worker name (default: the app's).")] = None,
    address: Annotated[
        str | None,
        typer.Option(help="Database DSN or server URL (default: the app's own address)."),
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="Minimum log level.")] = LogLevel.INFO,
    log_format: Annotated[
        Literal["auto", "text", "json"],
        typer.Option(help="Format of log lines. auto: text on a terminal, else JSON."),
    ] = "auto",
) -> None:
    """Run an app's handlers until SIGTERM or Ctrl-C, then drain.

    The address is that of the flags, else the app's own, else the server or database of the settings,
    else the bundled PostgreSQL, which is created if there is none.
    """
    set_up_logs(log_level, choose_format(log_format))
    from laneway.worker.loops import run_program

    with reporting():
        if address is not None and settings.has_place_flag:
            raise FlagInvalid(
                "--address",
                "contradicts the flag that names another server or database: use one of them",
            )
        found = find_app(app)
        logger.info("app %s", app)
        place = address or (None if settings.has_place_flag else found.address)
        try:
            run_program(lambda: _work(found, settings, place, name))
        except asyncio.CancelledError:
            raise typer.Exit(ENDED_BY_SIGNAL + signal.SIGTERM) from None


@worker.command("list")
@with_connection
async def list_(
    connection: Connection,
    output: Output,
    *,
    queue: Annotated[str | None, typer.Option(help="Show only workers of this queue.")] = None,
) -> None:
    """List workers, and consumers and producers of long-lived programs."""
    found = await connection.admin.list_workers(queue)
    output.rows([show_worker(item) for item in found], _COLUMNS)


@worker.command("get")
@with_connection
async def get(connection: Connection, output: Output, worker_id: Id) -> None:
    """Show a worker. Exits 3 if it does not exist."""
    output.one(show_worker(await connection.admin.get_worker(worker_id)))


@worker.command("suspend")
@with_connection
async def suspend(connection: Connection, output: Output, worker_id: Id) -> None:
    """Suspend a worker: it finishes its messages and claims no more."""
    state = await connection.admin.suspend_worker(worker_id)
    output.done(f"worker {worker_id} is {state}", worker_id=worker_id, state=state)


@worker.command("resume")
@with_connection
async def resume(connection: Connection, output: Output, worker_id: Id) -> None:
    """Resume a suspended worker."""
    state = await connection.admin.resume_worker(worker_id)
    output.done(f"worker {worker_id} is {state}", worker_id=worker_id, state=state)


@worker.command("shutdown")
@with_connection
async def shutdown(
    connection: Connection,
    output: Output,
    worker_id: Id,
    *,
    release: Annotated[
        bool, typer.Option("--release", help="Release its messages in flight, and stop it.")
    ] = False,
) -> None:
    """Stop a worker. Exits 4 if it has messages in flight, unless --release."""
    state = await connection.admin.shutdown_worker(worker_id, release=release)
    output.done(f"worker {worker_id} is {state}", worker_id=worker_id, state=state)


@worker.command("purge")
@with_connection
async def purge(
    connection: Connection,
    output: Output,
    *,
    older_than: Annotated[
        float, typer.Option(min=0, max=LONGEST, help="Minimum hours since a worker stopped.")
    ] = 24,
) -> None:
    """Delete the records of workers that stopped long ago."""
    purged = await connection.admin.purge_old_workers(timedelta(hours=older_than))
    output.done(f"{count(purged, 'worker')} deleted", purged=purged)


@worker.command("health")
@with_connection
async def health(
    connection: Connection,
    output: Output,
    *,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=LONGEST,
            help="Maximum seconds since the last heartbeat (default: each worker's own).",
        ),
    ] = None,
) -> None:
    """Show which workers have sent heartbeats in time. Exits 1 if one has not."""
    found = await connection.admin.worker_health(
        None if timeout is None else timedelta(seconds=timeout)
    )
    rows = [{"worker_id": name, "healthy": healthy} for name, healthy in found.items()]
    output.rows(rows, ("worker_id", "healthy"))
    if not all(found.values()):
        raise typer.Exit(1)


@worker.command("stats")
@with_connection
async def stats(connection: Connection, output: Output) -> None:
    """Show totals of all workers."""
    output.one((await connection.admin.worker_stats())._asdict())


async def _work(app: App, settings: Settings, place: str | None, name: str | None) -> None:
    """Run a worker at the place, else at the server or database of the settings."""
    from laneway.worker.signals import stopped_by_signals

    app.complete(settings=EngineSettings(priority_levels=settings["max_priority_levels"]))
    url = settings.server_url if place is None else place
    if url is not None:
        app.complete(api_key=settings["api_key"])
        await app.work(address=url, name=name)
        return
    environment = settings.environment
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - this is one
    async with AsyncExitStack() as stack:
        with stopped_by_signals(task.cancel):
            dsn = await stack.enter_async_context(
                open_database(environment, settings.data_dir, create=True)
            )
            if environment.database_url is None:
                async with connect(dsn, settings=BRIEF) as connection:
                    await connection.install()
        app.complete(pooled=environment.pooled, direct_dsn=environment.direct_url)
        await app.work(address=dsn, name=name)


def find_app(place: str) -> App:
    """Import the app named as module:name. The working directory is on the import path."""
    from laneway.worker.app import App

    module, _, name = place.partition(":")
    sys.path.insert(0, str(os.getcwd()))  # noqa: PTH109 - sys.path takes strings
    try:
        found = getattr(importlib.import_module(module), name or "app")
    except (ImportError, AttributeError, ValueError) as error:
        advice = "Name it as module:name"
        if isinstance(error, ModuleNotFoundError):
            advice = "Install it"
            if error.name == module.partition(".")[0]:
                advice = "Run the command in the directory that contains it, or install it"
        raise LanewayError(f"app {place!r} cannot be imported: {error}. {advice}") from error
    if not isinstance(found, App):
        raise LanewayError(
            f"{place!r} is a {type(found).__name__}, not a laneway.App: name it as module:name"
        )
    return found


def show_worker(info: WorkerInfo) -> dict[str, object]:
    return {**info._asdict(), "healthy": info.healthy}
