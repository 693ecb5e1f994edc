"""What `laneway admin stats` and `laneway admin reclaim` do."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from laneway.cli.lanes import with_lane
from laneway.cli.output import Output
from laneway.library.connection import Connection


@with_lane
async def stats(lane: Connection, output: Output) -> None:
    """Show the whole database at a glance."""
    output.one((await lane.admin.system_stats())._asdict())


@with_lane
async def reclaim(
    lane: Connection,
    output: Output,
    worker_id: Annotated[
        str | None, typer.Argument(help="One worker; without it, all that are silent too long.")
    ] = None,
    *,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="Seconds of silence; each one's own without it.")
    ] = None,
) -> None:
    """Take from workers that died what they have in hand, so that others get it."""
    if worker_id is not None:
        back = {worker_id: await lane.admin.reclaim(worker_id)}
    else:
        silence = None if timeout is None else timedelta(seconds=timeout)
        back = await lane.admin.reclaim_dead(silence)
    total = sum(back.values())
    output.done(f"{len(back)} workers reclaimed, {total} messages come again", reclaimed=back)
