"""The calls of the library, to a broker in this process or behind a URL.

Every argument and answer can be sent as JSON: the HTTP client and the server's side of it are both
derived from these signatures.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, Protocol

from laneway.domain.activity import Snapshot
from laneway.domain.dead_letters import DeadLetterFilter, FailureGroup
from laneway.domain.ids import MessageId
from laneway.domain.jobs import JobInfo
from laneway.domain.keys import KeyInfo, Role
from laneway.domain.messages import (
    Delivery,
    Nack,
    Outcome,
    OutgoingMessage,
    Progress,
    Pushed,
    Receipt,
    Status,
    StoredMessage,
    Token,
)
from laneway.domain.queues import DEFAULT_GROUP, Group, Queue
from laneway.domain.runs import (
    Drive,
    DriveStatus,
    JobResult,
    RunAsk,
    RunInfo,
    RunStatus,
    StepInfo,
    Stored,
)
from laneway.domain.schedules import ScheduleInfo
from laneway.domain.settings import QueueChanges, QueueSettings, Target
from laneway.domain.statistics import QueueEvents, QueueMetrics, SystemStats
from laneway.domain.workers import Ask, WorkerIdentity, WorkerInfo, WorkerOrder, WorkerState

NO_WAIT = timedelta(0)


class LeasedMessage(NamedTuple):
    """A message in flight: its lease token and its complete address."""

    token: Token
    segment: int
    lane: int
    seq: int


class KeyCalls(Protocol):
    async def create(
        self, key_id: str, *, name: str, role: Role, pattern: str | None, digest: bytes
    ) -> None: ...

    async def revoke(self, key_id: str) -> None: ...

    async def describe(self, *, revoked: bool = False) -> list[KeyInfo]: ...


class SchemaCalls(Protocol):
    async def install(self) -> int: ...

    async def verify(self) -> list[str]: ...


class QueueCalls(Protocol):
    async def create(self, name: str, settings: QueueSettings | None = None) -> Queue: ...

    async def update(self, name: str, changes: QueueChanges) -> Queue: ...

    async def delete(self, name: str, *, force: bool = False) -> None: ...

    async def get(self, name: str) -> Queue: ...

    async def list_all(self) -> list[Queue]: ...


class GroupCalls(Protocol):
    async def create(
        self,
        queue: str,
        name: str,
        *,
        ordered: bool | None = None,
        start: Literal["all", "new"] = "all",
    ) -> Group: ...

    async def list_all(self, queue: str) -> list[Group]: ...

    async def delete(self, queue: str, name: str) -> None: ...

    async def seek_to(
        self,
        queue: str,
        target: Target,
        *,
        time: datetime | None = None,
        seq: int | None = None,
        group: str = DEFAULT_GROUP,
        partition: str | None = None,
    ) -> int: ...


class MessageCalls(Protocol):
    async def archive_leased(
        self, queue: str, holdings: Sequence[LeasedMessage], *, group: str = DEFAULT_GROUP
    ) -> list[int]: ...

    async def purge(
        self, queue: str, *, status: Status | None = None, group: str = DEFAULT_GROUP
    ) -> int: ...

    async def hasten(self, queue: str, until: datetime, *, group: str = DEFAULT_GROUP) -> int: ...


class ListingCalls(Protocol):
    async def browse(
        self,
        queue: str,
        status: Status,
        *,
        limit: int = 100,
        offset: int = 0,
        group: str = DEFAULT_GROUP,
    ) -> list[StoredMessage]: ...


class StatisticsCalls(Protocol):
    async def metrics(
        self, queue: str | None = None, *, group: str = DEFAULT_GROUP
    ) -> list[QueueMetrics]: ...

    async def system(self) -> SystemStats: ...


class DeadLetterCalls(Protocol):
    async def redrive(
        self, queue: str, *, limit: int | None = None, group: str = DEFAULT_GROUP
    ) -> int: ...

    async def list_failures(
        self, queue: str, *, limit: int = 100, group: str = DEFAULT_GROUP
    ) -> list[FailureGroup]: ...

    async def browse_matching(
        self,
        queue: str,
        wanted: DeadLetterFilter,
        *,
        limit: int = 100,
        group: str = DEFAULT_GROUP,
    ) -> list[StoredMessage]: ...

    async def redrive_matching(
        self,
        queue: str,
        wanted: DeadLetterFilter,
        *,
        limit: int | None = None,
        group: str = DEFAULT_GROUP,
    ) -> int: ...

    async def purge_matching(
        self,
        queue: str,
        wanted: DeadLetterFilter,
        *,
        limit: int | None = None,
        group: str = DEFAULT_GROUP,
    ) -> int: ...


class ActivityCalls(Protocol):
    async def follow_queue(self, queue: str, seen: Snapshot | None = None) -> QueueEvents: ...


class WorkerCalls(Protocol):
    async def ack_results(
        self, receipts: Sequence[Receipt], results: Sequence[str | None], *, keep: timedelta
    ) -> list[int]: ...

    async def find_result(self, message: MessageId) -> JobResult | None: ...

    async def register(self, identity: WorkerIdentity) -> None: ...

    async def find_job(self, message: MessageId) -> JobInfo | None: ...

    async def cancel_job(self, message: MessageId) -> bool: ...

    async def record_heartbeat(
        self,
        worker_id: str,
        *,
        handled: int,
        failed: int,
        progress: dict[str, Progress] | None = None,
    ) -> WorkerOrder: ...

    async def extend_leases(self, worker_id: str, *, lease: timedelta) -> None: ...

    async def step(self, worker_id: str, to: WorkerState) -> None: ...

    async def ask(self, worker_id: str, ask: Ask, *, release: bool = False) -> WorkerState: ...

    async def list_all(self, queue: str | None = None) -> list[WorkerInfo]: ...

    async def reclaim(self, worker_id: str) -> int: ...

    async def reclaim_dead(self, timeout: timedelta | None = None) -> dict[str, int]: ...

    async def purge(self, age: timedelta) -> int: ...

    async def fire_schedule(
        self, name: str, expression: str, due: datetime, *, queue: str, message: OutgoingMessage
    ) -> bool: ...


class ScheduleCalls(Protocol):
    async def register(
        self,
        name: str,
        expression: str,
        *,
        queue: str,
        message: OutgoingMessage,
        timed: bool = False,
    ) -> None: ...

    async def list_all(self, queue: str | None = None) -> list[ScheduleInfo]: ...

    async def pause(self, name: str, *, queue: str, paused: bool = True) -> datetime | None: ...

    async def run(self, name: str, *, queue: str) -> MessageId: ...


class WorkflowCalls(Protocol):
    async def start_run(
        self,
        run_id: str,
        *,
        name: str,
        queue: str,
        arguments: str,
        priority: int = 0,
        delay: timedelta | None = None,
    ) -> bool: ...

    async def load_run(self, run_id: str) -> RunInfo: ...

    async def load_steps(self, run_id: str) -> list[StepInfo]: ...

    async def drive_run(self, run_id: str, driver: str, *, again: bool = False) -> Drive: ...

    async def store_step(
        self,
        run_id: str,
        driver: str,
        step: str,
        *,
        result: str | None = None,
        timer: timedelta | None = None,
        failure: str | None = None,
    ) -> Stored: ...

    async def end_run(
        self,
        run_id: str,
        driver: str,
        status: RunStatus,
        *,
        result: str | None = None,
        error: str | None = None,
    ) -> RunStatus: ...

    async def await_steps(self, run_id: str, driver: str, steps: Sequence[str]) -> DriveStatus: ...

    async def complete_step(self, run_id: str, step: str, result: str) -> bool: ...

    async def ask_run(
        self, run_id: str, ask: RunAsk, *, resume_after: timedelta | None = None
    ) -> RunStatus: ...

    async def list_runs(
        self, *, status: RunStatus | None = None, limit: int = 100
    ) -> list[RunInfo]: ...

    async def purge_runs(self, age: timedelta) -> int: ...


class Backend(Protocol):
    @property
    def schema(self) -> SchemaCalls: ...

    @property
    def keys(self) -> KeyCalls: ...

    @property
    def queues(self) -> QueueCalls: ...

    @property
    def groups(self) -> GroupCalls: ...

    @property
    def messages(self) -> MessageCalls: ...

    @property
    def listings(self) -> ListingCalls: ...

    @property
    def statistics(self) -> StatisticsCalls: ...

    @property
    def dead_letters(self) -> DeadLetterCalls: ...

    @property
    def activity(self) -> ActivityCalls: ...

    @property
    def workers(self) -> WorkerCalls: ...

    @property
    def schedules(self) -> ScheduleCalls: ...

    @property
    def workflows(self) -> WorkflowCalls: ...

    async def ping(self) -> datetime: ...

    async def push(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[Pushed]: ...

    async def claim(
        self,
        queue: str,
        n: int = 1,
        *,
        group: str = DEFAULT_GROUP,
        wait: timedelta = NO_WAIT,
        lease: timedelta | None = None,
        consumer: str | None = None,
        partition: str | None = None,
        priority: int | None = None,
    ) -> list[Delivery]: ...

    async def ack(self, receipts: Sequence[Receipt]) -> list[int]: ...

    async def nack(self, nacks: Sequence[Nack]) -> list[Outcome]: ...

    async def release(
        self, receipts: Sequence[Receipt], *, delay: timedelta | None = None
    ) -> list[int]: ...

    async def extend(
        self, receipts: Sequence[Receipt], *, lease: timedelta
    ) -> list[datetime | None]: ...

    async def extend_any(
        self, queue: str, message: MessageId, *, lease: timedelta, group: str = DEFAULT_GROUP
    ) -> datetime | None: ...
