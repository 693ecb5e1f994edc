"""Values of reads of the log by place, without a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


class PartitionRead(NamedTuple):
    """A read of messages after a sequence number, at most max_bytes of bodies but at least one."""

    queue: str
    partition: str
    after: int
    max_bytes: int


class LogMessage(NamedTuple):
    """A message as it was pushed. body and headers: JSON text."""

    segment: int
    lane: int
    seq: int
    created_at: datetime
    dedup_key: str | None
    headers: str | None
    body: str


class PartitionExtent(NamedTuple):
    """What a read found. lanes: in how many lanes the partition's messages are; 0: it does not exist.

    base: the newest sequence number that is no longer kept. newest: of the newest message. If the
    partition is not one lane, nothing was read.
    """

    lanes: int
    base: int
    newest: int
    messages: Sequence[LogMessage]


class ChangedQuery(NamedTuple):
    """Asks for partitions of a queue, oldest first, after a lane. since None: all of them."""

    queue: str
    since: datetime | None
    after: int
    limit: int


class ChangedPartition(NamedTuple):
    """A partition, and when it was last pushed to; base and newest as in PartitionExtent."""

    lane: int
    partition: str
    base: int
    newest: int
    pushed_at: datetime


class ChangedPage(NamedTuple):
    """Some of a queue's partitions. next: the lane after which to go on, None at the end."""

    partitions: Sequence[ChangedPartition]
    next: int | None


class Changes(NamedTuple):
    """The answer to several queries; a page is None where there is no such queue.

    safe_time: every push up to then counts in this answer.
    """

    pages: Sequence[ChangedPage | None]
    safe_time: datetime
