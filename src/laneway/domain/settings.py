"""The settings of queues, and of the engine in one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, TypedDict

from laneway.domain.messages import PRIORITY_LEVELS

QueueKind: TypeAlias = Literal["standard", "unlogged", "partitioned"]
DedupScope: TypeAlias = Literal["queue", "partition"]

# Where a new group starts: at the earliest kept message, with messages from now on, or at a time.
Start: TypeAlias = Literal["all", "new"] | datetime

# Where a group seeks to: the earliest kept message, behind the newest, a time, or a sequence
# number.
Place: TypeAlias = Literal["earliest", "latest"] | datetime | int
Target: TypeAlias = Literal["earliest", "latest", "time", "seq"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """A queue's settings, by the names of the columns of laneway.queue.

    max_attempts None: no limit on attempts. backoff: the delay after the first failed attempt; each
    further one multiplies it by backoff_factor, up to backoff_limit. Unless the factor is 1, delays
    vary at random by a tenth. retention None: the policy's. retention_step: messages
    past retention are deleted in steps of this length. max_bytes: of a message's body. message_ttl None: undelivered messages never
    expire. delay: every message is delayed by this. durable_claims: claims survive a crash of
    PostgreSQL; claims of ordered groups always do, claims of unlogged queues never. kind and
    ordered cannot be changed after the queue was created.

    max_messages: a push over the streams API is refused while any group has this many unfinished
    messages. rest_window: after a push over the streams API, ordered groups wait this long before
    they claim from the partition. dead_letter_after: messages that are ready for longer are
    dead-lettered. keep_dead_letters False: dead letters are deleted. dead_letter_queue: dead letters
    move to this queue, with dead_letter_source (None: the queue's name) as their source;
    max_receives: attempts that consumers saw, at most. encrypted: the streams API encrypts what it
    pushes. default_group_optional: the group "default" has no lag while other groups read the queue
    and none read by it. individual_acks: over the streams API, an ack of a message of an ordered
    group does not ack the messages before it. expiry_backoff: a message whose lease expired waits
    for the backoff, as a nacked one does. options: data that a protocol stores with its queue; the engine ignores it.
    """

    kind: QueueKind = "standard"
    ordered: bool = False
    lease: timedelta = timedelta(seconds=30)
    max_attempts: int | None = 5
    backoff: timedelta = timedelta(seconds=1)
    backoff_factor: float = 2.0
    backoff_limit: timedelta = timedelta(minutes=10)
    delay: timedelta | None = None
    dedup_window: timedelta = timedelta(minutes=5)
    dedup_scope: DedupScope = "queue"
    retention: timedelta | None = None
    retention_step: timedelta | None = None
    message_ttl: timedelta | None = None
    max_bytes: int = 16_777_216
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
    individual_acks: bool = False
    expiry_backoff: bool = True
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
    individual_acks: bool
    expiry_backoff: bool
    description: str | None
    options: Mapping[str, Any]


def name_target_queues(
    dead_letter_queue: str | None, dead_letter_source: str | None
) -> Sequence[str]:
    """Return the queues that these settings of a queue name.

    Dead letters go to `dead_letter_queue`, and say that they come from the queue whose name ends
    `dead_letter_source`.
    """
    source = dead_letter_source and dead_letter_source.rpartition(":")[2]
    return [name for name in (dead_letter_queue, source) if name is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """How the engine connects.

    direct_dsn: for LISTEN and session locks, if the engine's DSN connects through PgBouncer in
    transaction mode; through_pooler then uses no prepared statements and no session parameters.
    """

    size: int = 10
    connect_timeout: timedelta = timedelta(seconds=5)
    call_timeout: timedelta = timedelta(seconds=30)
    reconnect_pause: timedelta = timedelta(milliseconds=50)
    reconnect_limit: timedelta = timedelta(milliseconds=500)
    through_pooler: bool = False
    direct_dsn: str | None = field(default=None, repr=False)

    @property
    def have_sessions(self) -> bool:
        """Whether this process can have its own session, for LISTEN and locks."""
        return not self.through_pooler or self.direct_dsn is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PumpSettings:
    """Batch sizes, concurrency and queue lengths of the pumps.

    flush_* limit one call; a larger submission is sent alone. waiting_* limit what is not answered
    yet. concurrent_calls: concurrent calls per pump; concurrent_calls_per_queue: concurrent pushes into one queue,
    where more than one makes an unordered queue use several stripes.
    """

    flush_messages: int = 1000
    flush_bytes: int = 4 * 1024 * 1024
    waiting_messages: int = 50_000
    waiting_bytes: int = 256 * 1024 * 1024
    concurrent_calls: int = 2
    concurrent_calls_per_queue: int = 1
    retry_after: timedelta = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeupSettings:
    """How processes wake each other.

    notify_pause: the shortest time between two notifications. listen: receive notifications of
    other processes; without it, only the safety poll finds their messages.
    """

    listen: bool = True
    notify_pause: timedelta = timedelta(milliseconds=5)
    safety_poll: timedelta = timedelta(seconds=1)
    catalog_age: timedelta = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceSettings:
    """Whether this process may become maintenance leader, and how often each service runs.

    *_batch: rows per step. keep_workers: how long stopped workers are kept.
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
    kv: timedelta = timedelta(seconds=10)
    kv_batch: int = 1000
    timers: timedelta = timedelta(milliseconds=200)
    timers_batch: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """The settings of the engine.

    shutdown: how long closing waits for present calls. priority_levels: producers may use the
    priorities from 0 to one below it.
    """

    connections: ConnectionSettings = ConnectionSettings()
    pumps: PumpSettings = PumpSettings()
    wakeups: WakeupSettings = WakeupSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    shutdown: timedelta = timedelta(seconds=5)
    priority_levels: int = PRIORITY_LEVELS

    def without_sessions(self) -> EngineSettings:
        """Return these settings without LISTEN and maintenance, which need their own session."""
        return replace(
            self,
            wakeups=replace(self.wakeups, listen=False),
            maintenance=replace(self.maintenance, enabled=False),
        )
