"""Lists of messages: what to look for, and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias, get_args

from laneway.domain.messages import StoredMessage

Sort: TypeAlias = Literal[
    "created_at",
    "priority",
    "type",
    "attempt_count",
    "payload_size",
    "locked_until",
    "acknowledged_at",
    "last_error",
    "id",
    "consumer_id",
    "dequeued_at",
]
SORTS: tuple[Sort, ...] = get_args(Sort)


class MessageFilter(NamedTuple):
    """Which messages of a state are meant; None: any. since and until are both included.

    search: looked for in the id, the partition and the body, without regard to case.
    """

    partitions: Sequence[str] | None = None
    priority: int | None = None
    min_attempts: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    search: str | None = None


class Page(NamedTuple):
    """A part of a list. total: exact without a filter; with one, at least so many."""

    messages: Sequence[StoredMessage]
    total: int
    more: bool


class PayloadSizes(NamedTuple):
    """Bytes of a body, by a sample of the newest messages."""

    average: float
    largest: int
