"""Numbers that a person looks at."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from laneway.domain.activity import Snapshot


class QueueMetrics(NamedTuple):
    """How a group of a queue stands. total: pending and locked; rates are of the last minute."""

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
    """The whole database at a glance. bytes: what the schema's tables take."""

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


class Happening(NamedTuple):
    """What happened to messages of a queue at once; first and last are their ids."""

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


class Watched(NamedTuple):
    """What happened since the last look; `seen` is where the next one begins."""

    happenings: list[Happening]
    seen: Snapshot
    more: bool
