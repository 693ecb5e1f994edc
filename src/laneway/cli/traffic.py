"""The commands `laneway enqueue`, `laneway dequeue` and `laneway tail`."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import Annotated, Any

import typer

from laneway.cli.connections import with_lane
from laneway.cli.known_settings import LONGEST
from laneway.cli.output import Output
from laneway.cli.payloads import cut, find_payloads
from laneway.cli.stdio import OutputLost, tell
from laneway.domain.errors import InvalidMessage, LanewayError, LeaseLost
from laneway.library.connection import Connection
from laneway.library.messages import Message

QueueOption = Annotated[str, typer.Option("--queue", help="Queue name.")]

_NOTHING = 6
_LOOK = timedelta(milliseconds=250)
_COLUMNS = ("id", "partition", "priority", "attempt", "created_at", "payload")


@with_lane
async def enqueue(
    lane: Connection,
    output: Output,
    payload: Annotated[
        str | None,
        typer.Argument(
            help="Payload as JSON, or - for one JSON payload per line of standard input."
        ),
    ] = None,
    *,
    queue: QueueOption = "default",
    messages: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of messages (default: 1, or 500 generated messages without a payload).",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, max=10_000, help="Messages per batch.")] = 50,
    priority: Annotated[int, typer.Option(min=0, help="Priority.")] = 0,
    partition: Annotated[str, typer.Option("--partition", "--type", help="Partition.")] = "",
    delay: Annotated[
        float, typer.Option(min=0, max=LONGEST, help="Seconds before the messages are delivered.")
    ] = 0,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream", help="With -: enqueue lines as they are read, without checking all."
        ),
    ] = False,
) -> None:
    """Enqueue messages: a payload, lines of standard input, or generated messages.

    Standard input is checked to its end before anything is enqueued. If it is larger than 16 MiB, or
    with --stream, lines are enqueued as they are read. If a line is not JSON, the command exits 2 if
    nothing was enqueued, else 1.
    """
    from rich.console import Console
    from rich.progress import Progress

    producer = lane.producer(queue)
    pushed: list[str] = []
    total, items = await find_payloads(payload, messages, stream=stream)
    wait = timedelta(seconds=delay) if delay else None
    with Progress(disable=not sys.stderr.isatty(), console=Console(stderr=True)) as progress:
        bar = progress.add_task("enqueueing", total=total)
        try:
            async for batch in cut(items, batch_size):
                ids = await producer.batch_enqueue(
                    batch, priority=priority, partition=partition, delay=wait
                )
                pushed += map(str, ids)
                progress.advance(bar, len(ids))
        except BaseException as error:
            if not pushed:
                raise
            progress.stop()
            tell(f"laneway: {len(pushed)} messages enqueued to {queue} before the error")
            # Exit code 2 of these errors means that nothing was done, so it becomes 1.
            if isinstance(error, typer.BadParameter | InvalidMessage):
                raise LanewayError(str(error)) from error
            raise
    text = pushed[0] if len(pushed) == 1 else f"{len(pushed)} messages enqueued to {queue}"
    output.done(text, queue=queue, pushed=len(pushed), ids=pushed)


@with_lane
async def dequeue(
    lane: Connection,
    output: Output,
    *,
    queue: QueueOption = "default",
    count: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of messages.")] = 10,
    timeout: Annotated[
        float, typer.Option(min=0, max=LONGEST, help="Seconds to wait for a message.")
    ] = 30,
    ack_timeout: Annotated[
        float, typer.Option(min=0.001, max=LONGEST, help="Lease duration in seconds.")
    ] = 30,
    consumer: Annotated[
        str | None, typer.Option(help="Consumer name in activity (default: a generated name).")
    ] = None,
    ack: Annotated[bool, typer.Option("--ack", help="Ack messages after printing them.")] = False,
) -> None:
    """Dequeue messages and print them. Exits 6 if none arrives in time.

    With --ack, messages are acked after printing. Messages that cannot be printed are released.
    """
    reader = lane.consumer(queue, name=consumer)
    messages = await reader.dequeue_many(
        count, timedelta(seconds=ack_timeout), wait=timedelta(seconds=timeout)
    )
    try:
        output.rows([_show(message, output) for message in messages], _COLUMNS)
    except OutputLost:
        await lane.backend.release([message.receipt for message in messages])
        raise
    if not messages:
        raise typer.Exit(_NOTHING)
    lost = (await reader.delete_many(messages)).count(False) if ack else 0
    if lost:
        raise LeaseLost(
            f"{lost} of {len(messages)} messages not acked, because their leases had expired; they are "
            "delivered again. Use a longer --ack-timeout"
        )


@with_lane
async def tail(
    lane: Connection,
    output: Output,
    queue: Annotated[str, typer.Argument(help="Queue name.")],
    *,
    seconds: Annotated[
        float | None, typer.Option(min=0, max=LONGEST, help="Seconds to run (default: unlimited).")
    ] = None,
) -> None:
    """Print a queue's events as they happen, until Ctrl-C."""
    loop = asyncio.get_running_loop()
    end = None if seconds is None else loop.time() + seconds
    seen = (await lane.admin.follow(queue)).seen
    if sys.stderr.isatty():
        tell(f"following {queue}; press Ctrl-C to stop")
    while end is None or loop.time() < end:
        watched = await lane.admin.follow(queue, seen)
        seen = watched.seen
        for item in watched.events:
            if output.is_json:
                output.json(item._asdict())
                continue
            who = f"  by {item.consumer}" if item.consumer else ""
            why = f"  {item.reason}" if item.reason else ""
            some = (
                f"  {item.messages} messages from {item.first}"
                if item.messages > 1
                else f"  {item.first or ''}"
            )
            output.lines(f"{item.at:%H:%M:%S.%f}  {item.kind:<12}{some}{who}{why}")
        if not watched.more:
            await asyncio.sleep(_LOOK.total_seconds())


def _show(message: Message, output: Output) -> dict[str, Any]:
    return {
        "id": str(message.id),
        "queue": message.queue,
        "partition": message.partition,
        "priority": message.priority,
        "attempt": message.attempt,
        "created_at": message.created_at,
        "locked_until": message.locked_until,
        "token": str(message.receipt.token),
        "headers": dict(message.headers),
        "payload": message.payload if output.is_json else message.body,
    }
