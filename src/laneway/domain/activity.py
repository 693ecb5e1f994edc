"""What happened to messages and queues, and what was remarkable about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from laneway.domain.ids import MessageId
from laneway.domain.messages import Token


class Kind(StrEnum):
    """What an event was, as laneway.event_kind says."""

    PUSHED = "pushed"
    CLAIMED = "claimed"
    ACKED = "acked"
    ACK_REFUSED = "ack_refused"
    NACKED = "nacked"
    RELEASED = "released"
    EXPIRED = "expired"
    DEAD = "dead"
    TIMED_OUT = "timed_out"
    MOVED = "moved"
    EDITED = "edited"
    DELETED = "deleted"
    DELETED_MANY = "deleted_many"
    DROPPED = "dropped"
    PURGED = "purged"
    CLEARED = "cleared"
    SOUGHT = "sought"
    QUEUE_CREATED = "queue_created"
    QUEUE_UPDATED = "queue_updated"
    QUEUE_RENAMED = "queue_renamed"
    QUEUE_DELETED = "queue_deleted"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Snapshot(NamedTuple):
    """Which transactions had ended: all below `xmax` but those of `running`."""

    xmin: int
    xmax: int
    running: Sequence[int]


class Event(NamedTuple):
    """What happened to a run of seqs at once; one about a queue has no lane and no seqs.

    A push to many lanes has none either; spread: how many messages it brought.

    attempt: the hand-out it was about. since: when that began. first_created and last_created: when
    the run's ends were pushed. detail: a JSON object. large: of a push, the seqs and sizes of its
    large messages.
    """

    xid: int
    event_id: int
    at: datetime
    kind: str
    queue_id: int
    queue: str | None
    group: str | None
    partition: str | None
    priority: int | None
    segment: int | None
    lane: int | None
    first_seq: int | None
    last_seq: int | None
    attempt: int | None
    token: UUID | None
    consumer: str | None
    since: datetime | None
    reason: str | None
    detail: str | None
    first_created: datetime | None
    last_created: datetime | None
    max_attempts: int | None
    lease: timedelta | None
    large_seqs: Sequence[int] | None
    large_sizes: Sequence[int] | None
    spread: int | None = None

    @property
    def messages(self) -> int:
        """How many messages it was about."""
        if self.first_seq is None or self.last_seq is None:
            return self.spread or 0
        return self.last_seq - self.first_seq + 1


class Look(NamedTuple):
    """What happened between two snapshots. more: there may be more to see at once."""

    events: list[Event]
    seen: Snapshot
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """Something remarkable about an event. seqs: the messages it is about, in runs."""

    type: str
    severity: Severity
    description: str
    threshold: float | None
    actual: float | None
    at: datetime
    kind: str
    xid: int | None = None
    event_id: int | None = None
    queue_id: int | None = None
    queue: str | None = None
    segment: int | None = None
    lane: int | None = None
    seqs: Sequence[tuple[int, int]] | None = None
    consumer: str | None = None


class Taker(NamedTuple):
    """Who took how many messages of a queue, and when last."""

    queue_id: int
    consumer: str
    taken: int
    last_at: datetime


class ConsumerStats(NamedTuple):
    consumer: str
    taken: int
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityFilter:
    """Which activity to show; None: whatever. anomalous: with something remarkable, or without."""

    queue_ids: Sequence[int] | None = None
    kinds: Sequence[str] | None = None
    consumer: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    anomalous: bool | None = None
    anomaly_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyFilter:
    queue_ids: Sequence[int] | None = None
    severity: str | None = None
    type: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Facts(NamedTuple):
    """What the log knows of a message; the body only where it was asked for and is small."""

    segment: int
    lane: int
    seq: int
    partition: str
    priority: int
    created_at: datetime
    max_attempts: int | None
    size: int
    body: str | None

    @property
    def id(self) -> MessageId:
        return MessageId(self.segment, self.lane, self.seq)


class Remark(NamedTuple):
    """What was remarkable."""

    type: str
    severity: str
    description: str
    threshold: float | None
    actual: float | None


class Entry(NamedTuple):
    """What happened to one message, or with message None to a queue. batch: how many with it."""

    xid: int
    event_id: int
    at: datetime
    kind: str
    queue: str | None
    group: str | None
    partition: str | None
    priority: int | None
    message: MessageId | None
    batch: int | None
    attempt: int | None
    token: Token | None
    consumer: str | None
    since: datetime | None
    reason: str | None
    detail: str | None
    facts: Facts | None
    remarks: Sequence[Remark]


class Entries(NamedTuple):
    """A page of activity. total: of all that matches, as far as it was counted."""

    entries: list[Entry]
    total: int


class Found(NamedTuple):
    """One message, or with message None one queue, that was remarkable."""

    anomaly_id: int
    event_id: int | None
    at: datetime
    kind: str
    queue: str | None
    message: MessageId | None
    consumer: str | None
    remark: Remark
    facts: Facts | None
