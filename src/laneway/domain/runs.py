"""Runs of workflows: durable steps, driven by a message."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, NamedTuple, TypeAlias


class RunStatus(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})

# The state of a run for its driver; superseded: another message drives it, or the lease has ended.
# waiting: for a manual step, without a driver.
DriveStatus: TypeAlias = Literal[
    "running", "paused", "completed", "failed", "cancelled", "superseded", "waiting"
]

RunAsk: TypeAlias = Literal["pause", "resume", "cancel"]

RUN_ASKS: dict[RunAsk, tuple[frozenset[RunStatus], RunStatus]] = {
    "pause": (frozenset({RunStatus.RUNNING}), RunStatus.PAUSED),
    "resume": (frozenset({RunStatus.PAUSED, RunStatus.FAILED}), RunStatus.RUNNING),
    "cancel": (frozenset({RunStatus.RUNNING, RunStatus.PAUSED}), RunStatus.CANCELLED),
}


class RunInfo(NamedTuple):
    """A run: a row of the view laneway.workflows. input: its arguments, as a list.

    resume_at: when a paused run resumes by itself; None if it does not.
    """

    run_id: str
    name: str
    queue: str | None
    status: RunStatus
    input_text: str
    result_text: str | None
    error: str | None
    created_at: datetime
    finished_at: datetime | None
    steps: int
    priority: int = 0
    resume_at: datetime | None = None

    @property
    def input(self) -> Any:
        return json.loads(self.input_text)

    @property
    def result(self) -> Any:
        """What the workflow returned; None before it has."""
        return None if self.result_text is None else json.loads(self.result_text)


class StepInfo(NamedTuple):
    """A finished step. result_text, failure: JSON text. remaining: of a timer; zero once it is over."""

    step: str
    result_text: str | None
    remaining: timedelta | None
    failure: str | None = None

    @property
    def result(self) -> Any:
        """What the step returned; None if it failed, and for a timer."""
        return None if self.result_text is None else json.loads(self.result_text)

    @property
    def error(self) -> str | None:
        """Why the step failed, with the traceback; None if it did not."""
        return None if self.failure is None else json.loads(self.failure).get("reason")


class Stored(NamedTuple):
    """What is stored of a step, and the state of its run."""

    status: DriveStatus
    result_text: str | None
    remaining: timedelta | None
    failure: str | None = None


class Drive(NamedTuple):
    """A run for its driver; arguments are JSON text."""

    status: DriveStatus
    arguments: str


class JobResult(NamedTuple):
    """A handler's result, as JSON text."""

    result: str | None
    finished_at: datetime
