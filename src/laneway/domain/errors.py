"""Every error of the broker, in families by what the caller does next.

LanewayError
├── Retryable                call again, not before retry_after where it is given
│   ├── Unavailable          the database is away; what was under way may or may not have happened
│   ├── Overloaded           too much is waiting already; nothing happened
│   └── TransientConflict    the call lost a race, again and again; nothing happened
├── InvalidRequest           change the call; nothing happened
│   ├── NotFound
│   │   ├── QueueNotFound
│   │   └── GroupNotFound
│   ├── Conflict
│   │   ├── QueueExists
│   │   ├── QueueNotEmpty
│   │   └── GroupExists
│   ├── InvalidSetting
│   ├── InvalidId
│   └── InvalidMessage
│       └── MessageTooLarge
├── LockLost                 leave the message alone, another has it or will get it; nothing happened
├── BrokerClosed             give up: this broker is closing
├── Misconfigured            give up: a person has to look at the database or its schema
└── InternalError            give up: a fault in Laneway

The embedded database and the schema's installation have errors of their own, beside their code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from datetime import timedelta


class LanewayError(Exception):
    """Base of every error Laneway raises."""

    def copy(self) -> Self:
        """Return one like it for another caller: raising an error writes a traceback on it."""
        copy = self.__class__.__new__(self.__class__, *self.args)
        copy.__dict__.update(self.__dict__)
        copy.__cause__ = self.__cause__
        return copy


class Retryable(LanewayError):
    def __init__(self, message: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(Retryable):
    pass


class Overloaded(Retryable):
    pass


class TransientConflict(Retryable):
    pass


class InvalidRequest(LanewayError):
    pass


class NotFound(InvalidRequest):
    pass


class QueueNotFound(NotFound):
    pass


class GroupNotFound(NotFound):
    pass


class Conflict(InvalidRequest):
    pass


class QueueExists(Conflict):
    pass


class QueueNotEmpty(Conflict):
    pass


class GroupExists(Conflict):
    pass


class InvalidSetting(InvalidRequest):
    pass


class InvalidId(InvalidRequest):
    pass


class InvalidMessage(InvalidRequest):
    pass


class MessageTooLarge(InvalidMessage):
    pass


class LockLost(LanewayError):
    pass


class BrokerClosed(LanewayError):
    pass


class Misconfigured(LanewayError):
    pass


class InternalError(LanewayError):
    pass
