"""Laneway: a message broker on PostgreSQL.

Exports the library's public names; each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from laneway import errors as errors
    from laneway import middlewares as middlewares
    from laneway import sync as sync
    from laneway import testing as testing
    from laneway.domain.dead_letters import DeadLetterFilter as DeadLetterFilter
    from laneway.domain.dead_letters import FailureGroup as FailureGroup
    from laneway.domain.ids import MessageId as MessageId
    from laneway.domain.jobs import JobInfo as JobInfo
    from laneway.domain.keys import KeyInfo as KeyInfo
    from laneway.domain.keys import NewKey as NewKey
    from laneway.domain.messages import Progress as Progress
    from laneway.domain.messages import Status as Status
    from laneway.domain.messages import StoredMessage as StoredMessage
    from laneway.domain.queues import Group as Group
    from laneway.domain.queues import Queue as Queue
    from laneway.domain.runs import RunInfo as RunInfo
    from laneway.domain.runs import RunStatus as RunStatus
    from laneway.domain.runs import StepInfo as StepInfo
    from laneway.domain.schedules import ScheduleInfo as ScheduleInfo
    from laneway.domain.settings import ConnectionSettings as ConnectionSettings
    from laneway.domain.settings import EngineSettings as EngineSettings
    from laneway.domain.settings import MaintenanceSettings as MaintenanceSettings
    from laneway.domain.settings import PumpSettings as PumpSettings
    from laneway.domain.settings import QueueChanges as QueueChanges
    from laneway.domain.settings import QueueSettings as QueueSettings
    from laneway.domain.settings import WakeupSettings as WakeupSettings
    from laneway.domain.statistics import QueueMetrics as QueueMetrics
    from laneway.domain.statistics import SystemStats as SystemStats
    from laneway.domain.workers import WorkerInfo as WorkerInfo
    from laneway.domain.workers import WorkerState as WorkerState
    from laneway.domain.workers import WorkerStats as WorkerStats
    from laneway.library.admin import Admin as Admin
    from laneway.library.connection import Connection as Connection
    from laneway.library.connection import connect as connect
    from laneway.library.consumer import Consumer as Consumer
    from laneway.library.jobs import Job as Job
    from laneway.library.messages import Message as Message
    from laneway.library.producer import Producer as Producer
    from laneway.library.rate_limit import RateLimit as RateLimit
    from laneway.library.rate_limit import RateLimitStatus as RateLimitStatus
    from laneway.library.runs import Run as Run
    from laneway.library.validation import PayloadRules as PayloadRules
    from laneway.worker.app import App as App
    from laneway.worker.composition import chain as chain
    from laneway.worker.composition import group as group
    from laneway.worker.handlers import Executor as Executor
    from laneway.worker.handlers import Middleware as Middleware
    from laneway.worker.handlers import Proceed as Proceed
    from laneway.worker.handlers import Work as Work
    from laneway.worker.policies import PartialFailure as PartialFailure
    from laneway.worker.policies import Reject as Reject
    from laneway.worker.policies import Retry as Retry
    from laneway.worker.policies import RetryAfter as RetryAfter
    from laneway.worker.policies import Snooze as Snooze
    from laneway.worker.worker import Worker as Worker
    from laneway.worker.worker import WorkerSettings as WorkerSettings
    from laneway.worker.workflows import join as join
    from laneway.worker.workflows import manual_step as manual_step
    from laneway.worker.workflows import sleep as sleep
    from laneway.worker.workflows import step as step

_PLACES = {
    "DeadLetterFilter": "laneway.domain.dead_letters",
    "FailureGroup": "laneway.domain.dead_letters",
    "MessageId": "laneway.domain.ids",
    "JobInfo": "laneway.domain.jobs",
    "KeyInfo": "laneway.domain.keys",
    "NewKey": "laneway.domain.keys",
    "Progress": "laneway.domain.messages",
    "Status": "laneway.domain.messages",
    "StoredMessage": "laneway.domain.messages",
    "Group": "laneway.domain.queues",
    "Queue": "laneway.domain.queues",
    "RunInfo": "laneway.domain.runs",
    "RunStatus": "laneway.domain.runs",
    "StepInfo": "laneway.domain.runs",
    "ScheduleInfo": "laneway.domain.schedules",
    "ConnectionSettings": "laneway.domain.settings",
    "EngineSettings": "laneway.domain.settings",
    "MaintenanceSettings": "laneway.domain.settings",
    "PumpSettings": "laneway.domain.settings",
    "QueueChanges": "laneway.domain.settings",
    "QueueSettings": "laneway.domain.settings",
    "WakeupSettings": "laneway.domain.settings",
    "QueueMetrics": "laneway.domain.statistics",
    "SystemStats": "laneway.domain.statistics",
    "WorkerInfo": "laneway.domain.workers",
    "WorkerState": "laneway.domain.workers",
    "WorkerStats": "laneway.domain.workers",
    "Admin": "laneway.library.admin",
    "connect": "laneway.library.connection",
    "Connection": "laneway.library.connection",
    "Consumer": "laneway.library.consumer",
    "Job": "laneway.library.jobs",
    "Message": "laneway.library.messages",
    "Producer": "laneway.library.producer",
    "RateLimit": "laneway.library.rate_limit",
    "RateLimitStatus": "laneway.library.rate_limit",
    "Run": "laneway.library.runs",
    "PayloadRules": "laneway.library.validation",
    "App": "laneway.worker.app",
    "chain": "laneway.worker.composition",
    "group": "laneway.worker.composition",
    "Executor": "laneway.worker.handlers",
    "Middleware": "laneway.worker.handlers",
    "Proceed": "laneway.worker.handlers",
    "Work": "laneway.worker.handlers",
    "PartialFailure": "laneway.worker.policies",
    "Reject": "laneway.worker.policies",
    "Retry": "laneway.worker.policies",
    "RetryAfter": "laneway.worker.policies",
    "Snooze": "laneway.worker.policies",
    "Worker": "laneway.worker.worker",
    "WorkerSettings": "laneway.worker.worker",
    "join": "laneway.worker.workflows",
    "manual_step": "laneway.worker.workflows",
    "sleep": "laneway.worker.workflows",
    "step": "laneway.worker.workflows",
}

_MODULES = ("errors", "middlewares", "sync", "testing")

__all__ = sorted([*_PLACES, *_MODULES])  # noqa: PLE0605 - the table above is the list

# Type checkers would accept any name of the module.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        place = _PLACES.get(name)
        if place is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(place), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
