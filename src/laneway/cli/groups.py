"""The commands `laneway group`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import typer

from laneway.cli.connections import with_connection
from laneway.cli.output import Output, count
from laneway.cli.queues import Name, Yes
from laneway.domain.settings import Place
from laneway.library.connection import Connection

group = typer.Typer(
    no_args_is_help=True,
    help="List, create, reposition and delete consumer groups.",
    rich_markup_mode=None,
)

GroupName = Annotated[str, typer.Argument(metavar="group", help="Consumer group.")]

_COLUMNS = ("group", "ordered", "pending", "locked", "dead", "oldest", "created_at")


@group.command("list")
@with_connection
async def list_(connection: Connection, output: Output, name: Name) -> None:
    """List a queue's consumer groups with their counts."""
    rows = []
    for found in await connection.admin.list_groups(name):
        metrics = await connection.admin.queue_metrics(name, group=found.name)
        rows.append(
            {
                "group": found.name,
                "ordered": found.ordered,
                "created_at": found.created_at,
                **metrics._asdict(),
            }
        )
    output.rows(rows, _COLUMNS)


@group.command("create")
@with_connection
async def create(
    connection: Connection,
    output: Output,
    name: Name,
    group_name: GroupName,
    *,
    ordered: Annotated[
        bool | None,
        typer.Option("--ordered/--shared", help="Strict order or not (default: as the queue)."),
    ] = None,
    start: Annotated[
        Literal["all", "new"],
        typer.Option(help="Start with all messages that are kept, or only new ones."),
    ] = "all",
) -> None:
    """Create a consumer group. Exits 4 if it exists."""
    made = await connection.admin.create_group(name, group_name, ordered=ordered, start=start)
    output.done(f"group {made.name} of queue {name} created", queue=name, group=made.name)


@group.command("seek")
@with_connection
async def seek(
    connection: Connection,
    output: Output,
    name: Name,
    group_name: GroupName,
    to: Annotated[
        str,
        typer.Argument(
            help="earliest, latest, a time such as 2026-01-31T12:00:00Z, or a sequence number."
        ),
    ],
    *,
    partition: Annotated[
        str | None, typer.Option(help="Reposition only this partition (default: all).")
    ] = None,
    yes: Yes = False,
) -> None:
    """Reposition a consumer group. Its leases, delays and retries end; dead letters stay."""
    place = _read_place(to)
    if not yes:
        typer.confirm(f"Move group {group_name} of queue {name} to {to}?", abort=True, err=True)
    moved = await connection.admin.seek(name, place, group=group_name, partition=partition)
    output.done(f"group {group_name} of queue {name} moved in {count(moved, 'lane')}", lanes=moved)


@group.command("delete")
@with_connection
async def delete(
    connection: Connection, output: Output, name: Name, group_name: GroupName, *, yes: Yes = False
) -> None:
    """Delete a consumer group with its position and dead letters. Messages stay for other groups."""
    if not yes:
        typer.confirm(f"Delete group {group_name} of queue {name}?", abort=True, err=True)
    await connection.admin.delete_group(name, group_name)
    output.done(f"group {group_name} of queue {name} deleted", queue=name, group=group_name)


def _read_place(text: str) -> Place:
    if text in ("earliest", "latest"):
        return text  # type: ignore[return-value]
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a place: use earliest, latest, a time such as 2026-01-31T12:00:00Z,"
            " or a sequence number"
        ) from None
