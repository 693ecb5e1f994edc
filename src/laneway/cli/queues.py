"""What `laneway queue` does."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from laneway.cli.connections import with_lane
from laneway.cli.output import Output
from laneway.cli.settings import LONGEST
from laneway.domain.messages import Status, StoredMessage
from laneway.domain.settings import QueueKind, QueueSettings
from laneway.library.connection import Connection

queue = typer.Typer(
    no_args_is_help=True, help="Make, look at, empty and delete queues.", rich_markup_mode=None
)
dlq = typer.Typer(no_args_is_help=True, help="Look after dead letters.", rich_markup_mode=None)
queue.add_typer(dlq, name="dlq")

Name = Annotated[str, typer.Argument(help="The queue's name.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

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
_MESSAGES = ("id", "partition", "priority", "attempt", "created_at", "consumer", "error", "body")


@queue.command("create")
@with_lane
async def create(
    lane: Connection,
    output: Output,
    name: Name,
    *,
    kind: Annotated[QueueKind, typer.Option(help="What kind of queue.")] = "standard",
    ordered: Annotated[bool, typer.Option("--ordered", help="Strictly in order by lane.")] = False,
    lock_time: Annotated[
        float, typer.Option(min=0.001, max=LONGEST, help="How long a lock lasts, in seconds.")
    ] = 30,
    max_attempts: Annotated[
        int, typer.Option(min=0, help="Deliveries until a message is dead; 0: without end.")
    ] = 3,
    backoff: Annotated[
        float, typer.Option(min=0, max=LONGEST, help="Wait after a failure, in seconds.")
    ] = 0,
    durable_claims: Annotated[
        bool, typer.Option(help="Whether a claim survives a crash of PostgreSQL.")
    ] = True,
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
) -> None:
    """Make a queue; exits 4 if there is one of that name."""
    made = await lane.admin.create_queue(
        name,
        QueueSettings(
            kind=kind,
            ordered=ordered,
            lease=timedelta(seconds=lock_time),
            max_attempts=max_attempts or None,
            backoff=timedelta(seconds=backoff),
            durable_claims=durable_claims,
            description=description,
        ),
    )
    output.done(f"queue {name} is made", name=made.name, queue_id=made.queue_id)


@queue.command("list")
@with_lane
async def list_(lane: Connection, output: Output) -> None:
    """List the queues, with how many messages each has."""
    rows = [metrics._asdict() for metrics in await lane.admin.all_queues_metrics()]
    output.rows(rows, _METRICS)


@queue.command("get")
@with_lane
async def get(lane: Connection, output: Output, name: Name) -> None:
    """Show a queue's settings; exits 3 if there is none of that name."""
    found = await lane.admin.get_queue(name)
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
@with_lane
async def metrics(
    lane: Connection,
    output: Output,
    name: Annotated[str | None, typer.Argument(help="The queue's name; all without one.")] = None,
) -> None:
    """Show how a queue stands, or all."""
    if name is None:
        rows = [item._asdict() for item in await lane.admin.all_queues_metrics()]
        output.rows(rows, _METRICS)
    else:
        output.one((await lane.admin.queue_metrics(name))._asdict())


@queue.command("messages")
@with_lane
async def messages(
    lane: Connection,
    output: Output,
    name: Name,
    *,
    status: Annotated[Status, typer.Option(help="Of which state.")] = Status.QUEUED,
    limit: Limit = 20,
    offset: Annotated[int, typer.Option(min=0, help="Pass over so many.")] = 0,
) -> None:
    """List a queue's messages of one state, newest first."""
    found = await lane.admin.messages(name, status, limit=limit, offset=offset)
    output.rows([show_message(message) for message in found], _MESSAGES)


@queue.command("purge")
@with_lane
async def purge(
    lane: Connection,
    output: Output,
    name: Name,
    *,
    status: Annotated[Status | None, typer.Option(help="Only of this state.")] = None,
    yes: Yes = False,
) -> None:
    """Delete a queue's messages, whatever their state or those of one."""
    if not yes:
        typer.confirm(f"Delete the messages of {name}?", abort=True, err=True)
    purged = await lane.admin.purge_queue(name, status=status)
    output.done(f"{purged} messages are deleted", deleted=purged)


@queue.command("delete")
@with_lane
async def delete(
    lane: Connection,
    output: Output,
    name: Name,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Also with messages or unfinished runs in it.")
    ] = False,
) -> None:
    """Delete a queue; exits 4 while messages or unfinished runs are left in it, unless forced."""
    await lane.admin.delete_queue(name, force=force)
    output.done(f"queue {name} is deleted", name=name)


@dlq.command("list")
@with_lane
async def dlq_list(lane: Connection, output: Output, name: Name, *, limit: Limit = 20) -> None:
    """List dead letters, newest first, each with its reason."""
    found = await lane.admin.dlq_list(name, limit=limit)
    output.rows([show_message(message) for message in found], _MESSAGES)


@dlq.command("replay")
@with_lane
async def dlq_replay(
    lane: Connection,
    output: Output,
    name: Name,
    *,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
) -> None:
    """Put dead letters back, oldest first, attempts from zero."""
    replayed = await lane.admin.dlq_replay(name, limit=limit)
    output.done(f"{replayed} messages come again", replayed=replayed)


@dlq.command("purge")
@with_lane
async def dlq_purge(lane: Connection, output: Output, name: Name, *, yes: Yes = False) -> None:
    """Delete dead letters."""
    if not yes:
        typer.confirm(f"Delete the dead letters of {name}?", abort=True, err=True)
    purged = await lane.admin.dlq_purge(name)
    output.done(f"{purged} dead letters are deleted", deleted=purged)


def show_message(message: StoredMessage) -> dict[str, object]:
    row = message._asdict()
    for inner in ("text_id", "queue_id", "group_id", "segment", "lane", "seq"):
        del row[inner]
    return {"id": message.text_id, **row}
