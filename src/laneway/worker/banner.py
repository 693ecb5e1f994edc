"""The lines that a worker logs when it starts and when it has stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.dsn import hide_password
from laneway.worker.handlers import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laneway.library.connection import Target
    from laneway.worker.handlers import Handler
    from laneway.worker.schedules import Schedule


def describe_start(
    worker_id: str, target: Target, handlers: Iterable[Handler], schedules: Iterable[Schedule]
) -> list[str]:
    kind = "server" if target.is_server else "database"
    place = target.address.rpartition("@")[2] if target.is_server else hide_password(target.address)
    lines = [f"worker {worker_id} is ready, on {kind} {place}"]
    lines += [
        f"queue {handler.queue}: {handler.partition or name_of(handler.function)},"
        f" up to {handler.concurrency} at a time"
        for handler in handlers
    ]
    lines += [
        f"schedule {schedule.name}: {schedule.cron.expression}, to queue {schedule.queue}"
        for schedule in schedules
    ]
    return lines


def describe_end(worker_id: str, *, handled: int, failed: int, seconds: float) -> str:
    messages = "1 message" if handled == 1 else f"{handled} messages"
    return f"worker {worker_id} stopped after {seconds:.1f} s: {messages} handled, {failed} failed"
