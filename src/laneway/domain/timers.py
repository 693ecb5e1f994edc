"""Values of timers: messages that are pushed at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from uuid import UUID

    from laneway.domain.messages import OutgoingMessage

TimerStatus: TypeAlias = Literal["scheduled", "rescheduled", "cancelled", "absent"]


class TimerOperation(NamedTuple):
    """Sets the timer of this key in a queue, or cancels it.

    message: None to cancel. delay: from now; a negative one is due at once. dedup_key: of a cancel, the
    one that is returned if there is no timer.
    """

    queue: str
    key: str
    message: OutgoingMessage | None = None
    delay: timedelta | None = None
    timer_id: UUID | None = None
    dedup_key: str | None = None


class TimerResult(NamedTuple):
    """What became of an operation: a row of laneway.apply_timers, without its index."""

    status: TimerStatus
    dedup_key: str | None
    timer_id: UUID | None
    deliver_at: datetime | None


class Timer(NamedTuple):
    """A pending timer: a row of laneway.list_timers. attempts: pushes that failed, the last with error."""

    key: str
    timer_id: UUID
    partition: str
    deliver_at: datetime
    dedup_key: str
    headers: str | None
    body: str
    attempts: int
    error: str | None
    created_at: datetime
    updated_at: datetime
