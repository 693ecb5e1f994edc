"""The commands `laneway queue`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, cast

import typer

from laneway.cli.connections import with_connection
from laneway.cli.known_settings import LONGEST
from laneway.cli.output import Output, count
from laneway.domain.errors import Conflict, QueueExists
from laneway.domain.messages import Status, StoredMessage
from laneway.domain.settings import QueueKind, QueueSettings
from laneway.library.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.settings import QueueChanges

queue = typer.Typer(
    no_args_is_help=True,
    help="Create, inspect, change, purge and delete queues.",
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(help="Queue name.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of messages.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]

_METRICS = (
    "queue",
    "pending",
    "delayed",
    "locked",
    "dead",
    "archived",
    "oldest",
    "pushed_per_second",
    "settled_per_second",
)
MESSAGE_COLUMNS = (
    "id",
    "partition",
    "priority",
    "attempt",
    "created_at",
    "consumer",
    "error",
    "body",
)


BACKOFF = (
    "Delay after the first failed attempt in seconds; doubles with each one, up to 10 minutes."
)

Traceback = Annotated[
    bool,
    typer.Option("--traceback", help="Print the error of each message in full, below the table."),
]


@queue.command("create")
@with_connection
async def create(
    connection: Connection,
    output: Output,
    name: Name,
    *,
    kind: Annotated[QueueKind, typer.Option(help="Kind of queue.")] = "standard",
    ordered: Annotated[
        bool, typer.Option("--ordered", help="Deliver each partition in order.")
    ] = False,
    lock_time: Annotated[
        float, typer.Option(min=0.001, max=LONGEST, help="Lease duration in seconds.")
    ] = 30,
    max_attempts: Annotated[
        int,
        typer.Option(
            min=0, max=32_767, help="Attempts before a message is dead-lettered (0: unlimited)."
        ),
    ] = 5,
    backoff: Annotated[float, typer.Option(min=0, max=LONGEST, help=BACKOFF)] = 1,
    durable_claims: Annotated[
        bool, typer.Option(help="Keep leases across a crash of PostgreSQL.")
    ] = True,
    max_bytes: Annotated[
        int, typer.Option(min=1, max=2**31 - 1, help="Maximum size of a payload in bytes.")
    ] = 16_777_216,
    description: Annotated[str | None, typer.Option(help="Description of the queue.")] = None,
    exist_ok: Annotated[
        bool, typer.Option("--exist-ok", help="Leave a queue that exists unchanged, and exit 0.")
    ] = False,
) -> None:
    """Create a queue. Exits 4 if it exists, unless --exist-ok."""
    settings = QueueSettings(
        kind=kind,
        ordered=ordered,
        lease=timedelta(seconds=lock_time),
        max_attempts=max_attempts or None,
        backoff=timedelta(seconds=backoff),
        durable_claims=durable_claims,
        max_bytes=max_bytes,
        description=description,
    )
    outcome = "created"
    try:
        made = await connection.admin.create_queue(name, settings)
    except QueueExists:
        if not exist_ok:
            raise
        made, outcome = await connection.admin.get_queue(name), "exists and is unchanged"
    output.done(f"queue {name} {outcome}", name=made.name, queue_id=made.queue_id)


@queue.command("update")
@with_connection
async def update(
    connection: Connection,
    output: Output,
    name: Name,
    *,
    lock_time: Annotated[
        float | None, typer.Option(min=0.001, max=LONGEST, help="Lease duration in seconds.")
    ] = None,
    max_attempts: Annotated[
        int | None,
        typer.Option(
            min=0, max=32_767, help="Attempts before a message is dead-lettered (0: unlimited)."
        ),
    ] = None,
    backoff: Annotated[
        float | None,
        typer.Option(min=0, max=LONGEST, help=BACKOFF),
    ] = None,
    delay: Annotated[
        float | None,
        typer.Option(min=0, max=LONGEST, help="Delay of every new message in seconds (0: none)."),
    ] = None,
    retention: Annotated[
        float | None,
        typer.Option(
            min=0, max=LONGEST, help="Retention of settled messages in seconds (0: the default)."
        ),
    ] = None,
    dead_letter_queue: Annotated[
        str | None, typer.Option(help="Queue that dead letters move to (empty: none).")
    ] = None,
    durable_claims: Annotated[
        bool | None,
        typer.Option(
            "--durable-claims/--no-durable-claims", help="Keep leases across a crash of PostgreSQL."
        ),
    ] = None,
    description: Annotated[
        str | None, typer.Option(help="Description of the queue (empty: none).")
    ] = None,
) -> None:
    """Change settings of a queue; those that no option names stay. Exits 3 if it does not exist."""
    changes: dict[str, object] = {}
    if lock_time is not None:
        changes["lease"] = timedelta(seconds=lock_time)
    if max_attempts is not None:
        changes["max_attempts"] = max_attempts or None
    if backoff is not None:
        changes["backoff"] = timedelta(seconds=backoff)
    for option, seconds in (("delay", delay), ("retention", retention)):
        if seconds is not None:
            changes[option] = timedelta(seconds=seconds) if seconds else None
    if dead_letter_queue is not None:
        changes["dead_letter_queue"] = dead_letter_queue or None
    if durable_claims is not None:
        changes["durable_claims"] = durable_claims
    if description is not None:
        changes["description"] = description or None
    if not changes:
        raise typer.BadParameter("nothing to change: use an option, such as --max-attempts 5")
    await connection.admin.update_queue(name, cast("QueueChanges", changes))
    output.done(f"queue {name} updated", name=name, changed=sorted(changes))


@queue.command("list")
@with_connection
async def list_(connection: Connection, output: Output) -> None:
    """List queues with their counts and rates."""
    rows = [metrics._asdict() for metrics in await connection.admin.all_queues_metrics()]
    output.rows(rows, _METRICS)


@queue.command("get")
@with_connection
async def get(connection: Connection, output: Output, name: Name) -> None:
    """Show a queue's settings. Exits 3 if it does not exist."""
    found = await connection.admin.get_queue(name)
    settings = {field: getattr(found.settings, field) for field in QueueSettings.__slots__}
    output.one(
        {
            "name": found.name,
            "created_at": found.created_at,
            **settings,
            "groups": list(found.groups),
        }
    )


@queue.command("metrics")
@with_connection
async def metrics(
    connection: Connection,
    output: Output,
    name: Annotated[str | None, typer.Argument(help="Queue name (default: all queues).")] = None,
) -> None:
    """Show the metrics of one queue or of all."""
    if name is None:
        rows = [item._asdict() for item in await connection.admin.all_queues_metrics()]
        output.rows(rows, _METRICS)
    else:
        output.one((await connection.admin.queue_metrics(name))._asdict())


@queue.command("messages")
@with_connection
async def messages(
    connection: Connection,
    output: Output,
    name: Name,
    *,
    status: Annotated[Status, typer.Option(help="Status of the messages.")] = Status.QUEUED,
    limit: Limit = 20,
    offset: Annotated[int, typer.Option(min=0, help="Number of messages to skip.")] = 0,
    traceback: Traceback = False,
) -> None:
    """List a queue's messages of one status, newest first."""
    found = await connection.admin.messages(name, status, limit=limit, offset=offset)
    shown = (*MESSAGE_COLUMNS[:-1], "progress", "note", MESSAGE_COLUMNS[-1])
    columns = shown if status is Status.PROCESSING else MESSAGE_COLUMNS
    show_messages(output, found, columns, traceback=traceback)


@queue.command("cancel")
@with_connection
async def cancel(
    connection: Connection,
    output: Output,
    message: Annotated[str, typer.Argument(help="Message id, such as 2-1-1.")],
) -> None:
    """Cancel a queued or running job: its message becomes a dead letter, its handler is cancelled.

    Exits 4 if the message is neither queued nor in flight.
    """
    if not await connection.job(message).cancel():
        raise Conflict(f"message {message} is neither queued nor in flight")
    output.done(f"message {message} cancelled", id=message)


@queue.command("purge")
@with_connection
async def purge(
    connection: Connection,
    output: Output,
    name: Name,
    *,
    status: Annotated[
        Status | None, typer.Option(help="Delete only messages of this status.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Delete a queue's messages, all or those of one status."""
    if not yes:
        typer.confirm(f"Delete the messages of {name}?", abort=True, err=True)
    purged = await connection.admin.purge_queue(name, status=status)
    output.done(f"{count(purged, 'message')} deleted", deleted=purged)


@queue.command("delete")
@with_connection
async def delete(
    connection: Connection,
    output: Output,
    name: Name,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Delete it even with messages or unfinished runs.")
    ] = False,
) -> None:
    """Delete a queue. Exits 4 if it has messages or unfinished runs, unless --force."""
    await connection.admin.delete_queue(name, force=force)
    output.done(f"queue {name} deleted", name=name)


def show_messages(
    output: Output,
    found: Sequence[StoredMessage],
    columns: Sequence[str] = MESSAGE_COLUMNS,
    *,
    traceback: bool,
) -> None:
    """Print messages and, below the table, the errors in full if asked for."""
    output.rows([_show_message(message) for message in found], columns)
    if traceback and not output.is_json:
        for message in found:
            if message.error:
                output.lines(*f"{message.id}: {message.error}".split("\n"), "")


def _show_message(message: StoredMessage) -> dict[str, object]:
    row = message._asdict()
    for inner in (
        "text_id",
        "queue_id",
        "group_id",
        "segment",
        "lane",
        "seq",
        "headers_text",
        "progress_text",
    ):
        del row[inner]
    share, note = message.progress or (None, None)
    return {
        "id": message.text_id,
        **row,
        "headers": message.headers,
        "progress": share,
        "note": note,
    }
