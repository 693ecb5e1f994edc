"""The command `laneway demo`: the lifecycle of a message, and a short benchmark."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import typer
from rich.console import Console
from rich.table import Table

from laneway.cli.database import open_connection
from laneway.domain.messages import Nack, OutgoingMessage
from laneway.domain.settings import EngineSettings, QueueSettings
from laneway.engine.broker import Broker
from laneway.sql.migrate import install

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from laneway.domain.settings import ConnectionSettings

BATCHES = 200
BATCH = 100
SINGLES = 64 * 80
CLIENTS = 64
WAIT = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the result: a step, its number of messages and its duration."""

    name: str
    messages: int
    seconds: float


async def run_demo(dsn: str, connections: ConnectionSettings) -> None:
    """Walk through a message's lifecycle and measure throughput, on a temporary queue."""
    async with open_connection(dsn, connections) as connection:
        report = await install(connection)
        version = await connection.fetchval("show server_version")
    typer.echo(f"PostgreSQL {version}, schema version {report.version}\n")
    # A unique name, so that no other queue is touched.
    queue = f"demo-{uuid4().hex[:8]}"
    engine = EngineSettings(connections=connections)
    if not connections.have_sessions:
        engine = engine.without_sessions()
    async with Broker(dsn, engine) as broker:
        await broker.queues.create(queue, QueueSettings(description="laneway demo"))
        try:
            await _show_life(broker, queue)
            typer.echo("\nrunning the benchmark …")
            _show_steps([step async for step in _measure(broker, queue)])
        finally:
            await broker.queues.delete(queue, force=True)


async def _show_life(broker: Broker, queue: str) -> None:
    """Walk through one message's lifecycle: push, claim, nack, claim again, ack."""
    body = json.dumps({"to": "ada@example.org"})
    (pushed,) = await broker.push(queue, [OutgoingMessage(body, partition="mail", priority=5)])
    typer.echo(f"pushed    {pushed.id}  {body}")
    (first,) = await broker.claim(queue, consumer="worker-1", wait=WAIT)
    typer.echo(f"claimed   {first.id}  attempt {first.attempt}, token {first.token}")
    await broker.nack([Nack(*first.receipt, reason="mail server unreachable")])
    typer.echo(f"nacked    {first.id}  mail server unreachable")
    (second,) = await broker.claim(queue, consumer="worker-2", wait=WAIT)
    typer.echo(f"claimed   {second.id}  attempt {second.attempt}, token {second.token}")
    lost = await broker.ack([first.receipt])
    typer.echo(f"late ack  {first.id}  {'refused' if lost else 'accepted'}: worker-2 has the lease")
    await broker.ack([second.receipt])
    typer.echo(f"acked     {second.id}")


async def _measure(broker: Broker, queue: str) -> AsyncIterator[Step]:
    message = OutgoingMessage(json.dumps({"text": "x" * 188}))
    batch = [message] * BATCH

    async def push(messages: list[OutgoingMessage], share: int) -> None:
        for _ in range(share):
            await broker.push(queue, messages)

    async def work(size: int) -> None:
        while deliveries := await broker.claim(queue, size):
            await broker.ack([delivery.receipt for delivery in deliveries])

    yield await _time(
        "push, batches of 100", BATCHES * BATCH, *(push(batch, BATCHES // 4) for _ in range(4))
    )
    yield await _time(
        "claim and ack, batches of 100", BATCHES * BATCH, *(work(BATCH) for _ in range(4))
    )
    yield await _time(
        f"push one by one, {CLIENTS} producers",
        SINGLES,
        *(push([message], SINGLES // CLIENTS) for _ in range(CLIENTS)),
    )
    yield await _time(
        f"claim and ack one by one, {CLIENTS} workers", SINGLES, *(work(1) for _ in range(CLIENTS))
    )


async def _time(name: str, messages: int, *clients: Awaitable[None]) -> Step:
    start = time.perf_counter()
    await asyncio.gather(*clients)
    return Step(name, messages, time.perf_counter() - start)


def _show_steps(steps: list[Step]) -> None:
    table = Table(title="200-byte messages, durable, on this machine")
    table.add_column("step")
    for column in ("messages", "seconds", "messages/s"):
        table.add_column(column, justify="right")
    for step in steps:
        table.add_row(
            step.name,
            f"{step.messages:,}",
            f"{step.seconds:.2f}",
            f"{step.messages / step.seconds:,.0f}",
        )
    Console().print(table)
