"""The library for code without an event loop. A background thread runs the asynchronous calls.

Generated from the asynchronous classes by tools/derivation.py: change those, and run `make docs`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from laneway.domain.errors import BrokerClosed
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
    from laneway.domain.dead_letters import DeadLetterFilter, FailureGroup
    from laneway.domain.ids import MessageId
    from laneway.domain.jobs import JobInfo
    from laneway.domain.keys import KeyInfo, NewKey
    from laneway.domain.messages import Outcome, Progress, StoredMessage
    from laneway.domain.queues import Group, Queue
    from laneway.domain.runs import RunInfo, RunStatus, StepInfo
    from laneway.domain.schedules import ScheduleInfo
    from laneway.domain.settings import EngineSettings, Place, QueueChanges, QueueSettings
    from laneway.domain.statistics import QueueEvents, QueueMetrics, SystemStats
    from laneway.domain.workers import WorkerInfo, WorkerState, WorkerStats
    from laneway.library.admin import Admin as _Admin
    from laneway.library.connection import Connection as _Connection
    from laneway.library.consumer import Consumer as _Consumer
    from laneway.library.consumer import Leased
    from laneway.library.jobs import Job as _Job
    from laneway.library.messages import Message
    from laneway.library.producer import Producer as _Producer
    from laneway.library.rate_limit import RateLimit, RateLimitStatus
    from laneway.library.runs import Run as _Run
    from laneway.library.validation import PayloadRules


class Producer:
    """Enqueues messages to `queue`. rules: limits of payloads. rate_limit: None for no limit.

    priority_levels: priorities go from 0 to one below it.
    """

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
        at: datetime | None = None,
        dedup_key: str | None = None,
        dedup_window: timedelta | None = None,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> MessageId:
        """Enqueue a message, and return its id once it is committed.

        delay, at: how long, or until when, the message stays delayed. dedup_key: if a message was
        enqueued with this key less than its dedup_window ago, nothing is added and the id of that
        message is returned. dedup_window: None: the queue's.
        """
        return self._portal.call(
            self._inner.enqueue(
                payload,
                priority=priority,
                delay=delay,
                at=at,
                dedup_key=dedup_key,
                dedup_window=dedup_window,
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
        at: datetime | None = None,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> list[MessageId]:
        """Enqueue all payloads or none; InvalidPayload names the index of the first invalid one."""
        return self._portal.call(
            self._inner.batch_enqueue(
                payloads,
                priority=priority,
                delay=delay,
                at=at,
                partition=partition,
                headers=headers,
            )
        )

    def enqueue_delayed(self, payload: object, delay: timedelta) -> MessageId:
        """Enqueue a message that is not delivered before `delay` has passed."""
        return self._portal.call(self._inner.enqueue_delayed(payload, delay))

    def enqueue_in(
        self,
        connection: Any,
        payload: object,
        *,
        priority: int = 0,
        delay: timedelta | None = None,
        at: datetime | None = None,
        dedup_key: str | None = None,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> int:
        """Enqueue a message in the caller's own transaction: it exists if and only if that commits.

        connection: of psycopg, asyncpg or SQLAlchemy (or a SQLAlchemy session), on the same database;
        not a pool or engine, which have no transaction. The transaction blocks no other producer: the
        message is stored in the outbox, and moved to its queue moments after the commit. Returns its
        outbox id.
        """
        return self._portal.call_here(
            self._inner.enqueue_in(
                connection,
                payload,
                priority=priority,
                delay=delay,
                at=at,
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
        at: datetime | None = None,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Enqueue many messages in the caller's own transaction, as `enqueue_in` does."""
        return self._portal.call_here(
            self._inner.batch_enqueue_in(
                connection,
                payloads,
                priority=priority,
                delay=delay,
                at=at,
                partition=partition,
                headers=headers,
            )
        )

    def extend_visibility(
        self, message: MessageId | Message | str, duration: timedelta, *, group: str | None = None
    ) -> datetime | None:
        """Extend the lease of any consumer of the group on a message to `duration` from now.

        group: None for the group that the message was delivered to, or for an id the default group.
        Returns the lease's new end; None if the message is not leased.
        """
        return self._portal.call(self._inner.extend_visibility(message, duration, group=group))

    def rate_limit_status(self) -> RateLimitStatus | None:
        """Return how many messages the rate limit allows now; None without a limit."""
        return self._inner.rate_limit_status()


class Consumer:
    """Competes with other consumers of its group for the queue's messages.

    A message stays leased to the consumer until it is settled or the lease expires. Methods that take
    a message's id work only on messages that this consumer dequeued. name: shown in activity.
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
    def in_flight(self) -> list[MessageId]:
        """The messages dequeued and not settled; some of their leases may have expired."""
        return self._inner.in_flight

    @property
    def holding(self) -> list[MessageId]:
        """Former name of `in_flight`."""
        return self._inner.holding

    def dequeue(
        self, *, wait: timedelta = NO_WAIT, lock_time: timedelta | None = None
    ) -> Message | None:
        """Return the next message; None if none arrived within `wait`, or if the connection closed.

        lock_time: lease duration; None: the message's own, else the queue's.
        """
        return self._portal.call(self._inner.dequeue(wait=wait, lock_time=lock_time))

    def dequeue_many(
        self, n: int, lock_time: timedelta | None = None, *, wait: timedelta = NO_WAIT
    ) -> list[Message]:
        """Return up to n messages, in order of priority, then age."""
        return self._portal.call(self._inner.dequeue_many(n, lock_time, wait=wait))

    def dequeue_many_with_delay(self, n: int, lock_time: timedelta) -> list[Message]:
        """Return up to n messages, leased for `lock_time`."""
        return self._portal.call(self._inner.dequeue_many_with_delay(n, lock_time))

    def dequeue_at(
        self, moment: datetime, n: int = 1, lock_time: timedelta | None = None
    ) -> list[Message]:
        """Return up to n messages as if it were `moment`, which may lie in the future.

        Messages that are delayed until then, or wait for a retry until then, become ready at once for
        every consumer of the group. Not in ordered groups, where a delayed message keeps its time.
        """
        return self._portal.call(self._inner.dequeue_at(moment, n, lock_time))

    def ack(self, message: Leased) -> bool:
        """Ack a message. Return False if this consumer has no lease on it."""
        return self._portal.call(self._inner.ack(message))

    def ack_many(self, messages: Iterable[Leased]) -> list[bool]:
        """Ack messages; return for each, in order, whether this consumer had a lease on it."""
        return self._portal.call(self._inner.ack_many(messages))

    def delete(self, message: Leased) -> bool:
        """Another name of `ack`."""
        return self._portal.call(self._inner.delete(message))

    def delete_many(self, messages: Iterable[Leased]) -> list[bool]:
        """Another name of `ack_many`."""
        return self._portal.call(self._inner.delete_many(messages))

    def archive(self, message: Leased) -> bool:
        """Ack a message and keep a copy beyond the log's retention. Return False without a lease."""
        return self._portal.call(self._inner.archive(message))

    def archive_many(self, messages: Iterable[Leased]) -> list[bool]:
        """Ack and archive messages; return for each, in order, whether there was a lease on it."""
        return self._portal.call(self._inner.archive_many(messages))

    def release(self, message: Leased, *, delay: timedelta | None = None) -> bool:
        """Release a message without counting the attempt. Return False without a lease on it."""
        return self._portal.call(self._inner.release(message, delay=delay))

    def release_many(
        self, messages: Iterable[Leased], *, delay: timedelta | None = None
    ) -> list[bool]:
        """Release messages; return for each, in order, whether this consumer had a lease on it.

        delay: how long they stay delayed; None: they are ready at once.
        """
        return self._portal.call(self._inner.release_many(messages, delay=delay))

    def nack(
        self,
        message: Leased,
        reason: str | None = None,
        *,
        delay: timedelta | None = None,
        dead: bool = False,
    ) -> Outcome:
        """Nack a message; return the outcome.

        delay: until the next attempt; None: the queue's backoff. dead: dead-letter it at once.
        """
        return self._portal.call(self._inner.nack(message, reason, delay=delay, dead=dead))

    def nack_many(
        self,
        messages: Iterable[Leased],
        reason: str | None = None,
        *,
        delay: timedelta | None = None,
        dead: bool = False,
    ) -> list[Outcome]:
        """Nack messages, all with the same reason; return the outcome of each, in order."""
        return self._portal.call(self._inner.nack_many(messages, reason, delay=delay, dead=dead))

    def fail(
        self,
        message: Leased,
        reason: str | None = None,
        *,
        delay: timedelta | None = None,
        dead: bool = False,
    ) -> Outcome:
        """Another name of `nack`."""
        return self._portal.call(self._inner.fail(message, reason, delay=delay, dead=dead))

    def extend(self, message: Leased, duration: timedelta) -> datetime:
        """Extend the lease to `duration` from now, and return its end; raise LeaseLost without one."""
        return self._portal.call(self._inner.extend(message, duration))

    def __iter__(self) -> Iterator[Message]:
        """Yield messages as they arrive, without end. Settle each before its lease expires."""
        return self._portal.iterate(aiter(self._inner))


class Admin:
    """Manages API keys, queues, groups, dead letters, workers and workflow runs."""

    def __init__(self, inner: _Admin, portal: Portal) -> None:
        self._inner = inner
        self._portal = portal

    def install(self) -> int:
        """Install or upgrade the schema to this version of Laneway; return the schema's version."""
        return self._portal.call(self._inner.install())

    def verify(self) -> list[str]:
        """Return the schema's problems: wrong versions, differences, dangling rows; [] if none."""
        return self._portal.call(self._inner.verify())

    def create_key(
        self,
        role: Literal["read", "write", "admin"],
        *,
        queues: str | None = None,
        name: str | None = None,
    ) -> NewKey:
        """Create an API key. Only this answer contains it: the broker stores its hash.

        queues: a pattern such as "mail-*" of the queues that the key is limited to; None: all. name:
        None for the key's id. Once a key exists, servers require one.
        """
        return self._portal.call(self._inner.create_key(role, queues=queues, name=name))

    def list_keys(self, *, revoked: bool = False) -> list[KeyInfo]:
        """Return the valid API keys; with `revoked`, also the revoked ones."""
        return self._portal.call(self._inner.list_keys(revoked=revoked))

    def revoke_key(self, key_id: str) -> None:
        """Revoke an API key. Running servers refuse it within seconds."""
        self._portal.call(self._inner.revoke_key(key_id))

    def create_queue(
        self, name: str, settings: QueueSettings | None = None, *, exist_ok: bool = False
    ) -> Queue:
        """Create a queue. If it exists, raise QueueExists or, with `exist_ok`, return it unchanged."""
        return self._portal.call(self._inner.create_queue(name, settings, exist_ok=exist_ok))

    def update_queue(self, name: str, changes: QueueChanges) -> Queue:
        return self._portal.call(self._inner.update_queue(name, changes))

    def delete_queue(self, name: str, *, force: bool = False) -> None:
        """Delete a queue; raise QueueNotEmpty if it has messages or unfinished runs, unless `force`.

        Messages that are committed to the outbox and not yet moved to the queue count too.
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
        """Create a consumer group. ordered: None for the queue's setting. start: its first messages."""
        return self._portal.call(
            self._inner.create_group(queue, name, ordered=ordered, start=start)
        )

    def list_groups(self, queue: str) -> list[Group]:
        return self._portal.call(self._inner.list_groups(queue))

    def delete_group(self, queue: str, name: str) -> None:
        """Delete a consumer group with its state; the queue's group "default" cannot be deleted."""
        self._portal.call(self._inner.delete_group(queue, name))

    def seek(
        self, queue: str, to: Place, *, group: str = DEFAULT_GROUP, partition: str | None = None
    ) -> int:
        """Reposition a group, or its part in one partition; return how many lanes moved.

        to: "earliest", "latest", the time of the first message to read, or its sequence number. The
        group's leases, delays and retries end; dead letters stay.
        """
        return self._portal.call(self._inner.seek(queue, to, group=group, partition=partition))

    def purge_queue(
        self, name: str, *, status: Status | None = None, group: str = DEFAULT_GROUP
    ) -> int:
        """Delete a group's messages of one status, or of all; return how many."""
        return self._portal.call(self._inner.purge_queue(name, status=status, group=group))

    def queue_metrics(self, name: str, *, group: str = DEFAULT_GROUP) -> QueueMetrics:
        return self._portal.call(self._inner.queue_metrics(name, group=group))

    def all_queues_metrics(self) -> list[QueueMetrics]:
        return self._portal.call(self._inner.all_queues_metrics())

    def follow(self, queue: str, seen: Snapshot | None = None) -> QueueEvents:
        """Return the queue's activity since `seen`. Without `seen`, return only the current position."""
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
        """Return a group's messages of one status, newest first."""
        return self._portal.call(
            self._inner.messages(queue, status, limit=limit, offset=offset, group=group)
        )

    def dlq_list(
        self,
        queue: str,
        where: DeadLetterFilter | None = None,
        *,
        limit: int = 100,
        offset: int = 0,
        group: str = DEFAULT_GROUP,
    ) -> list[StoredMessage]:
        """Return a group's dead letters with their failure reasons.

        Without `where`, the newest first; with it, those that were dead-lettered first, and `offset` must be 0.
        """
        return self._portal.call(
            self._inner.dlq_list(queue, where, limit=limit, offset=offset, group=group)
        )

    def dlq_groups(
        self, queue: str, *, limit: int = 100, group: str = DEFAULT_GROUP
    ) -> list[FailureGroup]:
        """Return a group's dead letters by kind of failure, the most frequent first."""
        return self._portal.call(self._inner.dlq_groups(queue, limit=limit, group=group))

    def dlq_redrive(
        self,
        queue: str,
        where: DeadLetterFilter | None = None,
        *,
        limit: int | None = None,
        group: str = DEFAULT_GROUP,
    ) -> int:
        """Redrive a group's dead letters, oldest first, with attempts reset; return how many."""
        return self._portal.call(self._inner.dlq_redrive(queue, where, limit=limit, group=group))

    def dlq_replay(
        self, queue: str, *, limit: int | None = None, group: str = DEFAULT_GROUP
    ) -> int:
        """Former name of `dlq_redrive`."""
        return self._portal.call(self._inner.dlq_replay(queue, limit=limit, group=group))

    def dlq_purge(
        self, queue: str, where: DeadLetterFilter | None = None, *, group: str = DEFAULT_GROUP
    ) -> int:
        """Delete a group's dead letters; return how many there were."""
        return self._portal.call(self._inner.dlq_purge(queue, where, group=group))

    def list_workers(self, queue: str | None = None) -> list[WorkerInfo]:
        return self._portal.call(self._inner.list_workers(queue))

    def get_worker(self, worker_id: str) -> WorkerInfo:
        return self._portal.call(self._inner.get_worker(worker_id))

    def worker_stats(self) -> WorkerStats:
        return self._portal.call(self._inner.worker_stats())

    def worker_health(self, timeout: timedelta | None = None) -> dict[str, bool]:
        """Return for each worker that is not stopped whether its last heartbeat is within the timeout.

        timeout: None for each worker's own.
        """
        return self._portal.call(self._inner.worker_health(timeout))

    def suspend_worker(self, worker_id: str) -> WorkerState:
        """Suspend a worker: it claims no more messages, and finishes those in flight."""
        return self._portal.call(self._inner.suspend_worker(worker_id))

    def resume_worker(self, worker_id: str) -> WorkerState:
        """Resume a suspended worker."""
        return self._portal.call(self._inner.resume_worker(worker_id))

    def shutdown_worker(self, worker_id: str, *, release: bool = False) -> WorkerState:
        """Stop a worker; raise WorkerBusy if it has messages in flight, unless `release`."""
        return self._portal.call(self._inner.shutdown_worker(worker_id, release=release))

    def reclaim(self, worker_id: str) -> int:
        """Stop a worker and nack its messages, so that the attempts count; return how many."""
        return self._portal.call(self._inner.reclaim(worker_id))

    def reclaim_dead(self, timeout: timedelta | None = None) -> dict[str, int]:
        """Reclaim every worker whose last heartbeat is older than the timeout.

        timeout: None for each worker's own. Returns the number of nacked messages by worker.
        """
        return self._portal.call(self._inner.reclaim_dead(timeout))

    def purge_old_workers(self, age: timedelta) -> int:
        """Delete the records of workers that stopped longer than `age` ago; return how many."""
        return self._portal.call(self._inner.purge_old_workers(age))

    def list_schedules(self, queue: str | None = None) -> list[ScheduleInfo]:
        """Return the periodic jobs that workers have registered, of a queue or of all."""
        return self._portal.call(self._inner.list_schedules(queue))

    def run_schedule(self, name: str, *, queue: str) -> MessageId:
        """Enqueue a periodic job's message now, whether or not it is paused; return its id."""
        return self._portal.call(self._inner.run_schedule(name, queue=queue))

    def pause_schedule(self, name: str, *, queue: str) -> datetime | None:
        """Pause a periodic job: its times pass without a message. Return since when it is paused."""
        return self._portal.call(self._inner.pause_schedule(name, queue=queue))

    def resume_schedule(self, name: str, *, queue: str) -> None:
        """Resume a paused job, from its next time on."""
        self._portal.call(self._inner.resume_schedule(name, queue=queue))

    def list_runs(self, *, status: RunStatus | None = None, limit: int = 100) -> list[RunInfo]:
        """Return workflow runs, newest first."""
        return self._portal.call(self._inner.list_runs(status=status, limit=limit))

    def purge_runs(self, age: timedelta) -> int:
        """Delete runs that ended longer than `age` ago, with their steps; return how many."""
        return self._portal.call(self._inner.purge_runs(age))


class Run:
    """A handle of one workflow run."""

    def __init__(self, inner: _Run, portal: Portal) -> None:
        self._inner = inner
        self._portal = portal

    @property
    def run_id(self) -> str:
        return self._inner.run_id

    def info(self) -> RunInfo:
        return self._portal.call(self._inner.info())

    def steps(self) -> list[StepInfo]:
        """Return the finished steps and the timers that were set, oldest first."""
        return self._portal.call(self._inner.steps())

    def status(self) -> RunStatus:
        return self._portal.call(self._inner.status())

    def result(self, timeout: timedelta | None = None) -> Any:
        """Wait for the run's end and return what the workflow returned.

        Raises RunFailed or RunCancelled if the run ended otherwise, TimeoutError if it did not end
        in time. A timeout of zero checks once. It keeps waiting while the database or server is
        unreachable.
        """
        return self._portal.call(self._inner.result(timeout))

    def pause(self, *, resume_after: timedelta | None = None) -> RunStatus:
        """Pause the run at its next step; running steps are finished.

        resume_after: when the run resumes by itself, unless `resume` is called before; None: never.
        """
        return self._portal.call(self._inner.pause(resume_after=resume_after))

    def resume(self) -> RunStatus:
        """Continue a paused or failed run from its last finished step."""
        return self._portal.call(self._inner.resume())

    def cancel(self) -> RunStatus:
        """End the run at its next step."""
        return self._portal.call(self._inner.cancel())

    def complete_step(self, name: str, result: Any = None) -> bool:
        """Complete a manual step of the run: `laneway.manual_step` returns this result in it.

        Returns False, and changes nothing, if the step was completed before.
        """
        return self._portal.call(self._inner.complete_step(name, result))


class Job:
    """A handle of one message of a queue's default group."""

    def __init__(self, inner: _Job, portal: Portal) -> None:
        self._inner = inner
        self._portal = portal

    @property
    def id(self) -> MessageId:
        return self._inner.id

    def info(self) -> JobInfo:
        """Return the message's status, its handler's progress and its result."""
        return self._portal.call(self._inner.info())

    def progress(self) -> Progress | None:
        """Return what the handler has reported; None if it is not running or reports nothing."""
        return self._portal.call(self._inner.progress())

    def result(self, timeout: timedelta | None = None) -> Any:
        """Wait for the handler's result; the handler needs `keep_results`.

        Raises JobFailed if the message was dead-lettered, JobCancelled if it was cancelled,
        ResultNotFound if it was acked without a result, TimeoutError if none of that happened in
        time. A timeout of zero checks once. It keeps waiting while the database or server is
        unreachable.
        """
        return self._portal.call(self._inner.result(timeout))

    def cancel(self) -> bool:
        """Dead-letter the message with the reason "cancelled"; False if it is not queued or in flight.

        A handler that is running with it is cancelled within a heartbeat of its worker.
        """
        return self._portal.call(self._inner.cancel())


class Connection:
    """A connection to one database or server, open within `async with` or from `open` to `close`."""

    def __init__(self, inner: _Connection, portal: Portal) -> None:
        self._inner = inner
        self._portal = portal

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def open(self) -> Self:
        """Open the connection and return it; do nothing if it is open. It opens once."""
        self._portal.call(self._inner.open())
        return self

    def close(self) -> None:
        """Finish the calls that are running, and close the connection; do nothing if it is closed."""
        try:
            with suppress(BrokerClosed):
                self._portal.call(self._inner.close())
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
        """Return a consumer. partition, priority: claim only messages of these."""
        return Consumer(
            self._inner.consumer(
                queue, group=group, name=name, partition=partition, priority=priority
            ),
            self._portal,
        )

    def install(self) -> int:
        """Install or upgrade the schema to this version of Laneway; return the schema's version."""
        return self._portal.call(self._inner.install())

    def verify(self) -> list[str]:
        """Return the schema's problems; [] if there are none."""
        return self._portal.call(self._inner.verify())

    def job(self, message: MessageId | Message | str) -> Job:
        """Return a handle of the job with this message id. Whether it exists is not checked."""
        return Job(self._inner.job(message), self._portal)

    def job_result(self, message: MessageId | Message | str) -> Any:
        """Return the stored result of a message's handler; raise ResultNotFound if there is none."""
        return self._portal.call(self._inner.job_result(message))

    def start(
        self,
        workflow: str,
        *arguments: Any,
        queue: str = "workflows",
        run_id: str | None = None,
        priority: int = 0,
        delay: timedelta | None = None,
        at: datetime | None = None,
    ) -> Run:
        """Start a run of the workflow of this name; a run that exists under `run_id` is unchanged.

        The workflow's queue is created if it is missing. priority: of the run among those of its
        workflow. delay, at: how long, or until when, the run does not begin.
        """
        return Run(
            self._portal.call(
                self._inner.start(
                    workflow,
                    *arguments,
                    queue=queue,
                    run_id=run_id,
                    priority=priority,
                    delay=delay,
                    at=at,
                )
            ),
            self._portal,
        )

    def run(self, run_id: str) -> Run:
        """Return a handle of the workflow run with this id. Whether it exists is not checked."""
        return Run(self._inner.run(run_id), self._portal)


def connect(
    address: str,
    *,
    api_key: str | None = None,
    pooled: bool = False,
    direct_dsn: str | None = None,
    settings: EngineSettings | None = None,
    register: bool = True,
) -> Connection:
    """Return a connection. Open it with `with`, or with `open()`, and then `close()` it.

    address: a PostgreSQL DSN or the URL of a Laneway server; the API is the same on both. api_key:
    the server's API key. pooled: the DSN connects through PgBouncer in transaction mode, direct_dsn
    past it. register: whether producers and consumers that are used for longer than half a minute
    are listed among the workers. The first call connects, so an unreachable database raises no error
    before.
    """
    inner = _connection.connect(
        address,
        api_key=api_key,
        pooled=pooled,
        direct_dsn=direct_dsn,
        settings=settings,
        register=register,
    )
    return Connection(inner, Portal())
