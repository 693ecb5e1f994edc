"""The library for code without an event loop. A background thread runs the asynchronous calls.

Generated from the asynchronous classes by tools/derivation.py: change those, and run `make docs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.messages import Status
from laneway.domain.queues import DEFAULT_GROUP
from laneway.library import connection as _connection
from laneway.library.consumer import NO_WAIT
from laneway.library.portal import Portal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime, timedelta
    from types import TracebackType
    from typing import Any, Literal, Self

    from laneway.domain.activity import Snapshot
    from laneway.domain.ids import MessageId
    from laneway.domain.messages import Outcome, StoredMessage
    from laneway.domain.queues import Group, Queue
    from laneway.domain.runs import RunInfo, RunStatus, StepInfo
    from laneway.domain.settings import EngineSettings, QueueChanges, QueueSettings
    from laneway.domain.statistics import QueueMetrics, SystemStats, Watched
    from laneway.domain.workers import WorkerInfo, WorkerState, WorkerStats
    from laneway.library.admin import Admin as _Admin
    from laneway.library.connection import Connection as _Connection
    from laneway.library.consumer import Consumer as _Consumer
    from laneway.library.consumer import Held
    from laneway.library.messages import Message
    from laneway.library.producer import Producer as _Producer
    from laneway.library.rate_limit import RateLimit, RateLimitStatus
    from laneway.library.runs import Run as _Run
    from laneway.library.validation import PayloadRules


class Producer:
    """Pushes to `queue`. rules: what payloads keep to. rate_limit: None for none."""

    def __init__(self, inner: _Producer, portal: Portal) -> None:
        self._inner = inner
        self._portal = portal

    @property
    def queue(self) -> str:
        return self._inner.queue

    def enqueue(
        self,
        payload: object,
        *,
        priority: int = 0,
        delay: timedelta | None = None,
        dedup_key: str | None = None,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> MessageId:
        """Return the message's id, once it is committed.

        A key seen within the queue's window makes it a duplicate: the first one's id is returned.
        """
        return self._portal.call(
            self._inner.enqueue(
                payload,
                priority=priority,
                delay=delay,
                dedup_key=dedup_key,
                partition=partition,
                headers=headers,
            )
        )

    def batch_enqueue(
        self,
        payloads: Iterable[object],
        *,
        priority: int = 0,
        delay: timedelta | None = None,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> list[MessageId]:
        """Push all or none; InvalidPayload names the index of the first that breaks a rule."""
        return self._portal.call(
            self._inner.batch_enqueue(
                payloads, priority=priority, delay=delay, partition=partition, headers=headers
            )
        )

    def enqueue_delayed(self, payload: object, delay: timedelta) -> MessageId:
        """Push a message that is handed out no earlier than in `delay`."""
        return self._portal.call(self._inner.enqueue_delayed(payload, delay))

    def enqueue_in(
        self,
        connection: Any,
        payload: object,
        *,
        priority: int = 0,
        delay: timedelta | None = None,
        dedup_key: str | None = None,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> int:
        """Push inside the caller's own transaction: the message exists exactly when that commits.

        connection: psycopg's, asyncpg's or SQLAlchemy's (or its session), on the same database, and
        no pool or engine, which have no transaction. It holds nobody else up, however long it
        lasts: the message waits in the outbox until the commit, and is moved to its queue within
        moments after. Returns its place there.
        """
        return self._portal.call_here(
            self._inner.enqueue_in(
                connection,
                payload,
                priority=priority,
                delay=delay,
                dedup_key=dedup_key,
                partition=partition,
                headers=headers,
            )
        )

    def batch_enqueue_in(
        self,
        connection: Any,
        payloads: Iterable[object],
        *,
        priority: int = 0,
        delay: timedelta | None = None,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Push many inside the caller's own transaction, as enqueue_in does; all or none."""
        return self._portal.call_here(
            self._inner.batch_enqueue_in(
                connection,
                payloads,
                priority=priority,
                delay=delay,
                partition=partition,
                headers=headers,
            )
        )

    def extend_visibility(
        self, message: MessageId | Message | str, duration: timedelta, *, group: str | None = None
    ) -> datetime | None:
        """Have the lock on a message last for `duration` from now, whoever of the group holds it.

        group None: the one that a message was handed to, of an id the queue's own. Returns the new
        deadline, None where nobody holds the message.
        """
        return self._portal.call(self._inner.extend_visibility(message, duration, group=group))

    def rate_limit_status(self) -> RateLimitStatus | None:
        """Return how much may go now; None without a limit."""
        return self._inner.rate_limit_status()


class Consumer:
    """Competes with other consumers of the same group for the queue's messages.

    What it takes it holds until it settles it or the lock ends; ids of messages that it does not
    hold, or holds no more, settle nothing. name: who activity says took a message.
    """

    def __init__(self, inner: _Consumer, portal: Portal) -> None:
        self._inner = inner
        self._portal = portal

    @property
    def queue(self) -> str:
        return self._inner.queue

    @property
    def group(self) -> str:
        return self._inner.group

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def holding(self) -> list[MessageId]:
        """The messages taken and not settled; the locks of some may have ended."""
        return self._inner.holding

    def dequeue(
        self, *, wait: timedelta = NO_WAIT, lock_time: timedelta | None = None
    ) -> Message | None:
        """Return the next message, None if none came within `wait`, or before the connection closed.

        The lock lasts for `lock_time`, else as the message says, else as the queue does.
        """
        return self._portal.call(self._inner.dequeue(wait=wait, lock_time=lock_time))

    def dequeue_many(
        self, n: int, lock_time: timedelta | None = None, *, wait: timedelta = NO_WAIT
    ) -> list[Message]:
        """Return up to n messages, in order of priority, then age."""
        return self._portal.call(self._inner.dequeue_many(n, lock_time, wait=wait))

    def dequeue_many_with_delay(self, n: int, lock_time: timedelta) -> list[Message]:
        """Return up to n messages, not seen by others for `lock_time`."""
        return self._portal.call(self._inner.dequeue_many_with_delay(n, lock_time))

    def delete(self, message: Held) -> bool:
        """Settle a message: it is done. Return False where it is not held, or no more."""
        return self._portal.call(self._inner.delete(message))

    def delete_many(self, messages: Iterable[Held]) -> list[bool]:
        """Settle messages; return for each, in order, whether it was held."""
        return self._portal.call(self._inner.delete_many(messages))

    def archive(self, message: Held) -> bool:
        """Settle a message and keep a copy beyond the log's retention; False where not held."""
        return self._portal.call(self._inner.archive(message))

    def archive_many(self, messages: Iterable[Held]) -> list[bool]:
        """Settle and archive messages; return for each, in order, whether it was held."""
        return self._portal.call(self._inner.archive_many(messages))

    def release(self, message: Held, *, delay: timedelta | None = None) -> bool:
        """Give a message back as if it had not been taken; return False where it is not held."""
        return self._portal.call(self._inner.release(message, delay=delay))

    def fail(
        self,
        message: Held,
        reason: str | None = None,
        *,
        delay: timedelta | None = None,
        dead: bool = False,
    ) -> Outcome:
        """Give a message back after a failure, its attempt spent; return what became of it.

        delay None: the queue's backoff. dead: no more tries.
        """
        return self._portal.call(self._inner.fail(message, reason, delay=delay, dead=dead))

    def extend(self, message: Held, duration: timedelta) -> datetime:
        """Have the lock last for `duration` from now; LeaseLost where it is not held."""
        return self._portal.call(self._inner.extend(message, duration))

    def __iter__(self) -> Iterator[Message]:
        """Yield messages as they come, without end; settle each before its lock does."""
        return self._portal.iterate(aiter(self._inner))


class Admin:
    def __init__(self, inner: _Admin, portal: Portal) -> None:
        self._inner = inner
        self._portal = portal

    def install(self) -> int:
        """Bring the schema to the version of this Laneway; return that."""
        return self._portal.call(self._inner.install())

    def verify(self) -> list[str]:
        """Return what is wrong with the schema: versions, differences, rows that lead nowhere."""
        return self._portal.call(self._inner.verify())

    def create_queue(self, name: str, settings: QueueSettings | None = None) -> Queue:
        """Make a queue; QueueExists if there is one of that name."""
        return self._portal.call(self._inner.create_queue(name, settings))

    def update_queue(self, name: str, changes: QueueChanges) -> Queue:
        return self._portal.call(self._inner.update_queue(name, changes))

    def delete_queue(self, name: str, *, force: bool = False) -> None:
        """Delete a queue; QueueNotEmpty, unless `force`, while messages or unfinished runs are left.

        Messages that are committed to the outbox, and not moved to the queue yet, count too.
        """
        self._portal.call(self._inner.delete_queue(name, force=force))

    def get_queue(self, name: str) -> Queue:
        return self._portal.call(self._inner.get_queue(name))

    def list_queues(self) -> list[Queue]:
        return self._portal.call(self._inner.list_queues())

    def create_group(
        self,
        queue: str,
        name: str,
        *,
        ordered: bool | None = None,
        start: Literal["all", "new"] = "all",
    ) -> Group:
        """Make another reader of the whole queue; ordered None: as the queue is."""
        return self._portal.call(
            self._inner.create_group(queue, name, ordered=ordered, start=start)
        )

    def purge_queue(
        self, name: str, *, status: Status | None = None, group: str = DEFAULT_GROUP
    ) -> int:
        """Delete a group's messages of one state, or of any; return how many."""
        return self._portal.call(self._inner.purge_queue(name, status=status, group=group))

    def queue_metrics(self, name: str, *, group: str = DEFAULT_GROUP) -> QueueMetrics:
        return self._portal.call(self._inner.queue_metrics(name, group=group))

    def all_queues_metrics(self) -> list[QueueMetrics]:
        return self._portal.call(self._inner.all_queues_metrics())

    def follow(self, queue: str, seen: Snapshot | None = None) -> Watched:
        """Return what happened in a queue since `seen`; the first look only marks the place."""
        return self._portal.call(self._inner.follow(queue, seen))

    def system_stats(self) -> SystemStats:
        return self._portal.call(self._inner.system_stats())

    def messages(
        self,
        queue: str,
        status: Status = Status.QUEUED,
        *,
        limit: int = 100,
        offset: int = 0,
        group: str = DEFAULT_GROUP,
    ) -> list[StoredMessage]:
        """Return a group's messages of one state, newest first."""
        return self._portal.call(
            self._inner.messages(queue, status, limit=limit, offset=offset, group=group)
        )

    def dlq_list(
        self, queue: str, *, limit: int = 100, offset: int = 0, group: str = DEFAULT_GROUP
    ) -> list[StoredMessage]:
        """Return a group's dead letters, newest first, each with its reason."""
        return self._portal.call(
            self._inner.dlq_list(queue, limit=limit, offset=offset, group=group)
        )

    def dlq_replay(
        self, queue: str, *, limit: int | None = None, group: str = DEFAULT_GROUP
    ) -> int:
        """Put a group's dead letters back, oldest first, attempts from zero; return how many."""
        return self._portal.call(self._inner.dlq_replay(queue, limit=limit, group=group))

    def dlq_purge(self, queue: str, *, group: str = DEFAULT_GROUP) -> int:
        """Delete a group's dead letters; return how many."""
        return self._portal.call(self._inner.dlq_purge(queue, group=group))

    def list_workers(self, queue: str | None = None) -> list[WorkerInfo]:
        return self._portal.call(self._inner.list_workers(queue))

    def get_worker(self, worker_id: str) -> WorkerInfo:
        return self._portal.call(self._inner.get_worker(worker_id))

    def worker_stats(self) -> WorkerStats:
        return self._portal.call(self._inner.worker_stats())

    def worker_health(self, timeout: timedelta | None = None) -> dict[str, bool]:
        """Tell for each worker not stopped whether it was heard of within `timeout`, or its own."""
        return self._portal.call(self._inner.worker_health(timeout))

    def suspend_worker(self, worker_id: str) -> WorkerState:
        """Have a worker take nothing more; one that polls finishes what it has in hand first."""
        return self._portal.call(self._inner.suspend_worker(worker_id))

    def resume_worker(self, worker_id: str) -> WorkerState:
        """Have a suspended worker go on."""
        return self._portal.call(self._inner.resume_worker(worker_id))

    def shutdown_worker(self, worker_id: str, *, release: bool = False) -> WorkerState:
        """End a worker; WorkerBusy while it has messages in hand, unless they are released."""
        return self._portal.call(self._inner.shutdown_worker(worker_id, release=release))

    def reclaim(self, worker_id: str) -> int:
        """Take all that a worker has in hand, attempts kept, and stop it; return how many."""
        return self._portal.call(self._inner.reclaim(worker_id))

    def reclaim_dead(self, timeout: timedelta | None = None) -> dict[str, int]:
        """Reclaim every worker not heard of within `timeout`, or its own; return each one's."""
        return self._portal.call(self._inner.reclaim_dead(timeout))

    def purge_old_workers(self, age: timedelta) -> int:
        """Forget workers that stopped longer ago; return how many."""
        return self._portal.call(self._inner.purge_old_workers(age))

    def list_runs(self, *, status: RunStatus | None = None, limit: int = 100) -> list[RunInfo]:
        """Return runs of workflows, newest first."""
        return self._portal.call(self._inner.list_runs(status=status, limit=limit))

    def purge_runs(self, age: timedelta) -> int:
        """Forget runs that ended longer ago, with their steps; return how many."""
        return self._portal.call(self._inner.purge_runs(age))


class Run:
    def __init__(self, inner: _Run, portal: Portal) -> None:
        self._inner = inner
        self._portal = portal

    @property
    def run_id(self) -> str:
        return self._inner.run_id

    def info(self) -> RunInfo:
        return self._portal.call(self._inner.info())

    def steps(self) -> list[StepInfo]:
        """Return the steps that are finished, and the timers that were set, oldest first."""
        return self._portal.call(self._inner.steps())

    def status(self) -> RunStatus:
        return self._portal.call(self._inner.status())

    def result(self, timeout: timedelta | None = None) -> Any:
        """Wait for the end and return what the workflow returned.

        RunFailed and RunCancelled tell of another end, TimeoutError of none in time; a timeout of
        zero looks once. A database or server that is away is waited for as well.
        """
        return self._portal.call(self._inner.result(timeout))

    def pause(self) -> RunStatus:
        """Have the run stop at its next step; what it is in the middle of is finished first."""
        return self._portal.call(self._inner.pause())

    def resume(self) -> RunStatus:
        """Have a paused or failed run go on from its last finished step."""
        return self._portal.call(self._inner.resume())

    def cancel(self) -> RunStatus:
        """End the run at its next step."""
        return self._portal.call(self._inner.cancel())


class Connection:
    """The roles on one database or server; open for as long as its context."""

    def __init__(self, inner: _Connection, portal: Portal) -> None:
        self._inner = inner
        self._portal = portal

    def __enter__(self) -> Self:
        self._portal.call(self._inner.__aenter__())
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._portal.call(self._inner.__aexit__(exc_type, exc, traceback))
        finally:
            self._portal.close()

    @property
    def admin(self) -> Admin:
        return Admin(self._inner.admin, self._portal)

    def producer(
        self, queue: str, *, rules: PayloadRules | None = None, rate_limit: RateLimit | None = None
    ) -> Producer:
        return Producer(
            self._inner.producer(queue, rules=rules, rate_limit=rate_limit), self._portal
        )

    def consumer(
        self,
        queue: str,
        *,
        group: str = DEFAULT_GROUP,
        name: str | None = None,
        partition: str | None = None,
        priority: int | None = None,
    ) -> Consumer:
        """Return a consumer; partition and priority: take only messages of these."""
        return Consumer(
            self._inner.consumer(
                queue, group=group, name=name, partition=partition, priority=priority
            ),
            self._portal,
        )

    def install(self) -> int:
        """Bring the schema to the version of this Laneway; return that."""
        return self._portal.call(self._inner.install())

    def verify(self) -> list[str]:
        """Return what is wrong with the schema; nothing when all is well."""
        return self._portal.call(self._inner.verify())

    def job_result(self, message: MessageId | Message | str) -> Any:
        """Return what a message's handler returned; ResultNotFound while there is nothing kept."""
        return self._portal.call(self._inner.job_result(message))

    def start(
        self, workflow: str, *arguments: Any, queue: str = "workflows", run_id: str | None = None
    ) -> Run:
        """Begin a run of a workflow by its name; one that has begun under that id is left alone."""
        return Run(
            self._portal.call(self._inner.start(workflow, *arguments, queue=queue, run_id=run_id)),
            self._portal,
        )

    def run(self, run_id: str) -> Run:
        """Return a run of a workflow by its id, whether there is one or not."""
        return Run(self._inner.run(run_id), self._portal)


def connect(
    address: str,
    *,
    api_key: str | None = None,
    pooled: bool = False,
    direct_dsn: str | None = None,
    settings: EngineSettings | None = None,
) -> Connection:
    """Return a connection to use in an `with` statement.

    address: a PostgreSQL DSN, or a Laneway server's URL; everything works alike on both. api_key:
    the server's. pooled: the DSN leads through PgBouncer in transaction mode, and direct_dsn past
    it. Nothing is connected before the first call, and a database that is away is no error until
    then.
    """
    inner = _connection.connect(
        address, api_key=api_key, pooled=pooled, direct_dsn=direct_dsn, settings=settings
    )
    return Connection(inner, Portal())
