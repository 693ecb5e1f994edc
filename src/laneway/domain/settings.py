"""What a person can set: per queue, and for the engine of one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, TypedDict

QueueKind: TypeAlias = Literal["standard", "unlogged", "partitioned"]
DedupScope: TypeAlias = Literal["queue", "partition"]

# Where a new group begins: the earliest message kept, only what comes from now on, or a time.
Start: TypeAlias = Literal["all", "new"] | datetime

# Where a group goes: the earliest message kept, behind the newest, a time, or a seq of a partition.
Place: TypeAlias = Literal["earliest", "latest"] | datetime | int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """A queue's settings, by the names of the columns of laneway.queue.

    max_attempts None: never dead by attempts. retention None: the policy's. retention_step:
    what is past retention leaves in steps of this length. message_ttl None: undelivered messages
    never expire. delay: every message waits this long. durable_claims: a claim that was answered
    survives a crash of PostgreSQL; claims of ordered groups always do, claims of unlogged queues
    never. kind and ordered are fixed when the queue is made.

    max_messages: a push over the streams API is refused while any group has this many unfinished
    messages. rest_window: after a push over the streams API, ordered groups wait this long before
    they read the partition. dead_letter_after: messages that are ready for longer are
    dead-lettered. keep_dead_letters False: dead letters are deleted. dead_letter_queue: dead letters
    move to this queue, with dead_letter_source (None: the queue's name) as their source;
    max_receives: attempts that consumers saw, at most. encrypted: the streams API encrypts what it
    pushes. default_group_optional: the group "default" has no lag while other groups read the queue
    and nobody has read by it. options: what a protocol keeps with its queue; the engine obeys none.
    """

    kind: QueueKind = "standard"
    ordered: bool = False
    lease: timedelta = timedelta(seconds=30)
    max_attempts: int | None = 3
    backoff: timedelta = timedelta(0)
    backoff_factor: float = 2.0
    backoff_limit: timedelta = timedelta(hours=1)
    delay: timedelta | None = None
    dedup_window: timedelta = timedelta(minutes=5)
    dedup_scope: DedupScope = "queue"
    retention: timedelta | None = None
    retention_step: timedelta | None = None
    message_ttl: timedelta | None = None
    max_bytes: int = 1_048_576
    record_events: bool = True
    durable_claims: bool = True
    max_messages: int | None = None
    rest_window: timedelta | None = None
    dead_letter_after: timedelta | None = None
    keep_dead_letters: bool = True
    dead_letter_queue: str | None = None
    dead_letter_source: str | None = None
    max_receives: int | None = None
    encrypted: bool = False
    default_group_optional: bool = False
    description: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


class QueueChanges(TypedDict, total=False):
    """The settings of a queue to change; those not named keep their values."""

    lease: timedelta
    max_attempts: int | None
    backoff: timedelta
    backoff_factor: float
    backoff_limit: timedelta
    delay: timedelta | None
    dedup_window: timedelta
    dedup_scope: DedupScope
    retention: timedelta | None
    retention_step: timedelta | None
    message_ttl: timedelta | None
    max_bytes: int
    record_events: bool
    durable_claims: bool
    max_messages: int | None
    rest_window: timedelta | None
    dead_letter_after: timedelta | None
    keep_dead_letters: bool
    dead_letter_queue: str | None
    dead_letter_source: str | None
    max_receives: int | None
    encrypted: bool
    default_group_optional: bool
    description: str | None
    options: Mapping[str, Any]


def name_target_queues(
    dead_letter_queue: str | None, dead_letter_source: str | None
) -> Sequence[str]:
    """Return the names of the queues that these settings of a queue send its messages to.

    Dead letters go to `dead_letter_queue`, and from there a move task without a destination sends
    them to the queue whose name ends `dead_letter_source`.
    """
    source = dead_letter_source and dead_letter_source.rpartition(":")[2]
    return [name for name in (dead_letter_queue, source) if name is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """How the engine holds its connections.

    direct_dsn: where LISTEN and session locks go when the engine's DSN leads through PgBouncer in
    transaction mode; through_pooler then keeps no prepared statement and no session parameter.
    """

    size: int = 10
    connect_timeout: timedelta = timedelta(seconds=1)
    call_timeout: timedelta = timedelta(seconds=30)
    reconnect_pause: timedelta = timedelta(milliseconds=50)
    reconnect_limit: timedelta = timedelta(milliseconds=500)
    through_pooler: bool = False
    direct_dsn: str | None = field(default=None, repr=False)

    @property
    def have_sessions(self) -> bool:
        """Whether a session can be had that is this process's own, for LISTEN and locks."""
        return not self.through_pooler or self.direct_dsn is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PumpSettings:
    """How much rides in one call, how many calls at once, how much may wait.

    flush_* bound one call; a larger submission still rides, alone. waiting_* bound what has not
    been answered yet. flights: calls at once, per pump; flights_per_queue: pushes into one queue at
    once, where more than one makes an unordered queue spread over stripes.
    """

    flush_messages: int = 1000
    flush_bytes: int = 4 * 1024 * 1024
    waiting_messages: int = 50_000
    waiting_bytes: int = 256 * 1024 * 1024
    flights: int = 2
    flights_per_queue: int = 1
    retry_after: timedelta = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeupSettings:
    """notify_pause: at most one notification to other processes in that time.

    listen: hear what other processes tell; without it, only the safety poll finds what they did.
    """

    listen: bool = True
    notify_pause: timedelta = timedelta(milliseconds=5)
    safety_poll: timedelta = timedelta(seconds=1)
    catalog_age: timedelta = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceSettings:
    """Whether this process offers itself for maintenance, and how often each service runs.

    *_batch: how much in one go. keep_workers: how long workers that stopped are still known.
    """

    enabled: bool = True
    candidacy: timedelta = timedelta(seconds=2)
    expire: timedelta = timedelta(seconds=5)
    expire_batch: int = 1000
    rotate: timedelta = timedelta(seconds=30)
    retain: timedelta = timedelta(seconds=60)
    idle: timedelta = timedelta(seconds=10)
    idle_batch: int = 1000
    dedup: timedelta = timedelta(seconds=10)
    dedup_batch: int = 10_000
    forget: timedelta = timedelta(seconds=10)
    forget_batch: int = 1000
    lanes: timedelta = timedelta(seconds=10)
    lanes_batch: int = 1000
    recover: timedelta = timedelta(seconds=10)
    redrive: timedelta = timedelta(seconds=1)
    redrive_batch: int = 500
    outbox: timedelta = timedelta(milliseconds=200)
    outbox_batch: int = 1000
    workers: timedelta = timedelta(seconds=1)
    keep_workers: timedelta = timedelta(days=1)
    results: timedelta = timedelta(seconds=30)
    results_batch: int = 1000
    streams: timedelta = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """shutdown: how long closing waits for what is under way."""

    connections: ConnectionSettings = ConnectionSettings()
    pumps: PumpSettings = PumpSettings()
    wakeups: WakeupSettings = WakeupSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    shutdown: timedelta = timedelta(seconds=5)

    def without_sessions(self) -> EngineSettings:
        """Return these settings without what needs a session of its own: LISTEN and maintenance."""
        return replace(
            self,
            wakeups=replace(self.wakeups, listen=False),
            maintenance=replace(self.maintenance, enabled=False),
        )
