"""Workers: their states, and the transitions between them."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias


class WorkerState(StrEnum):
    """The state of a worker.

    ready: registered, claims nothing yet. polling: claims and handles messages. interrupted: claims
    nothing more and finishes its messages in flight, before it enters the state it was asked to.
    suspended: idle until resumed. stopped: ended, for good.
    """

    READY = "ready"
    POLLING = "polling"
    INTERRUPTED = "interrupted"
    SUSPENDED = "suspended"
    STOPPED = "stopped"


# Consumers and producers of long-lived programs are registered too, and take no orders.
WorkerKind: TypeAlias = Literal["worker", "consumer", "producer"]

# What a worker can be asked to do from outside.
Ask: TypeAlias = Literal["suspend", "resume", "shutdown"]

# The transitions that a worker makes by itself.
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
    """The effect of an ask on a worker in one state: its state then, and the one it is to enter."""

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
    """A worker and its queues.

    worker_id is the consumer of its claims. timeout: a worker that sends no heartbeat for this long
    counts as dead.
    """

    worker_id: str
    name: str
    host: str
    pid: int
    queues: list[str]
    timeout: timedelta
    kind: WorkerKind = "worker"


class WorkerOrder(NamedTuple):
    """The answer to a heartbeat.

    A worker that is stopped without having been asked to was reclaimed: its heartbeats came too
    late. leases_ended: messages were taken from it by hand since the heartbeat before.
    """

    state: WorkerState
    asked: WorkerState | None
    leases_ended: bool = False


class WorkerInfo(NamedTuple):
    """A worker as stored: a row of the view laneway.workers. held: messages in flight.

    handled: messages handled; of a consumer, dequeued, and of a producer, enqueued.
    """

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
    kind: WorkerKind = "worker"

    @property
    def healthy(self) -> bool:
        """Whether it works: it has not stopped, and its last heartbeat is within its timeout."""
        return self.state is not WorkerState.STOPPED and self.silence < self.timeout


class WorkerStats(NamedTuple):
    """All workers by state, and the number of messages they settled."""

    total: int
    by_state: dict[str, int]
    healthy: int
    held: int
    handled: int
    failed: int
