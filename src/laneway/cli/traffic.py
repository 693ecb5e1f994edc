"""What `laneway enqueue`, `dequeue` and `tail` do."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from typing import Annotated, Any

import typer

from laneway.cli.lanes import with_lane
from laneway.cli.output import Output
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
    delay: Annotated[float, typer.Option(min=0, help="Handed out in so many seconds.")] = 0,
) -> None:
    """Push messages: one's own, or made-up ones."""
    from rich.console import Console
    from rich.progress import Progress

    producer = lane.producer(queue)
    pushed: list[str] = []
    total, items = _find_payloads(payload, messages)
    wait = timedelta(seconds=delay) if delay else None
    with Progress(disable=not sys.stderr.isatty(), console=Console(stderr=True)) as progress:
        bar = progress.add_task("pushing", total=total)
        while batch := list(islice(items, batch_size)):
            ids = await producer.batch_enqueue(
                batch, priority=priority, partition=partition, delay=wait
            )
            pushed += map(str, ids)
            progress.advance(bar, len(ids))
    text = pushed[0] if len(pushed) == 1 else f"{len(pushed)} messages are pushed to {queue}"
    output.done(text, queue=queue, pushed=len(pushed), ids=pushed)


@with_lane
async def dequeue(
    lane: Connection,
    output: Output,
    *,
    queue: QueueOption = "default",
    count: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 10,
    timeout: Annotated[float, typer.Option(min=0, help="Wait so many seconds for one.")] = 30,
    ack_timeout: Annotated[
        float, typer.Option(min=0.001, help="How long they are locked, in seconds.")
    ] = 30,
    consumer: Annotated[str | None, typer.Option(help="Who takes them.")] = None,
    ack: Annotated[bool, typer.Option("--ack", help="Settle them at once.")] = False,
) -> None:
    """Take messages and print them; exits 6 if none came in time."""
    taker = lane.consumer(queue, name=consumer)
    taken = await taker.dequeue_many(
        count, timedelta(seconds=ack_timeout), wait=timedelta(seconds=timeout)
    )
    if ack:
        await taker.delete_many(taken)
    output.rows([_show(message) for message in taken], _COLUMNS)
    if not taken:
        raise typer.Exit(_NOTHING)


@with_lane
async def tail(
    lane: Connection,
    output: Output,
    queue: Annotated[str, typer.Argument(help="The queue.")],
    *,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after so long.")] = None,
) -> None:
    """Print what happens in a queue, as it happens, until Ctrl-C."""
    loop = asyncio.get_running_loop()
    end = None if seconds is None else loop.time() + seconds
    seen = (await lane.admin.follow(queue)).seen
    if sys.stderr.isatty():
        typer.echo(f"following {queue}; Ctrl-C ends", err=True)
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
            typer.echo(f"{item.at:%H:%M:%S.%f}  {item.kind:<12}{some}{who}{why}")
        if not watched.more:
            await asyncio.sleep(_LOOK.total_seconds())


def _find_payloads(payload: str | None, messages: int | None) -> tuple[int | None, Iterator[Any]]:
    """Return how many there are, where that is known, and what they are."""
    if payload == "-":
        lines = (line for line in sys.stdin if line.strip())
        return None, (_read(line, number) for number, line in enumerate(lines, 1))
    if payload is None:
        count = messages or 500
        return count, ({"message": number, "text": "made up by laneway"} for number in range(count))
    count = messages or 1
    value = _read(payload, 1)
    return count, (value for _ in range(count))


def _read(text: str, number: int) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"payload {number} is not JSON: {error}") from error


def _show(message: Message) -> dict[str, Any]:
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
        "payload": message.payload,
    }
