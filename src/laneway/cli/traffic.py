"""The commands `laneway enqueue`, `laneway dequeue` and `laneway tail`."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any

import typer

from laneway.cli.connections import ChosenQueue, with_connection, with_queue
from laneway.cli.known_settings import LONGEST
from laneway.cli.output import Output, count
from laneway.cli.payloads import cut, find_payloads, make_samples
from laneway.cli.stdio import OutputLost, tell
from laneway.domain.errors import InvalidMessage, LanewayError, LeaseLost
from laneway.domain.ids import MessageId
from laneway.library.connection import Connection
from laneway.library.messages import Message

_NOTHING = 6
# Messages per call, which keeps a request to a server below its limit.
_PER_CALL = 10_000
_LOOK = timedelta(milliseconds=250)
_COLUMNS = ("id", "partition", "priority", "attempt", "created_at", "payload")


@with_queue
async def enqueue(
    connection: Connection,
    output: Output,
    chosen: ChosenQueue,
    payload: Annotated[
        str | None,
        typer.Argument(
            help="Payload as JSON, or - for one JSON payload per line of standard input."
        ),
    ] = None,
    *,
    messages: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of messages (default: 1, or 500 generated messages without a payload).",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, max=10_000, help="Messages per batch.")] = 50,
    priority: Annotated[
        int | None,
        typer.Option(min=0, help="Priority (default: 0; random for generated messages)."),
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option(
            "--partition",
            "--type",
            help="Partition (default: none; one of five types at random for generated messages).",
        ),
    ] = None,
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

    Without --queue, the default queue is created if it is missing.

    Generated messages have random types (email_send, image_process, data_sync, notification, backup)
    and priorities (0 to 9).

    Standard input is checked to its end before anything is enqueued. If it is larger than 16 MiB, or
    with --stream, lines are enqueued as they are read. If a line is not JSON, the command exits 2 if
    nothing was enqueued, else 1.
    """
    from rich.console import Console
    from rich.progress import Progress

    pushed: list[str] = []
    total, items = await find_payloads(payload, messages, stream=stream)
    queue = chosen.name
    producer = connection.producer(queue)
    await chosen.ensure(connection)
    wait = timedelta(seconds=delay) if delay else None

    async def push(batch: list[Any]) -> list[MessageId]:
        if payload is None:
            samples = make_samples(
                batch, partition, priority, levels=connection.target.priority_levels, delay=wait
            )
            return [item.id for item in await connection.backend.push(queue, samples)]
        return await producer.batch_enqueue(
            batch, priority=priority or 0, partition=partition or "", delay=wait
        )

    with Progress(disable=not sys.stderr.isatty(), console=Console(stderr=True)) as progress:
        bar = progress.add_task("enqueueing", total=total)
        try:
            async for batch in cut(items, batch_size):
                ids = await push(batch)
                pushed += map(str, ids)
                progress.advance(bar, len(ids))
        except BaseException as error:
            if not pushed:
                raise
            progress.stop()
            tell(f"laneway: {count(len(pushed), 'message')} enqueued to {queue} before the error")
            # Exit code 2 of these errors means that nothing was done, so it becomes 1.
            if isinstance(error, typer.BadParameter | InvalidMessage):
                raise LanewayError(str(error)) from error
            raise
    text = pushed[0] if len(pushed) == 1 else f"{len(pushed)} messages enqueued to {queue}"
    output.done(text, queue=queue, pushed=len(pushed), ids=pushed)


@with_queue
async def dequeue(
    connection: Connection,
    output: Output,
    chosen: ChosenQueue,
    *,
    most: Annotated[
        int, typer.Option("--count", min=1, max=1_000_000, help="Maximum number of messages.")
    ] = 10,
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
    reader = connection.consumer(chosen.name, name=consumer)
    await chosen.ensure(connection)
    messages: list[Message] = []
    wait = timedelta(seconds=timeout)
    try:
        while (missing := min(most - len(messages), _PER_CALL)) > 0:
            found = await reader.dequeue_many(missing, timedelta(seconds=ack_timeout), wait=wait)
            messages += found
            if len(found) < missing:
                break
            wait = timedelta(0)
        output.rows([_show(message, output) for message in messages], _COLUMNS)
    except (OutputLost, LanewayError, asyncio.CancelledError):
        with suppress(LanewayError):
            await connection.backend.release([message.receipt for message in messages])
        raise
    if not messages:
        raise typer.Exit(_NOTHING)
    lost = 0
    for start in range(0, len(messages) if ack else 0, _PER_CALL):
        acked = await reader.delete_many(messages[start : start + _PER_CALL])
        lost += acked.count(False)
    if lost:
        raise LeaseLost(
            f"{lost} of {count(len(messages), 'message')} not acked, because the lease had expired; they"
            " are delivered again. Use a longer --ack-timeout"
        )


@with_connection
async def tail(
    connection: Connection,
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
    seen = (await connection.admin.follow(queue)).seen
    if sys.stderr.isatty():
        tell(f"following {queue}; press Ctrl-C to stop")
    while end is None or loop.time() < end:
        watched = await connection.admin.follow(queue, seen)
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
