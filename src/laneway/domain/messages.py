"""Messages as they are pushed, delivered and settled.

They are tuples, not dataclasses: creating one costs a quarter, and a batch of them converts to
columns without a loop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias, TypedDict
from uuid import UUID

from laneway.domain.errors import InvalidRequest
from laneway.domain.ids import MessageId

# A lease token: as the database returned it, or as text from a client.
Token: TypeAlias = UUID | str

# Limits of a message's fields; of texts in characters. An empty dedup key counts as none.
LARGEST_PRIORITY = 32_767
# How many priorities producers may use, unless configured; SQL functions accept all.
PRIORITY_LEVELS = 10
LONGEST_PARTITION = 255
LONGEST_NOTE = 200
LONGEST_KEY = 512
LONGEST_DELAY = timedelta(days=3650)
# A longer lease or delay would end after the largest time that can be represented, so the database
# refuses it.
LONGEST_TIME = timedelta(days=365_250)


class Status(StrEnum):
    """The state of a message in one group."""

    QUEUED = "queued"
    PROCESSING = "processing"
    ACKNOWLEDGED = "acknowledged"
    DEAD = "dead"
    ARCHIVED = "archived"


class Progress(NamedTuple):
    """How far a handler is. share: 0 to 1."""

    share: float
    note: str


class Outcome(StrEnum):
    """The result of a nack; lost: the lease was lost, and nothing changed."""

    REQUEUED = "requeued"
    DEAD = "dead"
    LOST = "lost"


class OutgoingMessage(NamedTuple):
    """A message to push. Body and headers are JSON text and are delivered byte for byte.

    Without a delay, lease, max_attempts or dedup_window, the queue's apply. A dedup key that was seen
    within its window makes the message a duplicate.
    """

    body: str
    partition: str = ""
    priority: int = 0
    delay: timedelta | None = None
    dedup_key: str | None = None
    headers: str | None = None
    lease: timedelta | None = None
    max_attempts: int | None = None
    dedup_window: timedelta | None = None


class Pushed(NamedTuple):
    """The place of a pushed message; for a duplicate, the place of the first one."""

    segment: int
    lane: int
    seq: int
    duplicate: bool

    @property
    def id(self) -> MessageId:
        return MessageId(self.segment, self.lane, self.seq)


class Receipt(NamedTuple):
    """The proof of a lease on one message, with which it can be settled."""

    token: Token
    lane: int
    seq: int


class Delivery(NamedTuple):
    """A message leased until `until`, by the database's clock.

    `attempt` counts deliveries, this one included; `lease` is the message's own duration, if it has
    one; `error` is the reason of the last failure, if it failed.
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
    dedup_key: str | None
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
    """A leased span: the messages first, first + 1, … of a lane, as columns.

    A column is None if no message has a value. positions: each message's position among all that
    the consumer got at once. A value of attempts other than 0 takes precedence over `attempt`.
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
    dedup_keys: Sequence[str | None] | None
    headers: Sequence[str | None] | None
    bodies: Sequence[str]
    errors: Sequence[str | None] | None


class Nack(NamedTuple):
    """A nack of a message. No delay: the queue's backoff applies.

    dead: no more attempts; False: another one in any case; None: as the queue says.
    """

    token: Token
    lane: int
    seq: int
    reason: str | None = None
    delay: timedelta | None = None
    dead: bool | None = None


class MessageChanges(TypedDict, total=False):
    """The fields of a message to change for one group; others keep their values."""

    partition: str
    priority: int
    body: str
    headers: str | None
    lease: timedelta | None
    max_attempts: int | None


class StoredMessage(NamedTuple):
    """A message as one group sees it: a row of the view laneway.messages.

    What it shares with `laneway.Message` has the same name and type there. lease, max_attempts: the
    message's own, else the queue's. body and headers_text are JSON text.
    """

    text_id: str
    queue: str
    group: str
    partition: str
    body: str
    headers_text: str | None
    priority: int
    status: str
    attempt: int
    max_attempts: int | None
    lease: timedelta
    token: Token | None
    locked_until: datetime | None
    consumer: str | None
    created_at: datetime
    claimed_at: datetime | None
    acknowledged_at: datetime | None
    error: str | None
    size: int
    available_at: datetime | None
    dedup_key: str | None
    queue_id: int
    group_id: int
    segment: int
    lane: int
    seq: int
    progress_text: str | None = None

    @property
    def id(self) -> MessageId:
        return MessageId(self.segment, self.lane, self.seq)

    @property
    def progress(self) -> Progress | None:
        """What its handler has reported, in lists of messages that are processing."""
        return None if self.progress_text is None else Progress(*json.loads(self.progress_text))

    @property
    def payload(self) -> Any:
        return json.loads(self.body)

    @property
    def headers(self) -> Mapping[str, Any]:
        headers: Mapping[str, Any] = (
            {} if self.headers_text is None else json.loads(self.headers_text)
        )
        return headers

    @property
    def until(self) -> datetime | None:
        """Former name of `locked_until`."""
        return self.locked_until

    @property
    def key(self) -> str | None:
        """Former name of `dedup_key`."""
        return self.dedup_key


def require_level(priority: int, levels: int) -> None:
    """Refuse the priority of a new message that is not below the number of levels."""
    if priority < 0:
        raise InvalidRequest(f"priority is {priority}: use 0 or more")
    if priority >= levels:
        raise InvalidRequest(
            f"priority is {priority}: use 0 to {levels - 1}, or raise max_priority_levels"
        )
