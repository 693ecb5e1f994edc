"""Laneway: a message broker on PostgreSQL.

What Python programs use is here; it is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from laneway import sync as sync
    from laneway.domain import errors as errors
    from laneway.domain.ids import MessageId as MessageId
    from laneway.domain.messages import Status as Status
    from laneway.domain.settings import EngineSettings as EngineSettings
    from laneway.domain.settings import QueueSettings as QueueSettings
    from laneway.library.admin import Admin as Admin
    from laneway.library.connection import Connection as Connection
    from laneway.library.connection import connect as connect
    from laneway.library.consumer import Consumer as Consumer
    from laneway.library.messages import Message as Message
    from laneway.library.producer import Producer as Producer
    from laneway.library.rate_limit import RateLimit as RateLimit
    from laneway.library.runs import Run as Run
    from laneway.library.validation import PayloadRules as PayloadRules
    from laneway.worker import middlewares as middlewares
    from laneway.worker.app import App as App
    from laneway.worker.policies import PartialFailure as PartialFailure
    from laneway.worker.policies import Reject as Reject
    from laneway.worker.policies import Retry as Retry
    from laneway.worker.policies import Snooze as Snooze
    from laneway.worker.worker import Worker as Worker
    from laneway.worker.worker import WorkerSettings as WorkerSettings
    from laneway.worker.workflows import sleep as sleep
    from laneway.worker.workflows import step as step

_PLACES = {
    "MessageId": "laneway.domain.ids",
    "Status": "laneway.domain.messages",
    "EngineSettings": "laneway.domain.settings",
    "QueueSettings": "laneway.domain.settings",
    "Admin": "laneway.library.admin",
    "Connection": "laneway.library.connection",
    "connect": "laneway.library.connection",
    "Consumer": "laneway.library.consumer",
    "Message": "laneway.library.messages",
    "Producer": "laneway.library.producer",
    "RateLimit": "laneway.library.rate_limit",
    "Run": "laneway.library.runs",
    "PayloadRules": "laneway.library.validation",
    "App": "laneway.worker.app",
    "PartialFailure": "laneway.worker.policies",
    "Reject": "laneway.worker.policies",
    "Retry": "laneway.worker.policies",
    "Snooze": "laneway.worker.policies",
    "sleep": "laneway.worker.workflows",
    "step": "laneway.worker.workflows",
    "Worker": "laneway.worker.worker",
    "WorkerSettings": "laneway.worker.worker",
}

_MODULES = {
    "errors": "laneway.domain.errors",
    "middlewares": "laneway.worker.middlewares",
    "sync": "laneway.sync",
}

__all__ = sorted([*_PLACES, *_MODULES])  # noqa: PLE0605 - the table above is the list


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(place), name)
