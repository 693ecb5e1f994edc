"""One worker: registration, state changes, orders from outside, drain and shutdown."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, assert_never
from uuid import uuid4

from laneway.domain.errors import (
    InternalError,
    InvalidRequest,
    InvalidSetting,
    InvalidStateTransition,
    LanewayError,
    WorkerBusy,
)
from laneway.domain.settings import QueueSettings
from laneway.domain.workers import WorkerIdentity, WorkerState
from laneway.library.arguments import check_duration, settings_of
from laneway.library.queues import WORKFLOWS, ensure_group, ensure_queue
from laneway.worker.ack_batches import Settler
from laneway.worker.banner import describe_end, describe_start
from laneway.worker.guard import Guard
from laneway.worker.in_flight import InFlight
from laneway.worker.ordered import OrderedRunner
from laneway.worker.oversight import Overseer
from laneway.worker.runner import PATIENCE, Counters, Runner
from laneway.worker.schedules import keep_firing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from contextlib import AbstractContextManager

    from laneway.domain.backend import Backend
    from laneway.domain.queues import Queue
    from laneway.domain.workers import WorkerOrder
    from laneway.library.connection import Target
    from laneway.library.messages import Message
    from laneway.worker.handlers import Handler, Middleware
    from laneway.worker.schedules import Schedule
    from laneway.worker.slots import Slot

logger = logging.getLogger(__name__)

# How long releasing messages, signing off and closing may take together, after the drain.
GRACE = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Timing of a worker.

    heartbeat: interval of heartbeats, at which the worker also receives orders. timeout: time
    without a heartbeat after which the worker counts as dead and its messages are reclaimed. drain:
    how long a stop waits for handlers; it then cancels them and releases their messages.
    """

    heartbeat: timedelta = timedelta(seconds=2)
    timeout: timedelta = timedelta(seconds=30)
    drain: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        with settings_of("a worker"):
            for setting in ("heartbeat", "timeout", "drain"):
                check_duration(getattr(self, setting), setting)
        if self.heartbeat <= timedelta(0) or self.drain < timedelta(0):
            raise InvalidSetting(
                f"heartbeat of a worker is {self.heartbeat} and drain is {self.drain}: heartbeat must be"
                " positive, and drain must not be negative"
            )
        if self.timeout <= self.heartbeat:
            raise InvalidSetting(
                f"timeout of a worker is {self.timeout}, not longer than its heartbeat of"
                f" {self.heartbeat}: it would count as dead between two heartbeats"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Duties:
    """What a worker runs. durable_queues: created with unlimited attempts, if they are missing.

    bind: makes the backend the app's, while its context is open.
    """

    handlers: Sequence[Handler]
    schedules: Sequence[Schedule]
    middlewares: list[Middleware]
    durable_queues: Sequence[str]
    bind: Callable[[Backend], AbstractContextManager[None]]


class Worker:
    """Runs an app's handlers until it is stopped. state: as stored in the database."""

    def __init__(
        self, target: Target, duties: Duties, *, name: str, settings: WorkerSettings
    ) -> None:
        self.worker_id = f"{name}.{uuid4().hex[:8]}"
        self.name = name
        self.state = WorkerState.READY
        self.running = asyncio.Event()
        self._target = target
        self._duties = duties
        self._settings = settings
        self._counters = Counters()
        self._in_flight = InFlight()
        self._runners: list[Runner] = []
        self._schedules: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._abandoned = asyncio.Event()
        self._left_at: float | None = None
        self._cut_short = asyncio.Event()
        self._changes: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self._fault: str | None = None
        self._started = False
        self._registered = False
        self._guard: Guard | None = None

    @property
    def handled(self) -> int:
        """Number of messages handled."""
        return self._counters.handled

    @property
    def in_flight(self) -> int:
        """Number of messages that handlers are running with."""
        return sum(len(slot.messages) for runner in self._runners for slot in runner.slots)

    @property
    def holding(self) -> int:
        """Former name of `in_flight`."""
        return self.in_flight

    async def run(self) -> None:
        """Run handlers until stopped, then drain. A worker runs once."""
        if self._started:
            raise InvalidRequest(
                f'worker "{self.worker_id}" has already run: create another with App.worker'
            )
        self._started = True
        self._overseer = Overseer(self._fail)
        context = self._target.open()
        backend = await context.__aenter__()
        try:
            with self._duties.bind(backend):
                await self._serve(backend)
        finally:
            left = GRACE - timedelta(seconds=monotonic() - (self._left_at or monotonic()))
            # At least PATIENCE, so that closing is cut short rather than skipped.
            limit = max(left, timedelta(seconds=PATIENCE))
            await self._run_until(context.__aexit__(None, None, None), self._cut_short, limit)
        if self._fault is not None:
            raise InternalError(f'worker "{self.worker_id}" failed: {self._fault}')

    def stop(self) -> None:
        """Drain and end the worker.

        A second call cancels the handlers; a call during shutdown ends the worker at once.
        """
        if self._left_at is not None:
            self._cut_short.set()
        elif self._stopping.is_set():
            self._abandoned.set()
        self._stopping.set()

    def shutdown(self, *, release: bool = False) -> None:
        """End the worker at once; raise WorkerBusy if messages are in flight, unless `release`."""
        if self.in_flight and not release:
            raise WorkerBusy(worker=self.worker_id, messages=self.in_flight)
        self._abandoned.set()
        self._stopping.set()

    def _fail(self, fault: str) -> None:
        """End the worker with an error, because a part of it failed."""
        self._fault = self._fault or fault
        self._abandoned.set()
        self._stopping.set()

    async def _serve(self, backend: Backend) -> None:
        settler = Settler(backend, self._in_flight)
        overseer = self._overseer
        if not await self._unless_stopped(self._prepare(backend, settler, overseer)):
            await self._leave_early(backend)
            return
        for line in describe_start(
            self.worker_id, self._target, self._duties.handlers, self._duties.schedules
        ):
            logger.info("%s", line)
        started = monotonic()
        settling = overseer.start(settler.run(), "laneway settle")
        guard = self._guard = self._make_guard()
        guard.start()
        try:
            await self._unless_stopped(self._poll())
            await self._stopping.wait()
            await self._drain(settler)
        finally:
            self._left_at = monotonic()
            try:
                await self._run_until(self._leave(backend, guard, settling), self._cut_short, GRACE)
            finally:
                guard.end()
                overseer.abandon()
                counters = self._counters
                summary = describe_end(
                    self.worker_id,
                    handled=counters.handled,
                    failed=counters.failed,
                    seconds=monotonic() - started,
                )
                logger.info("%s", summary)

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run work that may wait for the database; return whether it ended before a stop."""
        doing = asyncio.create_task(work)
        waiting = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({doing, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
                return True
            return False
        finally:
            left = (task for task in (doing, waiting) if not task.done())
            await self._overseer.end(*left, patience=PATIENCE)

    async def _leave_early(self, backend: Backend) -> None:
        """Sign off a worker that was stopped before it claimed anything."""
        self._left_at = monotonic()
        if self._abandoned.is_set():
            # Stopped twice already.
            self._cut_short.set()
        elif self._registered:
            await self._run_until(self._step(backend, WorkerState.STOPPED), self._cut_short, GRACE)

    async def _prepare(self, backend: Backend, settler: Settler, overseer: Overseer) -> None:
        duties = self._duties
        for queue in duties.durable_queues:
            await ensure_queue(backend, queue, WORKFLOWS)
        for queue in {schedule.queue for schedule in duties.schedules}:
            await ensure_queue(backend, queue, QueueSettings())
        names = dict.fromkeys(handler.queue for handler in duties.handlers)
        queues = {name: await ensure_queue(backend, name, QueueSettings()) for name in names}
        for queue, group in {(handler.queue, handler.group) for handler in duties.handlers}:
            await ensure_group(backend, queue, group)
        self._identity = WorkerIdentity(
            self.worker_id,
            self.name,
            socket.gethostname(),
            os.getpid(),
            # A worker without handlers is listed with the queues that its schedules enqueue to.
            list(queues) or sorted({schedule.queue for schedule in duties.schedules}),
            self._settings.timeout,
        )
        self._registered = True
        await backend.workers.register(self._identity)
        self._runners = [
            _choose_runner(handler, queues[handler.queue])(
                handler,
                backend=backend,
                settler=settler,
                in_flight=self._in_flight,
                counters=self._counters,
                consumer=self.worker_id,
                lease=handler.lock_time or queues[handler.queue].settings.lease,
                settings=queues[handler.queue].settings,
                middlewares=duties.middlewares,
                overseer=overseer,
                on_short_lease=self._on_short_lease,
            )
            for handler in duties.handlers
        ]
        for runner in self._runners:
            runner.start()
        self._schedules = [
            overseer.start(keep_firing(schedule, backend), f"laneway schedule {schedule.name}")
            for schedule in duties.schedules
        ]
        self._backend = backend
        self._leases = [
            handler.lock_time or queues[handler.queue].settings.lease for handler in duties.handlers
        ] or [self._settings.timeout]

    def _on_short_lease(self, lease: float) -> None:
        if self._guard is not None:
            self._guard.watch_lease(lease)

    def _make_guard(self) -> Guard:
        return Guard(
            target=self._target,
            identity=self._identity,
            heartbeat=self._settings.heartbeat,
            shortest_lease=min(self._leases),
            in_flight=self._in_flight,
            slots=[slot for runner in self._runners for slot in runner.slots],
            counters=self._counters,
            on_order=self._follow_order,
            on_return=self._return,
            on_lost=self._lose,
            on_fault=self._fail,
        )

    async def _poll(self) -> None:
        if await self._step(self._backend, WorkerState.POLLING):
            for runner in self._runners:
                runner.resume()
            self.running.set()

    def _follow_order(self, order: WorkerOrder) -> None:
        """Follow an order from outside."""
        match order.state:
            case WorkerState.STOPPED:
                if not self._stopping.is_set():
                    logger.warning("worker %s was stopped from outside", self.worker_id)
                    self._abandoned.set()
                    self._stopping.set()
            case WorkerState.INTERRUPTED if order.asked is WorkerState.STOPPED:
                self._stopping.set()
            case WorkerState.INTERRUPTED | WorkerState.SUSPENDED:
                if self.state is WorkerState.POLLING:
                    self.state = WorkerState.INTERRUPTED
                    self._change(self._suspend)
                elif self.state is WorkerState.READY:
                    self.state = WorkerState.SUSPENDED
            case WorkerState.READY:
                self._resume()
            case WorkerState.POLLING:
                pass
            case _:
                assert_never(order.state)

    def _resume(self) -> None:
        if self.state is WorkerState.SUSPENDED:
            self.state = WorkerState.READY
            self._change(self._poll)
        elif self.state is WorkerState.POLLING:
            # The state in the database is older.
            self._change(self._report_state)

    def _return(self) -> None:
        """Continue after the worker counted as dead; its prefetched messages were reclaimed."""
        if self._stopping.is_set():
            return
        match self.state:
            case WorkerState.READY | WorkerState.POLLING | WorkerState.STOPPED:
                self._change(self._poll_anew)
            case WorkerState.SUSPENDED:
                self._change(self._report_state)
            case WorkerState.INTERRUPTED:
                # It becomes suspended once its handlers are done.
                pass
            case _:
                assert_never(self.state)

    def _change(self, follow: Callable[[], Awaitable[None]]) -> None:
        """Run a state change after the ones that were requested before."""

        async def take_turn() -> None:
            async with self._turn:
                await follow()

        task = self._overseer.start(take_turn(), "laneway orders")
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)

    async def _poll_anew(self) -> None:
        for runner in self._runners:
            await runner.suspend()
        await self._poll()

    async def _report_state(self) -> None:
        """Store the worker's state again; if it is refused, the next heartbeat says why."""
        try:
            await self._backend.workers.step(self.worker_id, self.state)
        except LanewayError as error:
            logger.info("%s", error)

    async def _suspend(self) -> None:
        self.running.clear()
        for runner in self._runners:
            await runner.suspend()
        for runner in self._runners:
            await runner.finish()
        await self._step(self._backend, WorkerState.SUSPENDED)

    def _lose(self, slot: Slot, messages: Sequence[Message]) -> None:
        slot.lose(messages)

    async def _drain(self, settler: Settler) -> None:
        """Stop claiming and finish the messages in flight, within the drain time."""
        self.running.clear()
        await self._run_until(self._finish(settler), self._abandoned, self._settings.drain)

    async def _finish(self, settler: Settler) -> None:
        await asyncio.gather(*(runner.suspend() for runner in self._runners))
        for runner in self._runners:
            await runner.finish()
        await settler.drain()

    async def _leave(self, backend: Backend, guard: Guard, settling: asyncio.Task[None]) -> None:
        await asyncio.gather(
            self._overseer.end(*self._schedules, *self._changes),
            *(runner.stop() for runner in self._runners),
        )
        await self._overseer.end(settling)
        await guard.stop()
        await self._step(backend, WorkerState.STOPPED)

    async def _run_until(
        self, work: Coroutine[Any, Any, object], told: asyncio.Event, limit: timedelta
    ) -> None:
        """Run work that may wait for handlers or the database, until it is told to end or times out."""
        doing = asyncio.create_task(work)
        waiting = asyncio.create_task(told.wait())
        try:
            await asyncio.wait(
                {doing, waiting},
                timeout=limit.total_seconds(),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            await self._overseer.end(doing, waiting, patience=PATIENCE)

    async def _step(self, backend: Backend, to: WorkerState) -> bool:
        """Store the worker's new state; return whether it was accepted."""
        try:
            await backend.workers.step(self.worker_id, to)
        except InvalidStateTransition as error:
            # Another state was requested meanwhile: the next heartbeat returns it.
            logger.info("%s", error)
            if to is not WorkerState.STOPPED:
                self.state = WorkerState(error.source)
                return False
        except LanewayError as error:
            logger.warning("state %s of worker %s not stored: %s", to, self.worker_id, error)
        self.state = to
        return True


def _choose_runner(handler: Handler, queue: Queue) -> type[Runner]:
    group = queue.groups.get(handler.group)
    # A group that does not exist yet will most likely be created like its queue.
    ordered = queue.settings.ordered if group is None else group.ordered
    return OrderedRunner if ordered else Runner
