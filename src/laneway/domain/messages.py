"""Messages on their way in and out, and what becomes of them.

They are tuples, not dataclasses: one is made per message, at a quarter of the cost, and a batch of
them turns into columns without a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, TypeAlias, TypedDict
from uuid import UUID

from laneway.domain.ids import MessageId

# A lock's token: as the database gave it, or in its text form as a client sent it back.
Token: TypeAlias = UUID | str

# What a message may be given, in characters where it is a text. A key of no characters is none.
LARGEST_PRIORITY = 32_767
LONGEST_PARTITION = 255
LONGEST_KEY = 512
LONGEST_DELAY = timedelta(days=3650)
# A lock or delay beyond this leads to a moment that no clock here can hold, and the database refuses it.
LONGEST_TIME = timedelta(days=365_250)


class Status(StrEnum):
    """What a message is to one group."""

    QUEUED = "queued"
    PROCESSING = "processing"
    ACKNOWLEDGED = "acknowledged"
    DEAD = "dead"
    ARCHIVED = "archived"


class Outcome(StrEnum):
    """What became of a message given back; lost: the token did not hold it, nothing changed."""

    REQUEUED = "requeued"
    DEAD = "dead"
    LOST = "lost"


class OutgoingMessage(NamedTuple):
    """A message to push. Body and headers are JSON text and come back byte for byte.

    Without a delay, lease or max_attempts the queue's apply. A key seen within the queue's window
    makes the message a duplicate.
    """

    body: str
    partition: str = ""
    priority: int = 0
    delay: timedelta | None = None
    key: str | None = None
    headers: str | None = None
    lease: timedelta | None = None
    max_attempts: int | None = None


class Pushed(NamedTuple):
    """Where a pushed message is; for a duplicate, where the first one is."""

    segment: int
    lane: int
    seq: int
    duplicate: bool

    @property
    def id(self) -> MessageId:
        return MessageId(self.segment, self.lane, self.seq)


class Receipt(NamedTuple):
    """The right to settle one message in hand."""

    token: Token
    lane: int
    seq: int


class Delivery(NamedTuple):
    """A message in hand until `until`, by the database's clock.

    `attempt` counts hand-outs, this one included; `lease` is the message's own, if it has one;
    `error` says why it failed the last time, if it did.
    """

    token: Token
    segment: int
    lane: int
    seq: int
    partition: str
    priority: int
    attempt: int
    created_at: datetime
    until: datetime
    lease: timedelta | None
    max_attempts: int | None
    key: str | None
    headers: str | None
    body: str
    error: str | None = None

    @property
    def id(self) -> MessageId:
        return MessageId(self.segment, self.lane, self.seq)

    @property
    def receipt(self) -> Receipt:
        return Receipt(self.token, self.lane, self.seq)


class ClaimedSpan(NamedTuple):
    """What one lock was handed out with: the messages first, first + 1, … of a lane, as columns.

    A column that is None has nothing for any of them. positions: where each stands among all that a
    consumer was handed at once. attempts go before `attempt`, where they are not 0.
    """

    token: Token
    segment: int
    lane: int
    first: int
    partition: str
    priority: int
    attempt: int
    until: datetime
    positions: Sequence[int] | None
    attempts: Sequence[int | None] | None
    created_at: Sequence[datetime]
    leases: Sequence[timedelta | None] | None
    max_attempts: Sequence[int | None] | None
    keys: Sequence[str | None] | None
    headers: Sequence[str | None] | None
    bodies: Sequence[str]
    errors: Sequence[str | None] | None


class Nack(NamedTuple):
    """A message given back after a failure. No delay: the queue's backoff.

    dead: no more tries; False: another one, however many there were; None: as the queue says.
    """

    token: Token
    lane: int
    seq: int
    reason: str | None = None
    delay: timedelta | None = None
    dead: bool | None = None


class MessageChanges(TypedDict, total=False):
    """What of a message is to change for one group; what is not named stays."""

    partition: str
    priority: int
    body: str
    headers: str | None
    lease: timedelta | None
    max_attempts: int | None


class StoredMessage(NamedTuple):
    """A message as one group sees it: a row of the view laneway.messages."""

    text_id: str
    queue: str
    group: str
    partition: str
    body: str
    headers: str | None
    priority: int
    status: str
    attempt: int
    max_attempts: int | None
    lease: timedelta
    token: Token | None
    until: datetime | None
    consumer: str | None
    created_at: datetime
    claimed_at: datetime | None
    acknowledged_at: datetime | None
    error: str | None
    size: int
    available_at: datetime | None
    key: str | None
    queue_id: int
    group_id: int
    segment: int
    lane: int
    seq: int

    @property
    def id(self) -> MessageId:
        return MessageId(self.segment, self.lane, self.seq)
