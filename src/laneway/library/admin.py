"""Administration of API keys, queues, groups, dead letters, workers and workflow runs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from laneway.domain.dead_letters import DeadLetterFilter
from laneway.domain.errors import InvalidRequest, InvalidSetting, WorkerNotFound
from laneway.domain.keys import Role, make_key
from laneway.domain.messages import Status
from laneway.domain.queues import DEFAULT_GROUP
from laneway.domain.runs import RunStatus
from laneway.domain.settings import QueueSettings
from laneway.domain.workers import WorkerState, WorkerStats
from laneway.library.arguments import (
    check_changes,
    check_choice,
    check_duration,
    check_many,
    check_optional_duration,
    check_optional_moment,
    check_optional_text,
    check_page,
    check_place,
    check_settings,
    check_text,
    read_id,
)
from laneway.library.queues import ensure_queue

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from typing import Literal

    from laneway.domain.activity import Snapshot
    from laneway.domain.backend import Backend
    from laneway.domain.dead_letters import FailureGroup
    from laneway.domain.ids import MessageId
    from laneway.domain.keys import KeyInfo, NewKey
    from laneway.domain.messages import StoredMessage
    from laneway.domain.queues import Group, Queue
    from laneway.domain.runs import RunInfo
    from laneway.domain.schedules import ScheduleInfo
    from laneway.domain.settings import Place, QueueChanges
    from laneway.domain.statistics import QueueEvents, QueueMetrics, SystemStats
    from laneway.domain.workers import WorkerInfo


class Admin:
    """Manages API keys, queues, groups, dead letters, workers and workflow runs."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def install(self) -> int:
        """Install or upgrade the schema to this version of Laneway; return the schema's version."""
        return await self._backend.schema.install()

    async def verify(self) -> list[str]:
        """Return the schema's problems: wrong versions, differences, dangling rows; [] if none."""
        return await self._backend.schema.verify()

    async def create_key(
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
        made = make_key()
        await self._backend.keys.create(
            made.key_id,
            name=made.key_id if name is None else check_text(name, "name of the API key"),
            role=_role(role),
            pattern=None if queues is None else check_text(queues, "pattern of queues"),
            digest=made.digest,
        )
        return made

    async def list_keys(self, *, revoked: bool = False) -> list[KeyInfo]:
        """Return the valid API keys; with `revoked`, also the revoked ones."""
        return await self._backend.keys.describe(revoked=bool(revoked))

    async def revoke_key(self, key_id: str) -> None:
        """Revoke an API key. Running servers refuse it within seconds."""
        await self._backend.keys.revoke(check_text(key_id, "API key id"))

    async def create_queue(
        self, name: str, settings: QueueSettings | None = None, *, exist_ok: bool = False
    ) -> Queue:
        """Create a queue. If it exists, raise QueueExists or, with `exist_ok`, return it unchanged."""
        made, chosen = _name(name), check_settings(settings or QueueSettings())
        if exist_ok:
            return await ensure_queue(self._backend, made, chosen)
        return await self._backend.queues.create(made, chosen)

    async def update_queue(self, name: str, changes: QueueChanges) -> Queue:
        return await self._backend.queues.update(_name(name), check_changes(changes))

    async def delete_queue(self, name: str, *, force: bool = False) -> None:
        """Delete a queue; raise QueueNotEmpty if it has messages or unfinished runs, unless `force`.

        Messages that are committed to the outbox and not yet moved to the queue count too.
        """
        await self._backend.queues.delete(_name(name), force=bool(force))

    async def get_queue(self, name: str) -> Queue:
        return await self._backend.queues.get(_name(name))

    async def list_queues(self) -> list[Queue]:
        return await self._backend.queues.list_all()

    async def create_group(
        self,
        queue: str,
        name: str,
        *,
        ordered: bool | None = None,
        start: Literal["all", "new"] = "all",
    ) -> Group:
        """Create a consumer group. ordered: None for the queue's setting. start: its first messages."""
        if not isinstance(ordered, bool | None):
            raise InvalidSetting(f"ordered is {ordered!r}: use True, False or None")
        if start not in ("all", "new"):
            raise InvalidSetting(f'start of a group is {start!r}: use "all" or "new"')
        return await self._backend.groups.create(
            _name(queue), _group(name), ordered=ordered, start=start
        )

    async def list_groups(self, queue: str) -> list[Group]:
        return await self._backend.groups.list_all(_name(queue))

    async def delete_group(self, queue: str, name: str) -> None:
        """Delete a consumer group with its state; the queue's group "default" cannot be deleted."""
        await self._backend.groups.delete(_name(queue), _group(name))

    async def seek(
        self,
        queue: str,
        to: Place,
        *,
        group: str = DEFAULT_GROUP,
        partition: str | None = None,
    ) -> int:
        """Reposition a group, or its part in one partition; return how many lanes moved.

        to: "earliest", "latest", the time of the first message to read, or its sequence number. The
        group's leases, delays and retries end; dead letters stay.
        """
        target, time, seq = check_place(to)
        return await self._backend.groups.seek_to(
            _name(queue),
            target,
            time=time,
            seq=seq,
            group=_group(group),
            partition=None if partition is None else check_text(partition, "partition"),
        )

    async def purge_queue(
        self, name: str, *, status: Status | None = None, group: str = DEFAULT_GROUP
    ) -> int:
        """Delete a group's messages of one status, or of all; return how many."""
        return await self._backend.messages.purge(
            _name(name), status=None if status is None else _status(status), group=_group(group)
        )

    async def queue_metrics(self, name: str, *, group: str = DEFAULT_GROUP) -> QueueMetrics:
        return (await self._backend.statistics.metrics(_name(name), group=_group(group)))[0]

    async def all_queues_metrics(self) -> list[QueueMetrics]:
        return await self._backend.statistics.metrics()

    async def follow(self, queue: str, seen: Snapshot | None = None) -> QueueEvents:
        """Return the queue's activity since `seen`. Without `seen`, return only the current position."""
        return await self._backend.activity.follow_queue(_name(queue), seen)

    async def system_stats(self) -> SystemStats:
        return await self._backend.statistics.system()

    async def messages(
        self,
        queue: str,
        status: Status = Status.QUEUED,
        *,
        limit: int = 100,
        offset: int = 0,
        group: str = DEFAULT_GROUP,
    ) -> list[StoredMessage]:
        """Return a group's messages of one status, newest first."""
        return await self._backend.listings.browse(
            _name(queue),
            _status(status),
            limit=check_page(limit, "limit"),
            offset=check_page(offset, "offset"),
            group=_group(group),
        )

    async def dlq_list(
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
        if where is None:
            return await self.messages(queue, Status.DEAD, limit=limit, offset=offset, group=group)
        if offset:
            raise InvalidRequest("offset cannot be used with where: narrow the filter instead")
        return await self._backend.dead_letters.browse_matching(
            _name(queue), _filter(where), limit=check_page(limit, "limit"), group=_group(group)
        )

    async def dlq_groups(
        self, queue: str, *, limit: int = 100, group: str = DEFAULT_GROUP
    ) -> list[FailureGroup]:
        """Return a group's dead letters by kind of failure, the most frequent first."""
        return await self._backend.dead_letters.list_failures(
            _name(queue), limit=check_page(limit, "limit"), group=_group(group)
        )

    async def dlq_redrive(
        self,
        queue: str,
        where: DeadLetterFilter | None = None,
        *,
        limit: int | None = None,
        group: str = DEFAULT_GROUP,
    ) -> int:
        """Redrive a group's dead letters, oldest first, with attempts reset; return how many."""
        most = None if limit is None else check_page(limit, "limit")
        calls = self._backend.dead_letters
        if where is None:
            return await calls.redrive(_name(queue), limit=most, group=_group(group))
        return await calls.redrive_matching(
            _name(queue), _filter(where), limit=most, group=_group(group)
        )

    async def dlq_replay(
        self, queue: str, *, limit: int | None = None, group: str = DEFAULT_GROUP
    ) -> int:
        """Former name of `dlq_redrive`."""
        return await self.dlq_redrive(queue, limit=limit, group=group)

    async def dlq_purge(
        self,
        queue: str,
        where: DeadLetterFilter | None = None,
        *,
        group: str = DEFAULT_GROUP,
    ) -> int:
        """Delete a group's dead letters; return how many there were."""
        if where is None:
            return await self.purge_queue(queue, status=Status.DEAD, group=group)
        return await self._backend.dead_letters.purge_matching(
            _name(queue), _filter(where), group=_group(group)
        )

    async def list_workers(self, queue: str | None = None) -> list[WorkerInfo]:
        return await self._backend.workers.list_all(None if queue is None else _name(queue))

    async def get_worker(self, worker_id: str) -> WorkerInfo:
        wanted = _worker(worker_id)
        for worker in await self._backend.workers.list_all():
            if worker.worker_id == wanted:
                return worker
        raise WorkerNotFound(worker=str(worker_id))

    async def worker_stats(self) -> WorkerStats:
        workers = await self._backend.workers.list_all()
        return WorkerStats(
            total=len(workers),
            by_state=dict(Counter(worker.state.value for worker in workers)),
            healthy=sum(worker.healthy for worker in workers),
            held=sum(worker.held for worker in workers),
            handled=sum(worker.handled for worker in workers),
            failed=sum(worker.failed for worker in workers),
        )

    async def worker_health(self, timeout: timedelta | None = None) -> dict[str, bool]:
        """Return for each worker that is not stopped whether its last heartbeat is within the timeout.

        timeout: None for each worker's own.
        """
        check_optional_duration(timeout, "timeout")
        return {
            worker.worker_id: worker.silence < (worker.timeout if timeout is None else timeout)
            for worker in await self._backend.workers.list_all()
            if worker.state is not WorkerState.STOPPED
        }

    async def suspend_worker(self, worker_id: str) -> WorkerState:
        """Suspend a worker: it claims no more messages, and finishes those in flight."""
        return await self._backend.workers.ask(_worker(worker_id), "suspend")

    async def resume_worker(self, worker_id: str) -> WorkerState:
        """Resume a suspended worker."""
        return await self._backend.workers.ask(_worker(worker_id), "resume")

    async def shutdown_worker(self, worker_id: str, *, release: bool = False) -> WorkerState:
        """Stop a worker; raise WorkerBusy if it has messages in flight, unless `release`."""
        return await self._backend.workers.ask(
            _worker(worker_id), "shutdown", release=bool(release)
        )

    async def reclaim(self, worker_id: str) -> int:
        """Stop a worker and nack its messages, so that the attempts count; return how many."""
        return await self._backend.workers.reclaim(_worker(worker_id))

    async def reclaim_dead(self, timeout: timedelta | None = None) -> dict[str, int]:
        """Reclaim every worker whose last heartbeat is older than the timeout.

        timeout: None for each worker's own. Returns the number of nacked messages by worker.
        """
        return await self._backend.workers.reclaim_dead(check_optional_duration(timeout, "timeout"))

    async def purge_old_workers(self, age: timedelta) -> int:
        """Delete the records of workers that stopped longer than `age` ago; return how many."""
        return await self._backend.workers.purge(check_duration(age, "age"))

    async def list_schedules(self, queue: str | None = None) -> list[ScheduleInfo]:
        """Return the periodic jobs that workers have registered, of a queue or of all."""
        return await self._backend.schedules.list_all(None if queue is None else _name(queue))

    async def run_schedule(self, name: str, *, queue: str) -> MessageId:
        """Enqueue a periodic job's message now, whether or not it is paused; return its id."""
        return await self._backend.schedules.run(
            check_text(name, "schedule name"), queue=_name(queue)
        )

    async def pause_schedule(self, name: str, *, queue: str) -> datetime | None:
        """Pause a periodic job: its times pass without a message. Return since when it is paused."""
        return await self._backend.schedules.pause(
            check_text(name, "schedule name"), queue=_name(queue)
        )

    async def resume_schedule(self, name: str, *, queue: str) -> None:
        """Resume a paused job, from its next time on."""
        await self._backend.schedules.pause(
            check_text(name, "schedule name"), queue=_name(queue), paused=False
        )

    async def list_runs(
        self, *, status: RunStatus | None = None, limit: int = 100
    ) -> list[RunInfo]:
        """Return workflow runs, newest first."""
        return await self._backend.workflows.list_runs(
            status=None if status is None else check_choice(status, RunStatus, "status"),
            limit=check_page(limit, "limit"),
        )

    async def purge_runs(self, age: timedelta) -> int:
        """Delete runs that ended longer than `age` ago, with their steps; return how many."""
        return await self._backend.workflows.purge_runs(check_duration(age, "age"))


def _name(queue: object) -> str:
    return check_text(queue, "queue name")


def _group(group: object) -> str:
    return check_text(group, "group name")


def _worker(worker_id: object) -> str:
    return check_text(worker_id, "worker id")


def _filter(where: object) -> DeadLetterFilter:
    if not isinstance(where, DeadLetterFilter):
        raise InvalidRequest(f"where is {where!r}: use a DeadLetterFilter")
    for name in ("signature", "partition", "search"):
        check_optional_text(getattr(where, name), name)
    for name in ("since", "until"):
        check_optional_moment(getattr(where, name), name)
    if where.ids is None:
        return where
    return where._replace(ids=[read_id(item) for item in check_many(where.ids, "ids")])


def _role(role: object) -> Role:
    if not isinstance(role, str) or role.upper() not in Role.__members__:
        raise InvalidRequest(f'role is {role!r}: use "read", "write" or "admin"')
    return Role[role.upper()]


def _status(status: object) -> Status:
    return check_choice(status, Status, "status")
