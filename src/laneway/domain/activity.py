"""Events of messages and queues, and the anomalies found in them."""

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
    """The kind of an event, as in laneway.event_kind."""

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
    """The transactions that had ended: all below `xmax` except those of `running`."""

    xmin: int
    xmax: int
    running: Sequence[int]


class Event(NamedTuple):
    """What happened to a span of messages at once.

    An event about a queue has no lane and no sequence numbers. A push to many lanes has none
    either; spread: its number of messages. attempt: the delivery that it is about. since: when that
    began. first_created and last_created: when the first and last message of the span were pushed.
    detail: a JSON object. large: of a push, the sequence numbers and sizes of its large messages.
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
        """The number of messages that it is about."""
        if self.first_seq is None or self.last_seq is None:
            return self.spread or 0
        return self.last_seq - self.first_seq + 1


class EventBatch(NamedTuple):
    """The events between two snapshots. more: there may be more events to read at once."""

    events: list[Event]
    seen: Snapshot
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """An unusual finding about an event. seqs: the messages that it is about, as spans."""

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


class ConsumerCount(NamedTuple):
    """How many messages of a queue a consumer claimed, and when last."""

    queue_id: int
    consumer: str
    claimed: int
    last_at: datetime


class ConsumerStats(NamedTuple):
    """How many messages a consumer claimed, and when last."""

    consumer: str
    claimed: int
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityFilter:
    """Which entries to show; None: any. anomalous: with an anomaly, or without one."""

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
    """What the log stores of a message; the body only if requested and small."""

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


class AnomalyDetails(NamedTuple):
    """An anomaly of an entry."""

    type: str
    severity: str
    description: str
    threshold: float | None
    actual: float | None


class Entry(NamedTuple):
    """What happened to one message, or to a queue (message None). batch: its number of messages."""

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
    anomalies: Sequence[AnomalyDetails]


class Entries(NamedTuple):
    """A page of the activity log. total: of all that match, as far as counted."""

    entries: list[Entry]
    total: int


class FoundAnomaly(NamedTuple):
    """An anomaly of one message, or of a queue (message None)."""

    anomaly_id: int
    event_id: int | None
    at: datetime
    kind: str
    queue: str | None
    message: MessageId | None
    consumer: str | None
    anomaly: AnomalyDetails
    facts: Facts | None
