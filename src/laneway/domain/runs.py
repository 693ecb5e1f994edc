"""Runs of workflows: durable steps, driven by a message."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias


class RunStatus(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})

# How a run stands for one who drives it; superseded: another does, or the message's lease is over.
DriveStatus: TypeAlias = Literal[
    "running", "paused", "completed", "failed", "cancelled", "superseded"
]

RunAsk: TypeAlias = Literal["pause", "resume", "cancel"]

RUN_ASKS: dict[RunAsk, tuple[frozenset[RunStatus], RunStatus]] = {
    "pause": (frozenset({RunStatus.RUNNING}), RunStatus.PAUSED),
    "resume": (frozenset({RunStatus.PAUSED, RunStatus.FAILED}), RunStatus.RUNNING),
    "cancel": (frozenset({RunStatus.RUNNING, RunStatus.PAUSED}), RunStatus.CANCELLED),
}


class RunInfo(NamedTuple):
    """A run: a row of the view laneway.workflows. input and result are JSON text."""

    run_id: str
    name: str
    queue: str | None
    status: RunStatus
    input: str
    result: str | None
    error: str | None
    created_at: datetime
    finished_at: datetime | None
    steps: int


class StepInfo(NamedTuple):
    """A finished step's result or failure as JSON text; remaining: of a timer, zero once it is over."""

    step: str
    result: str | None
    remaining: timedelta | None
    failure: str | None = None


class Stored(NamedTuple):
    """What is kept of a step, and how its run stands now."""

    status: DriveStatus
    result: str | None
    remaining: timedelta | None
    failure: str | None = None


class Drive(NamedTuple):
    """A run as its driver finds it: its arguments as JSON text."""

    status: DriveStatus
    arguments: str


class JobResult(NamedTuple):
    """What a handler returned, as JSON text."""

    result: str | None
    finished_at: datetime
