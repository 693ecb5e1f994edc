"""Every error of the broker, in families by what the caller does next.

LanewayError
├── Retryable                retry later, after retry_after if it is set
│   ├── Unavailable          the database is unreachable; the call may or may not have committed
│   ├── Overloaded           too many calls are waiting; nothing changed
│   ├── TransientConflict    the call conflicted with others at every attempt; nothing changed
│   └── RateLimited          the producer's own limit; retry_after is exact
├── InvalidRequest           fix the request; nothing changed
│   ├── NotFound
│   │   ├── QueueNotFound
│   │   ├── GroupNotFound
│   │   ├── WorkerNotFound
│   │   ├── ScheduleNotFound
│   │   ├── RunNotFound
│   │   └── ResultNotFound   of a message's handler: not finished yet, or not stored
│   ├── Conflict
│   │   ├── QueueExists
│   │   ├── QueueNotEmpty
│   │   ├── QueueChanged     its options are not those that the call assumes
│   │   ├── GroupExists
│   │   ├── InvalidStateTransition
│   │   ├── WorkerBusy
│   │   └── PreconditionFailed   a key is not as a required operation expects it
│   ├── InvalidSetting
│   ├── InvalidId
│   └── InvalidMessage
│       ├── MessageTooLarge
│       └── InvalidPayload   violates a rule of the producer; nothing was sent
├── LeaseLost                the lease has ended, another consumer may have the message; nothing changed
├── BrokerClosed             give up: this broker is closing
├── Misconfigured            give up: an operator must check the database or its schema
│   └── AccessDenied         the server requires another API key
├── InternalError            give up: a bug in Laneway
└── RunEnded                 a workflow's run, or a job, has no result
    ├── RunFailed
    ├── RunCancelled
    ├── JobFailed
    └── JobCancelled

The embedded database and the schema's installation have errors of their own, beside their code.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

E = TypeVar("E", bound="LanewayError")


class LanewayError(Exception):
    """Base of every error Laneway raises."""

    def copy(self) -> Self:
        """Return one like it for another caller: raising an error writes a traceback on it."""
        copy = _restore(self.__class__, self.args, self.__dict__)
        copy.__cause__ = self.__cause__
        return copy

    def __reduce__(self) -> tuple[object, ...]:
        # Pickled by its attributes: __init__ may take other arguments than the text.
        return _restore, (self.__class__, self.args, self.__dict__)


def _restore(kind: type[E], args: Sequence[object], attributes: Mapping[str, object]) -> E:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


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
    """queue: its name; None if it was deleted during a call that had looked it up before."""

    def __init__(self, *, queue: str | None = None, advice: str | None = None) -> None:
        if queue is None:
            super().__init__("queue not found: it was deleted during the call. Call again")
        else:
            advice = advice or f"Create it with: laneway queue create {shlex.quote(queue)}"
            super().__init__(f'queue "{queue}" not found. {advice}')
        self.queue = queue


class GroupNotFound(NotFound):
    """group: its name, or its id if it was deleted during a call that had looked it up before.

    queue: its queue's name, if the call was about one queue.
    """

    def __init__(self, *, group: str | int, queue: str | None = None) -> None:
        of_queue = "" if queue is None else f' of queue "{queue}"'
        if isinstance(group, int):
            super().__init__(f"group {group} not found: it was deleted during the call. Call again")
        else:
            made = "GROUP" if queue is None else f"{shlex.quote(queue)} {shlex.quote(group)}"
            advice = f"Create it with: laneway group create {made}"
            super().__init__(f'group "{group}"{of_queue} not found. {advice}')
        self.group = group
        self.queue = queue


class WorkerNotFound(NotFound):
    """worker: its id."""

    def __init__(self, *, worker: str) -> None:
        super().__init__(
            f'worker "{worker}" not found: it was never registered, or it was purged. '
            "List the workers with: laneway worker list"
        )
        self.worker = worker


class ScheduleNotFound(NotFound):
    """schedule: its name. queue: its queue's name; None if no queue has such a schedule."""

    def __init__(self, *, schedule: str, queue: str | None = None) -> None:
        of_queue = "" if queue is None else f' of queue "{queue}"'
        super().__init__(
            f'schedule "{schedule}"{of_queue} not found: a worker registers its schedules'
            " when it starts. List the schedules with: laneway schedule list"
        )
        self.schedule = schedule
        self.queue = queue


class RunNotFound(NotFound):
    """run: its id."""

    def __init__(self, *, run: str) -> None:
        super().__init__(
            f'workflow run "{run}" not found: it was never started, or it was purged. '
            "List the runs with: laneway workflow list"
        )
        self.run = run


class ResultNotFound(NotFound):
    """message: its id."""

    def __init__(self, *, message: str) -> None:
        super().__init__(
            f"result of message {message} not found: its handler has not finished or has no "
            "keep_results, or the result has expired"
        )
        self.message = message


class Conflict(InvalidRequest):
    pass


class QueueExists(Conflict):
    def __init__(self, *, queue: str) -> None:
        super().__init__(
            f'queue "{queue}" already exists. Choose another name, or change that queue'
        )
        self.queue = queue


class QueueNotEmpty(Conflict):
    """queue: its name. The text says what is left in it."""

    def __init__(self, text: str, *, queue: str) -> None:
        super().__init__(text)
        self.queue = queue


class QueueChanged(Conflict):
    pass


class GroupExists(Conflict):
    def __init__(self, *, group: str, queue: str) -> None:
        super().__init__(
            f'group "{group}" of queue "{queue}" already exists. Use it, or choose another name'
        )
        self.group = group
        self.queue = queue


class InvalidStateTransition(Conflict):
    """source and target: the states; reason: why the transition is not allowed."""

    def __init__(self, source: str, target: str, reason: str) -> None:
        super().__init__(f"cannot go from {source} to {target}: {reason}")
        # Plain texts, as over HTTP.
        self.source = str(source)
        self.target = str(target)
        self.reason = reason


class WorkerBusy(Conflict):
    """worker: its id. messages: how many it has leased."""

    def __init__(self, *, worker: str, messages: int) -> None:
        super().__init__(
            f'worker "{worker}" has {messages} messages in flight. Wait until it is done, suspend '
            "it first, or shut it down with release"
        )
        self.worker = worker
        self.messages = messages


class PreconditionFailed(Conflict):
    """index: of the operation. reason: why it does not apply. version, value: the key's, as JSON text."""

    def __init__(self, *, index: int, reason: str, version: int, value: str) -> None:
        super().__init__(
            f"required operation {index} on a key does not apply ({reason}): nothing was changed. "
            "Read the key, then decide again"
        )
        self.index = index
        self.reason = reason
        self.version = version
        self.value = value


class InvalidSetting(InvalidRequest):
    pass


class InvalidId(InvalidRequest):
    pass


class InvalidMessage(InvalidRequest):
    pass


class MessageTooLarge(InvalidMessage):
    """queue: the queue whose max_bytes it exceeds; None if the limit is another.

    problem: what is too large, without the advice.
    """

    queue: str | None = None
    problem: str = ""

    def __init__(self, problem: str, *, queue: str | None = None) -> None:
        advice = "" if queue is None else ". Send less, or raise the queue's max_bytes"
        super().__init__(f"{problem}{advice}")
        self.problem = problem
        self.queue = queue


class InvalidPayload(InvalidMessage):
    """index: its position in a batch. place: a path in the payload, such as $.items[3].name."""

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


class JobFailed(RunEnded):
    pass


class JobCancelled(RunEnded):
    pass
