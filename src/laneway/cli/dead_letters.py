"""The commands `laneway dlq`, which are also `laneway queue dlq`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from laneway.cli.connections import with_connection
from laneway.cli.output import Output, count
from laneway.cli.queues import Limit, Name, Traceback, Yes, show_messages
from laneway.domain.dead_letters import DeadLetterFilter
from laneway.domain.ids import MessageId
from laneway.domain.queues import DEFAULT_GROUP
from laneway.library.arguments import read_id
from laneway.library.connection import Connection

dlq = typer.Typer(
    no_args_is_help=True, help="List, redrive and delete dead letters.", rich_markup_mode=None
)

Ids = Annotated[
    list[str] | None, typer.Option("--id", help="Id of a dead letter; can be repeated.")
]
Signature = Annotated[
    str | None, typer.Option(help="Kind of failure, as `laneway dlq groups` shows it.")
]
Partition = Annotated[str | None, typer.Option("--partition", "--type", help="Partition.")]
Search = Annotated[str | None, typer.Option(help="Text in the reason or the payload.")]
_TIMES = ["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"]
Since = Annotated[
    datetime | None,
    typer.Option(
        formats=_TIMES,
        help="Only dead letters from this time on; local time unless it has an offset.",
    ),
]
Until = Annotated[
    datetime | None,
    typer.Option(
        formats=_TIMES,
        help="Only dead letters up to this time; local time unless it has an offset.",
    ),
]
GroupOption = Annotated[str, typer.Option("--group", help="Consumer group.")]

_FAILURES = ("signature", "messages", "first_at", "last_at", "reason")


@dlq.command("list")
@with_connection
async def list_(
    connection: Connection,
    output: Output,
    name: Name,
    *,
    limit: Limit = 20,
    ids: Ids = None,
    signature: Signature = None,
    partition: Partition = None,
    search: Search = None,
    since: Since = None,
    until: Until = None,
    group: GroupOption = DEFAULT_GROUP,
    traceback: Traceback = False,
) -> None:
    """List dead letters with their failure reasons, newest first.

    With a filter, those that were dead-lettered first come first.
    """
    where = _choose(
        ids=ids,
        signature=signature,
        partition=partition,
        search=search,
        since=since,
        until=until,
    )
    found = await connection.admin.dlq_list(name, where, limit=limit, group=group)
    show_messages(output, found, traceback=traceback)


@dlq.command("groups")
@with_connection
async def groups(
    connection: Connection,
    output: Output,
    name: Name,
    *,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of groups.")] = 20,
    group: GroupOption = DEFAULT_GROUP,
) -> None:
    """Count dead letters by kind of failure, the most frequent first.

    The kind is the reason without numbers, ids, quoted texts, paths and addresses: its signature.
    """
    found = await connection.admin.dlq_groups(name, limit=limit, group=group)
    output.rows([item._asdict() for item in found], _FAILURES)


@dlq.command("redrive")
@with_connection
async def redrive(
    connection: Connection,
    output: Output,
    name: Name,
    *,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of dead letters (default: all).")
    ] = None,
    ids: Ids = None,
    signature: Signature = None,
    partition: Partition = None,
    search: Search = None,
    since: Since = None,
    until: Until = None,
    group: GroupOption = DEFAULT_GROUP,
) -> None:
    """Redrive dead letters, all or those that match, oldest first, with attempts reset."""
    where = _choose(
        ids=ids,
        signature=signature,
        partition=partition,
        search=search,
        since=since,
        until=until,
    )
    redriven = await connection.admin.dlq_redrive(name, where, limit=limit, group=group)
    output.done(f"{count(redriven, 'dead letter')} redriven", redriven=redriven)


@dlq.command("replay")
@with_connection
async def replay(
    connection: Connection,
    output: Output,
    name: Name,
    *,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of dead letters (default: all).")
    ] = None,
) -> None:
    """Redrive dead letters (the former name of redrive)."""
    replayed = await connection.admin.dlq_redrive(name, limit=limit)
    output.done(f"{count(replayed, 'dead letter')} redriven", replayed=replayed)


@dlq.command("purge")
@with_connection
async def purge(
    connection: Connection,
    output: Output,
    name: Name,
    *,
    ids: Ids = None,
    signature: Signature = None,
    partition: Partition = None,
    search: Search = None,
    since: Since = None,
    until: Until = None,
    group: GroupOption = DEFAULT_GROUP,
    yes: Yes = False,
) -> None:
    """Delete a queue's dead letters, all or those that match."""
    where = _choose(
        ids=ids,
        signature=signature,
        partition=partition,
        search=search,
        since=since,
        until=until,
    )
    if not yes:
        which = "the dead letters" if where is None else "the matching dead letters"
        typer.confirm(f"Delete {which} of {name}?", abort=True, err=True)
    purged = await connection.admin.dlq_purge(name, where, group=group)
    output.done(f"{count(purged, 'dead letter')} deleted", deleted=purged)


def _choose(
    *,
    ids: list[str] | None,
    signature: str | None,
    partition: str | None,
    search: str | None,
    since: datetime | None,
    until: datetime | None,
) -> DeadLetterFilter | None:
    """Return the filter; None without any condition."""
    chosen: list[MessageId] | None = [read_id(item) for item in ids] if ids else None
    if chosen is not None and any((signature, partition, search, since, until)):
        raise typer.BadParameter("--id cannot be used with another condition")
    where = DeadLetterFilter(
        chosen,
        signature,
        partition,
        search,
        None if since is None else since.astimezone(),
        None if until is None else until.astimezone(),
    )
    return None if where == DeadLetterFilter() else where
