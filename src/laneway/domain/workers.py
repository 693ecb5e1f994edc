"""Worker programs: what they are, and which states follow which."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias


class WorkerState(StrEnum):
    """What a worker is doing.

    ready: registered, takes nothing yet. polling: takes and handles messages. interrupted: takes
    nothing more and finishes what it has in hand, to become what it was asked to. suspended: idle
    until resumed. stopped: gone, for good.
    """

    READY = "ready"
    POLLING = "polling"
    INTERRUPTED = "interrupted"
    SUSPENDED = "suspended"
    STOPPED = "stopped"


# What can be asked of a worker from outside.
Ask: TypeAlias = Literal["suspend", "resume", "shutdown"]

# What a worker becomes by itself, and from where.
STEPS: dict[WorkerState, frozenset[WorkerState]] = {
    WorkerState.READY: frozenset({WorkerState.SUSPENDED}),
    WorkerState.POLLING: frozenset({WorkerState.READY}),
    WorkerState.INTERRUPTED: frozenset({WorkerState.POLLING}),
    WorkerState.SUSPENDED: frozenset({WorkerState.INTERRUPTED, WorkerState.READY}),
    WorkerState.STOPPED: frozenset(
        {
            WorkerState.READY,
            WorkerState.POLLING,
            WorkerState.INTERRUPTED,
            WorkerState.SUSPENDED,
        }
    ),
}


class Answer(NamedTuple):
    """How an ask changes a worker that is in one state: what it is then, and is to become."""

    state: WorkerState
    asked: WorkerState | None = None


ASKS: dict[Ask, dict[WorkerState, Answer]] = {
    "suspend": {
        WorkerState.READY: Answer(WorkerState.SUSPENDED),
        WorkerState.POLLING: Answer(WorkerState.INTERRUPTED, WorkerState.SUSPENDED),
    },
    "resume": {WorkerState.SUSPENDED: Answer(WorkerState.READY)},
    "shutdown": {
        WorkerState.READY: Answer(WorkerState.STOPPED, WorkerState.STOPPED),
        WorkerState.SUSPENDED: Answer(WorkerState.STOPPED, WorkerState.STOPPED),
        WorkerState.INTERRUPTED: Answer(WorkerState.INTERRUPTED, WorkerState.STOPPED),
        WorkerState.POLLING: Answer(WorkerState.INTERRUPTED, WorkerState.STOPPED),
    },
}

TARGETS: dict[Ask, WorkerState] = {
    "suspend": WorkerState.SUSPENDED,
    "resume": WorkerState.READY,
    "shutdown": WorkerState.STOPPED,
}


class WorkerIdentity(NamedTuple):
    """Who a worker is. worker_id is the consumer of its claims; timeout: silence that means death."""

    worker_id: str
    name: str
    host: str
    pid: int
    queues: list[str]
    timeout: timedelta


class WorkerOrder(NamedTuple):
    """What a worker learns with a heartbeat.

    Stopped without having been asked to: it was not heard of for too long, and reclaimed.
    """

    state: WorkerState
    asked: WorkerState | None


class WorkerInfo(NamedTuple):
    """A worker as it is known: a row of the view laneway.workers. held: messages in hand."""

    worker_id: str
    name: str
    host: str
    pid: int
    queues: list[str]
    state: WorkerState
    asked: WorkerState | None
    timeout: timedelta
    handled: int
    failed: int
    started_at: datetime
    heartbeat_at: datetime
    stopped_at: datetime | None
    held: int
    silence: timedelta

    @property
    def healthy(self) -> bool:
        """Whether it works: it has not stopped, and was heard of within its own timeout."""
        return self.state is not WorkerState.STOPPED and self.silence < self.timeout


class WorkerStats(NamedTuple):
    """All workers together, by state, and what they did."""

    total: int
    by_state: dict[str, int]
    healthy: int
    held: int
    handled: int
    failed: int
