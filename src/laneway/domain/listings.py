"""Lists of messages: filters and pages."""

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
    """Which messages of a state to list; None: any. since and until are inclusive.

    search: a text in the id, the partition or the body, in any case.
    """

    partitions: Sequence[str] | None = None
    priority: int | None = None
    min_attempts: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    search: str | None = None


class Page(NamedTuple):
    """A part of a list. total: exact without a filter, a lower bound with one."""

    messages: Sequence[StoredMessage]
    total: int
    more: bool


class PayloadSizes(NamedTuple):
    """Sizes of bodies in bytes, from a sample of the newest messages."""

    average: float
    largest: int
