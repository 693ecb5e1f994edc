"""The commands `laneway schedule`."""

from __future__ import annotations

from typing import Annotated

import typer

from laneway.cli.connections import with_connection
from laneway.cli.output import Output
from laneway.domain.errors import LanewayError, ScheduleNotFound
from laneway.library.connection import Connection

schedule = typer.Typer(
    no_args_is_help=True, help="List, run, pause and resume periodic jobs.", rich_markup_mode=None
)

ScheduleName = Annotated[str, typer.Argument(metavar="name", help="Name of the periodic job.")]
QueueOf = Annotated[
    str | None,
    typer.Option("--queue", help="Its queue (needed if several have a job of the name)."),
]

_COLUMNS = ("name", "queue", "expression", "fired_for", "fired_at", "paused_at")


@schedule.command("list")
@with_connection
async def list_(
    connection: Connection,
    output: Output,
    *,
    queue: Annotated[str | None, typer.Option(help="Show only jobs of this queue.")] = None,
) -> None:
    """List the periodic jobs that workers have registered."""
    output.rows([item._asdict() for item in await connection.admin.list_schedules(queue)], _COLUMNS)


@schedule.command("run")
@with_connection
async def run(
    connection: Connection, output: Output, name: ScheduleName, *, queue: QueueOf = None
) -> None:
    """Enqueue a periodic job's message now, even if it is paused, and print the message's id."""
    place = queue or await _find_queue(connection, name)
    message = await connection.admin.run_schedule(name, queue=place)
    output.done(str(message), name=name, queue=place, id=str(message))


@schedule.command("pause")
@with_connection
async def pause(
    connection: Connection, output: Output, name: ScheduleName, *, queue: QueueOf = None
) -> None:
    """Pause a periodic job: its times pass without a message."""
    place = queue or await _find_queue(connection, name)
    since = await connection.admin.pause_schedule(name, queue=place)
    output.done(f"schedule {name} of queue {place} paused", name=name, queue=place, paused_at=since)


@schedule.command("resume")
@with_connection
async def resume(
    connection: Connection, output: Output, name: ScheduleName, *, queue: QueueOf = None
) -> None:
    """Resume a paused periodic job, from its next time on."""
    place = queue or await _find_queue(connection, name)
    await connection.admin.resume_schedule(name, queue=place)
    output.done(f"schedule {name} of queue {place} resumed", name=name, queue=place)


async def _find_queue(connection: Connection, name: str) -> str:
    """Return the queue of the only job of this name."""
    found = [item.queue for item in await connection.admin.list_schedules() if item.name == name]
    if not found:
        raise ScheduleNotFound(schedule=name)
    if len(found) > 1:
        raise LanewayError(
            f"several queues have a schedule {name}: {', '.join(found)}. Name one with --queue"
        )
    return found[0]
