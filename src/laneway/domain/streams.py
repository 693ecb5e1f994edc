"""Values of the streams protocol: settlements, positions, traces."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from laneway.domain.kv import KvRow
    from laneway.domain.messages import ClaimedSpan, Pushed, Token
    from laneway.domain.timers import TimerResult

# Options that every push must check, as bits of Queue.guards; see laneway.queue.
ENCRYPTED = 1
FULL_AT_SOME_SIZE = 2
RESTS_AFTER_PUSH = 4

# retry: a nack, the attempt counts. release: the attempt does not count.
Action: TypeAlias = Literal["ack", "retry", "release", "dead"]


class Settlement(NamedTuple):
    """How to settle a message; `key` is its dedup key or, if it has none, its address.

    segment and seq: the address, if the key may be one. lease None: the current lease, whichever
    consumer has it.
    """

    lane: int
    key: str
    segment: int | None
    seq: int | None
    group: str
    lease: Token | None
    action: Action
    reason: str | None


class Fate(StrEnum):
    """The result of a settlement; see laneway.settle_stream."""

    COMPLETED = "completed"
    REQUEUED = "requeued"
    DEAD = "dead"
    NOOP = "noop"
    COMMITTED = "committed"
    UNRESOLVED = "unresolved"
    UNLEASED = "unleased"
    LEASE = "lease"


class Verdict(NamedTuple):
    """The result of a settlement. released: the claim has no messages left.

    implied: messages that were acked with it though no settlement of the call names them.
    """

    fate: Fate
    released: bool
    implied: int = 0


class WidenedLease(NamedTuple):
    """Messages that were added to a lease. lease None: no other lane had messages."""

    lease: Token | None
    spans: Sequence[ClaimedSpan]


class Transacted(NamedTuple):
    verdicts: Sequence[Verdict]
    pushed: Sequence[Pushed]
    kv: Sequence[KvRow] = ()
    timers: Sequence[TimerResult] = ()


class Place(NamedTuple):
    """A group's position in a partition: a row of laneway.list_stream_positions."""

    group: str
    ordered: bool
    lane: int
    partition: str
    created_at: datetime
    base: int
    newest: int
    place: int
    pending: int
    processing: int
    dead: int
    oldest: datetime | None
    moved_at: datetime
    held_until: datetime | None


class Trace(NamedTuple):
    """A note about a message: a row of laneway.list_traces. data is JSON text."""

    trace_id: int
    queue: str
    lane: int
    partition: str
    key: str
    group: str
    event_type: str
    names: Sequence[str]
    data: str
    at: datetime
    total: int


class TraceName(NamedTuple):
    name: str
    traces: int
    messages: int
    last_at: datetime
    total: int


class Subscription(NamedTuple):
    """Where a group asked to start; queue_id 0: in any queue."""

    group: str
    queue_id: int
    mode: str
    since: datetime | None
    created_at: datetime
