"""Metrics for people."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from laneway.domain.activity import Snapshot


class QueueMetrics(NamedTuple):
    """The metrics of a group. total: pending and locked; rates are of the last minute."""

    queue: str
    total: int
    pending: int
    delayed: int
    locked: int
    acknowledged: int
    archived: int
    dead: int
    oldest: datetime | None
    newest: datetime | None
    pushed_per_second: float
    settled_per_second: float


class SystemStats(NamedTuple):
    """Metrics of the whole database. bytes: the size of the schema's tables."""

    queues: int
    pending: int
    locked: int
    dead: int
    archived: int
    workers: int
    runs: int
    version: int
    bytes: int
    postgres: str


class QueueEvent(NamedTuple):
    """An event about messages of a queue; first and last are their ids."""

    at: datetime
    kind: str
    group: str | None
    partition: str | None
    messages: int
    first: str | None
    last: str | None
    attempt: int | None
    consumer: str | None
    reason: str | None


class QueueEvents(NamedTuple):
    """The events since the last look; the next look starts at `seen`."""

    events: list[QueueEvent]
    seen: Snapshot
    more: bool
