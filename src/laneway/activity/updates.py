"""Updates: summaries of events for clients that watch queues live."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from laneway.domain.activity import Kind
from laneway.domain.ids import MessageId
from laneway.domain.queues import DEFAULT_GROUP

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from laneway.domain.activity import Event, Facts

# Messages named by one update, and updates from one read, at most.
MOST_IDS = 100
MOST_UPDATES = 50


class Change(StrEnum):
    ENQUEUE = "enqueue"
    DEQUEUE = "dequeue"
    ACKNOWLEDGE = "acknowledge"
    REQUEUE = "requeue"
    MOVE_TO_DLQ = "move_to_dlq"
    ARCHIVE = "archive"
    DELETE = "delete"


class Update(NamedTuple):
    """A change of `total` messages of a queue. queue: None for any queue. ids: of all, or empty.

    force_refresh: the update does not name everything, so the client must read the queue again.
    """

    change: Change
    queue: str | None
    at: datetime
    total: int
    ids: Sequence[MessageId] = ()
    messages: Sequence[Facts] = ()
    force_refresh: bool = False

    @property
    def status(self) -> str:
        return _STATUS[self.change]


class _Detail(msgspec.Struct):
    to: str | None = None
    count: int = 0


_CHANGES: dict[str, Change] = {
    Kind.PUSHED: Change.ENQUEUE,
    Kind.CLAIMED: Change.DEQUEUE,
    Kind.ACKED: Change.ACKNOWLEDGE,
    Kind.NACKED: Change.REQUEUE,
    Kind.RELEASED: Change.REQUEUE,
    Kind.EXPIRED: Change.REQUEUE,
    Kind.DEAD: Change.MOVE_TO_DLQ,
    Kind.TIMED_OUT: Change.MOVE_TO_DLQ,
    Kind.MOVED: Change.REQUEUE,
    Kind.EDITED: Change.REQUEUE,
    Kind.DELETED: Change.DELETE,
    Kind.DELETED_MANY: Change.DELETE,
    Kind.DROPPED: Change.DELETE,
    Kind.PURGED: Change.DELETE,
    Kind.CLEARED: Change.DELETE,
    Kind.SOUGHT: Change.REQUEUE,
    Kind.QUEUE_DELETED: Change.DELETE,
}
_MOVES = {
    "queued": Change.REQUEUE,
    "processing": Change.DEQUEUE,
    "acknowledged": Change.ACKNOWLEDGE,
    "dead": Change.MOVE_TO_DLQ,
    "archived": Change.ARCHIVE,
}
_STATUS = {
    Change.ENQUEUE: "queued",
    Change.DEQUEUE: "processing",
    Change.ACKNOWLEDGE: "acknowledged",
    Change.REQUEUE: "queued",
    Change.MOVE_TO_DLQ: "dead",
    Change.ARCHIVE: "archived",
    Change.DELETE: "deleted",
}


def summarize(events: Sequence[Event]) -> list[Update]:
    """Return updates for the default groups; consecutive changes of one kind are combined."""
    updates: list[Update] = []
    for event in events:
        update = _read(event)
        if update is None:
            continue
        last = updates[-1] if updates else None
        if last is not None and (last.change, last.queue) == (update.change, update.queue):
            updates[-1] = _join(last, update)
        else:
            updates.append(update)
    return updates if len(updates) <= MOST_UPDATES else _shorten(updates)


def refresh(change: Change, queue: str | None, at: datetime, count: int = 0) -> Update:
    """Return an update without messages, which asks clients to read the queue again."""
    return Update(change, queue, at, count, force_refresh=True)


def _read(event: Event) -> Update | None:
    change = _CHANGES.get(event.kind)
    if change is None or event.group not in {None, DEFAULT_GROUP}:
        return None
    detail = _Detail()
    if event.detail is not None and event.kind in {Kind.MOVED, Kind.PURGED, Kind.CLEARED}:
        detail = msgspec.json.decode(event.detail, type=_Detail)
    if event.kind == Kind.MOVED:
        change = _MOVES.get(detail.to or "", change)
    segment, lane, first = event.segment, event.lane, event.first_seq
    if segment is None or lane is None or first is None:
        return refresh(change, event.queue, event.at, event.messages or detail.count)
    count = event.messages
    if count > MOST_IDS or event.kind == Kind.EDITED:
        return refresh(change, event.queue, event.at, count)
    ids = [MessageId(segment, lane, seq) for seq in range(first, first + count)]
    return Update(change, event.queue, event.at, count, ids)


def _join(first: Update, second: Update) -> Update:
    count = first.total + second.total
    at = max(first.at, second.at)
    if first.force_refresh or second.force_refresh or count > MOST_IDS:
        return refresh(first.change, first.queue, at, count)
    return Update(first.change, first.queue, at, count, [*first.ids, *second.ids])


def _shorten(updates: Sequence[Update]) -> list[Update]:
    """Return one update for each change and queue; their order is lost."""
    found: dict[tuple[Change, str | None], Update] = {}
    for update in updates:
        key = (update.change, update.queue)
        before = found.get(key)
        count = update.total + (before.total if before else 0)
        found[key] = refresh(update.change, update.queue, update.at, count)
    return list(found.values())
