"""Laneway: a message broker on PostgreSQL.

What Python programs use is here; it is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
}

__all__ = sorted(_PLACES)  # noqa: PLE0605 - the table above is the list


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(place), name)
