"""The command `laneway top`: queues and workers, live."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from laneway.cli.connections import with_connection
from laneway.cli.known_settings import LONGEST
from laneway.cli.output import Output
from laneway.domain.workers import WorkerState
from laneway.library.connection import Connection


@with_connection
async def top(
    connection: Connection,
    output: Output,
    *,
    interval: Annotated[
        float, typer.Option(min=0.1, max=LONGEST, help="Seconds between updates.")
    ] = 1,
    updates: Annotated[
        int | None,
        typer.Option("--updates", "--looks", min=1, help="Number of updates (default: unlimited)."),
    ] = None,
) -> None:
    """Show queues, rates, the oldest message's age, and workers, until Ctrl-C.

    With --format json, each update is one line. Without a terminal, each is printed after the last.
    """
    from rich.console import Console
    from rich.live import Live

    from laneway.cli.top_view import draw

    live = None
    if not output.is_json and sys.stdout.isatty():
        live = Live(console=Console(), screen=True, auto_refresh=False)
    number = 0
    try:
        if live is not None:
            live.start()
        while updates is None or number < updates:
            if number:
                await asyncio.sleep(interval)
            number += 1
            queues = await connection.admin.all_queues_metrics()
            workers = await connection.admin.list_workers()
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
