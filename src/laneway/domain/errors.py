"""Every error of the broker, in families by what the caller does next.

LanewayError
├── Retryable                call again, not before retry_after where it is given
│   ├── Unavailable          the database is away; what was under way may or may not have happened
│   ├── Overloaded           too much is waiting already; nothing happened
│   ├── TransientConflict    the call lost a race, again and again; nothing happened
│   └── RateLimited          the producer's own limit; retry_after is the true wait
├── InvalidRequest           change the call; nothing happened
│   ├── NotFound
│   │   ├── QueueNotFound
│   │   ├── GroupNotFound
│   │   ├── WorkerNotFound
│   │   ├── RunNotFound
│   │   └── ResultNotFound   of a job: not done yet, or not kept
│   ├── Conflict
│   │   ├── QueueExists
│   │   ├── QueueNotEmpty
│   │   ├── QueueChanged     is not as the call reckons with
│   │   ├── GroupExists
│   │   ├── InvalidStateTransition
│   │   └── WorkerBusy
│   ├── InvalidSetting
│   ├── InvalidId
│   └── InvalidMessage
│       ├── MessageTooLarge
│       └── InvalidPayload   breaks one of the producer's rules, before anything is sent
├── LeaseLost                 leave the message alone, another has it or will get it; nothing happened
├── BrokerClosed             give up: this broker is closing
├── Misconfigured            give up: a person has to look at the database or its schema
│   └── AccessDenied         the server asks for another key
├── InternalError            give up: a fault in Laneway
└── RunEnded                 a workflow's run has no result
    ├── RunFailed
    └── RunCancelled

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


class RateLimited(Retryable):
    pass


class InvalidRequest(LanewayError):
    pass


class NotFound(InvalidRequest):
    pass


class QueueNotFound(NotFound):
    pass


class GroupNotFound(NotFound):
    pass


class WorkerNotFound(NotFound):
    pass


class RunNotFound(NotFound):
    pass


class ResultNotFound(NotFound):
    pass


class Conflict(InvalidRequest):
    pass


class QueueExists(Conflict):
    pass


class QueueNotEmpty(Conflict):
    pass


class QueueChanged(Conflict):
    pass


class GroupExists(Conflict):
    pass


class InvalidStateTransition(Conflict):
    """source and target: the states; reason: why there is no way from the one to the other."""

    def __init__(self, source: str, target: str, reason: str) -> None:
        super().__init__(f"cannot go from {source} to {target}: {reason}")
        # Plain texts, as they come over the wire.
        self.source = str(source)
        self.target = str(target)
        self.reason = reason


class WorkerBusy(Conflict):
    pass


class InvalidSetting(InvalidRequest):
    pass


class InvalidId(InvalidRequest):
    pass


class InvalidMessage(InvalidRequest):
    pass


class MessageTooLarge(InvalidMessage):
    pass


class InvalidPayload(InvalidMessage):
    """index: which of a batch it was. place: where in the payload, as $.items[3].name."""

    def __init__(self, problem: str, *, place: str = "$", index: int | None = None) -> None:
        of_batch = "" if index is None else f" {index} of the batch"
        super().__init__(f"payload{of_batch}: {place} {problem}")
        self.problem = problem
        self.place = place
        self.index = index


class LeaseLost(LanewayError):
    pass


class BrokerClosed(LanewayError):
    pass


class Misconfigured(LanewayError):
    pass


class AccessDenied(Misconfigured):
    pass


class InternalError(LanewayError):
    pass


class RunEnded(LanewayError):
    pass


class RunFailed(RunEnded):
    pass


class RunCancelled(RunEnded):
    pass
