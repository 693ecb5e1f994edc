"""What `laneway worker` does."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from laneway.cli.connections import with_lane
from laneway.cli.database import find_database
from laneway.cli.errors import FlagInvalid
from laneway.cli.execution import reporting
from laneway.cli.flags import with_database
from laneway.cli.output import Output
from laneway.cli.settings import LONGEST, Settings
from laneway.domain.errors import LanewayError
from laneway.domain.escapes import escape
from laneway.domain.workers import WorkerInfo
from laneway.library.connection import Connection

if TYPE_CHECKING:
    from laneway.worker.app import App

worker = typer.Typer(
    no_args_is_help=True, help="Run workers, look at them, stop them.", rich_markup_mode=None
)

Id = Annotated[str, typer.Argument(help="The worker's id, as `laneway worker list` shows it.")]


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


_COLUMNS = (
    "worker_id",
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
@with_database
def run(
    settings: Settings,
    app: Annotated[str, typer.Argument(help="The app, as module:name.")],
    *,
    name: Annotated[str | None, typer.Option(help="What to call the worker.")] = None,
    address: Annotated[
        str | None,
        typer.Option(help="The database's DSN or the server's URL, in place of the app's own."),
    ] = None,
    log_level: Annotated[
        LogLevel, typer.Option(help="The least important lines to log.")
    ] = LogLevel.INFO,
) -> None:
    """Run an app's handlers until SIGTERM or Ctrl-C, then drain.

    It works where a flag says, else at the app's own address, else on the database of the settings.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_LogFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=log_level.upper(), handlers=[handler])
    with reporting():
        if address is not None and settings.has_database_flag:
            raise FlagInvalid("--address", "and another flag name a database each: give one")
        found = find_app(app)
        place = address or (None if settings.has_database_flag else found.address)
        if place is None and settings.environment.pooled:
            found.behind_pooler(settings.environment.direct_url)
        found.run(
            address=place or find_database(settings.environment, settings.data_dir), name=name
        )


@worker.command("list")
@with_lane
async def list_(
    lane: Connection,
    output: Output,
    *,
    queue: Annotated[str | None, typer.Option(help="Only those of this queue.")] = None,
) -> None:
    """List the workers."""
    found = await lane.admin.list_workers(queue)
    output.rows([show_worker(item) for item in found], _COLUMNS)


@worker.command("get")
@with_lane
async def get(lane: Connection, output: Output, worker_id: Id) -> None:
    """Show a worker; exits 3 if there is none of that id."""
    output.one(show_worker(await lane.admin.get_worker(worker_id)))


@worker.command("suspend")
@with_lane
async def suspend(lane: Connection, output: Output, worker_id: Id) -> None:
    """Have a worker take nothing more; what it has in hand it finishes first."""
    state = await lane.admin.suspend_worker(worker_id)
    output.done(f"worker {worker_id} is {state}", worker_id=worker_id, state=state)


@worker.command("resume")
@with_lane
async def resume(lane: Connection, output: Output, worker_id: Id) -> None:
    """Have a suspended worker go on."""
    state = await lane.admin.resume_worker(worker_id)
    output.done(f"worker {worker_id} is {state}", worker_id=worker_id, state=state)


@worker.command("shutdown")
@with_lane
async def shutdown(
    lane: Connection,
    output: Output,
    worker_id: Id,
    *,
    release: Annotated[
        bool, typer.Option("--release", help="Also with messages in hand: they go back.")
    ] = False,
) -> None:
    """End a worker; exits 4 while it has messages in hand, unless they are released."""
    state = await lane.admin.shutdown_worker(worker_id, release=release)
    output.done(f"worker {worker_id} is {state}", worker_id=worker_id, state=state)


@worker.command("purge")
@with_lane
async def purge(
    lane: Connection,
    output: Output,
    *,
    older_than: Annotated[
        float, typer.Option(min=0, max=LONGEST, help="Stopped so many hours ago.")
    ] = 24,
) -> None:
    """Forget workers that stopped long ago."""
    purged = await lane.admin.purge_old_workers(timedelta(hours=older_than))
    output.done(f"{purged} workers are forgotten", purged=purged)


@worker.command("health")
@with_lane
async def health(
    lane: Connection,
    output: Output,
    *,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, max=LONGEST, help="Seconds of silence; each one's own without it."),
    ] = None,
) -> None:
    """Tell which workers were heard of in time; exits 1 if one was not."""
    found = await lane.admin.worker_health(None if timeout is None else timedelta(seconds=timeout))
    rows = [{"worker_id": name, "healthy": healthy} for name, healthy in found.items()]
    output.rows(rows, ("worker_id", "healthy"))
    if not all(found.values()):
        raise typer.Exit(1)


@worker.command("stats")
@with_lane
async def stats(lane: Connection, output: Output) -> None:
    """Show all workers together."""
    output.one((await lane.admin.worker_stats())._asdict())


class _LogFormatter(logging.Formatter):
    """Spells out control characters in Laneway's own lines, which repeat what failures say."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return escape(text, lines=True) if record.name.split(".")[0] == "laneway" else text


def find_app(place: str) -> App:
    """Return the app that a person names, as module:name, from the working directory too."""
    from laneway.worker.app import App

    module, _, name = place.partition(":")
    sys.path.insert(0, str(os.getcwd()))  # noqa: PTH109 - what the path holds are texts
    try:
        found = getattr(importlib.import_module(module), name or "app")
    except (ImportError, AttributeError, ValueError) as error:
        raise LanewayError(f"{place!r} is no app: {error}") from error
    if not isinstance(found, App):
        raise LanewayError(f"{place!r} is a {type(found).__name__}, not an App")
    return found


def show_worker(info: WorkerInfo) -> dict[str, object]:
    return {**info._asdict(), "healthy": info.healthy}
