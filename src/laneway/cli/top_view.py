"""The tables that `laneway top` shows of queues and workers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from laneway.cli.output import count
from laneway.domain.escapes import escape

if TYPE_CHECKING:
    from laneway.domain.statistics import QueueMetrics
    from laneway.domain.workers import WorkerInfo

_MOST_ROWS = 30


def draw(queues: list[QueueMetrics], workers: list[WorkerInfo]) -> Group:
    now = datetime.now(UTC)
    busy = sorted(queues, key=lambda item: (-item.total, -item.settled_per_second, item.queue))
    of_queues = Table(title=f"{count(len(queues), 'queue')} at {now:%H:%M:%S} UTC", expand=True)
    of_queues.add_column("queue")
    for column in ("pending", "locked", "dead", "in/s", "out/s", "oldest"):
        of_queues.add_column(column, justify="right")
    for item in busy[:_MOST_ROWS]:
        of_queues.add_row(
            Text(escape(item.queue)),
            f"{item.pending:,}",
            f"{item.locked:,}",
            Text(f"{item.dead:,}", style="red" if item.dead else ""),
            f"{item.pushed_per_second:,.1f}",
            f"{item.settled_per_second:,.1f}",
            _age(now, item.oldest),
        )
    of_workers = Table(title=f"{count(len(workers), 'worker')}", expand=True)
    for column in ("worker", "host", "queues", "state"):
        of_workers.add_column(column)
    for column in ("in flight", "handled", "failed", "heartbeat"):
        of_workers.add_column(column, justify="right")
    for worker in workers[:_MOST_ROWS]:
        of_workers.add_row(
            Text(escape(worker.worker_id)),
            Text(escape(f"{worker.host}:{worker.pid}")),
            Text(escape(", ".join(worker.queues))),
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
