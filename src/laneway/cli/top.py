"""What `laneway top` shows: queues and workers, live."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from laneway.cli.lanes import with_lane
from laneway.cli.output import Output
from laneway.domain.statistics import QueueMetrics
from laneway.domain.workers import WorkerInfo, WorkerState
from laneway.library.connection import Connection

_MOST_ROWS = 30


@with_lane
async def top(
    lane: Connection,
    output: Output,
    *,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1,
    looks: Annotated[int | None, typer.Option(min=1, help="Stop after so many.")] = None,
) -> None:
    """Show queues, rates, the oldest message's age, and workers, until Ctrl-C.

    With --format json, or where there is no terminal, one line or picture for each look.
    """
    live = None
    if not output.is_json and sys.stdout.isatty():
        live = Live(console=Console(), screen=True, auto_refresh=False)
    number = 0
    try:
        if live is not None:
            live.start()
        while looks is None or number < looks:
            if number:
                await asyncio.sleep(interval)
            number += 1
            queues = await lane.admin.all_queues_metrics()
            workers = await lane.admin.list_workers()
            workers = [item for item in workers if item.state is not WorkerState.STOPPED]
            if output.is_json:
                output.json(
                    {
                        "queues": [item._asdict() for item in queues],
                        "workers": [item._asdict() for item in workers],
                    }
                )
            elif live is not None:
                live.update(draw(queues, workers), refresh=True)
            else:
                Console().print(draw(queues, workers))
    finally:
        if live is not None:
            live.stop()


def draw(queues: list[QueueMetrics], workers: list[WorkerInfo]) -> Group:
    now = datetime.now(UTC)
    busy = sorted(queues, key=lambda item: (-item.total, -item.settled_per_second, item.queue))
    of_queues = Table(title=f"{len(queues)} queues at {now:%H:%M:%S} UTC", expand=True)
    of_queues.add_column("queue")
    for column in ("pending", "locked", "dead", "in/s", "out/s", "oldest"):
        of_queues.add_column(column, justify="right")
    for item in busy[:_MOST_ROWS]:
        of_queues.add_row(
            Text(item.queue),
            f"{item.pending:,}",
            f"{item.locked:,}",
            Text(f"{item.dead:,}", style="red" if item.dead else ""),
            f"{item.pushed_per_second:,.1f}",
            f"{item.settled_per_second:,.1f}",
            _age(now, item.oldest),
        )
    of_workers = Table(title=f"{len(workers)} workers", expand=True)
    for column in ("worker", "host", "queues", "state"):
        of_workers.add_column(column)
    for column in ("held", "handled", "failed", "heard of"):
        of_workers.add_column(column, justify="right")
    for worker in workers[:_MOST_ROWS]:
        of_workers.add_row(
            Text(worker.worker_id),
            Text(f"{worker.host}:{worker.pid}"),
            Text(", ".join(worker.queues)),
            worker.state,
            f"{worker.held:,}",
            f"{worker.handled:,}",
            f"{worker.failed:,}",
            Text(f"{worker.silence.total_seconds():.1f} s", style="" if worker.healthy else "red"),
        )
    return Group(of_queues, of_workers)


def _age(now: datetime, since: datetime | None) -> str:
    if since is None:
        return ""
    seconds = max((now - since).total_seconds(), 0)
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} s"
