"""What `laneway enqueue`, `dequeue` and `tail` do."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import Annotated, Any

import typer

from laneway.cli.connections import with_lane
from laneway.cli.output import Output
from laneway.cli.payloads import cut, find_payloads
from laneway.cli.settings import LONGEST
from laneway.cli.stdio import OutputLost, tell
from laneway.domain.errors import InvalidMessage, LanewayError, LeaseLost
from laneway.library.connection import Connection
from laneway.library.messages import Message

QueueOption = Annotated[str, typer.Option("--queue", help="The queue.")]

_NOTHING = 6
_LOOK = timedelta(milliseconds=250)
_COLUMNS = ("id", "partition", "priority", "attempt", "created_at", "payload")


@with_lane
async def enqueue(
    lane: Connection,
    output: Output,
    payload: Annotated[
        str | None,
        typer.Argument(help="JSON to push; - reads a JSON text from each line of standard input."),
    ] = None,
    *,
    queue: QueueOption = "default",
    messages: Annotated[
        int | None,
        typer.Option(min=1, help="How many; without a payload made-up ones.  [default: 1 or 500]"),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, max=10_000, help="So many at once.")] = 50,
    priority: Annotated[int, typer.Option(min=0, help="Their priority.")] = 0,
    partition: Annotated[str, typer.Option("--partition", "--type", help="Their partition.")] = "",
    delay: Annotated[
        float, typer.Option(min=0, max=LONGEST, help="Handed out in so many seconds.")
    ] = 0,
    stream: Annotated[
        bool, typer.Option("--stream", help="With -: push lines as they come, not once all are.")
    ] = False,
) -> None:
    """Push messages: one's own, or made-up ones.

    Standard input is read and checked to its end before anything is pushed (where it is larger
    than 16 MiB, or with --stream, it is pushed as it is read): a line that is not JSON exits 2 if
    nothing is pushed, and 1 if the lines before it are.
    """
    from rich.console import Console
    from rich.progress import Progress

    producer = lane.producer(queue)
    pushed: list[str] = []
    total, items = await find_payloads(payload, messages, stream=stream)
    wait = timedelta(seconds=delay) if delay else None
    with Progress(disable=not sys.stderr.isatty(), console=Console(stderr=True)) as progress:
        bar = progress.add_task("pushing", total=total)
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
            tell(f"laneway: {len(pushed)} messages are pushed to {queue}, then it ended")
            # Such calls do nothing otherwise, and their code says so.
            if isinstance(error, typer.BadParameter | InvalidMessage):
                raise LanewayError(str(error)) from error
            raise
    text = pushed[0] if len(pushed) == 1 else f"{len(pushed)} messages are pushed to {queue}"
    output.done(text, queue=queue, pushed=len(pushed), ids=pushed)


@with_lane
async def dequeue(
    lane: Connection,
    output: Output,
    *,
    queue: QueueOption = "default",
    count: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 10,
    timeout: Annotated[
        float, typer.Option(min=0, max=LONGEST, help="Wait so many seconds for one.")
    ] = 30,
    ack_timeout: Annotated[
        float, typer.Option(min=0.001, max=LONGEST, help="How long they are locked, in seconds.")
    ] = 30,
    consumer: Annotated[str | None, typer.Option(help="Who takes them.")] = None,
    ack: Annotated[bool, typer.Option("--ack", help="Settle them once they are printed.")] = False,
) -> None:
    """Take messages and print them; exits 6 if none came in time.

    With --ack they are settled once they are printed; what cannot be printed is given back.
    """
    taker = lane.consumer(queue, name=consumer)
    taken = await taker.dequeue_many(
        count, timedelta(seconds=ack_timeout), wait=timedelta(seconds=timeout)
    )
    try:
        output.rows([_show(message, output) for message in taken], _COLUMNS)
    except OutputLost:
        await lane.backend.release([message.receipt for message in taken])
        raise
    if not taken:
        raise typer.Exit(_NOTHING)
    lost = (await taker.delete_many(taken)).count(False) if ack else 0
    if lost:
        raise LeaseLost(
            f"{lost} of the {len(taken)} messages come again: their locks ended before they were "
            "settled; say a longer --ack-timeout"
        )


@with_lane
async def tail(
    lane: Connection,
    output: Output,
    queue: Annotated[str, typer.Argument(help="The queue.")],
    *,
    seconds: Annotated[
        float | None, typer.Option(min=0, max=LONGEST, help="Stop after so long.")
    ] = None,
) -> None:
    """Print what happens in a queue, as it happens, until Ctrl-C."""
    loop = asyncio.get_running_loop()
    end = None if seconds is None else loop.time() + seconds
    seen = (await lane.admin.follow(queue)).seen
    if sys.stderr.isatty():
        tell(f"following {queue}; Ctrl-C ends")
    while end is None or loop.time() < end:
        watched = await lane.admin.follow(queue, seen)
        seen = watched.seen
        for item in watched.happenings:
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
