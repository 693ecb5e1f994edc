"""Heartbeats and lease extensions, from a thread of their own: a blocked event loop does not stop them."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING

from laneway.domain.errors import LanewayError, WorkerNotFound
from laneway.domain.workers import WorkerOrder, WorkerState
from laneway.worker.policies import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laneway.domain.backend import Backend
    from laneway.domain.messages import Progress
    from laneway.domain.workers import WorkerIdentity
    from laneway.library.connection import Target
    from laneway.library.messages import Message
    from laneway.worker.in_flight import InFlight, LeaseGroup
    from laneway.worker.runner import Counters
    from laneway.worker.slots import Slot

logger = logging.getLogger(__name__)

# A lease is extended after one PART-th of its duration.
PART = 3


class Guard:
    """Sends the worker's heartbeats, extends its leases, and passes on orders from outside.

    The callbacks run on the worker's loop. on_order: an order for the worker. on_return: the worker
    counted as dead, was reclaimed, and is registered again. on_lost: the leases of a slot's messages
    ended. on_fault: the guard failed and does nothing any more.
    """

    def __init__(
        self,
        *,
        target: Target,
        identity: WorkerIdentity,
        heartbeat: timedelta,
        shortest_lease: timedelta,
        in_flight: InFlight,
        slots: Sequence[Slot],
        counters: Counters,
        on_order: Callable[[WorkerOrder], None],
        on_return: Callable[[], None],
        on_lost: Callable[[Slot, Sequence[Message]], None],
        on_fault: Callable[[str], None],
    ) -> None:
        self._target = target
        self._identity = identity
        self._heartbeat = heartbeat.total_seconds()
        self._pause = self._heartbeat
        self._pace(shortest_lease.total_seconds())
        self._in_flight = in_flight
        self._slots = slots
        self._counters = counters
        self._on_order = on_order
        self._on_return = on_return
        self._on_lost = on_lost
        self._on_fault = on_fault
        self._loop = asyncio.get_running_loop()
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        # Whether the worker's loop has not answered the last call: a handler blocks it.
        self._asked = False
        self._ended = threading.Event()
        self._gone = asyncio.Event()
        self._thread = threading.Thread(target=self._run_thread, name="laneway guard", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def watch_lease(self, lease: float) -> None:
        """Run often enough from now on for leases of this many seconds."""
        if self._pace(lease):
            self._wake()

    def end(self) -> None:
        """End the thread, once its current call has returned or failed."""
        self._ended.set()
        self._wake()

    async def stop(self) -> None:
        self.end()
        # Not joined: the program would wait for as long as the database does not answer.
        await self._gone.wait()

    def _pace(self, lease: float) -> bool:
        pause = lease / (2 * PART)
        sooner = pause < self._pause
        self._pause = min(pause, self._pause)
        return sooner

    def _wake(self) -> None:
        with suppress(RuntimeError):
            if self._own_loop is not None:
                self._own_loop.call_soon_threadsafe(self._woken.set)

    def _run_thread(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            if not self._ended.is_set():
                logger.exception("heartbeats ended unexpectedly")
                self._call_worker(
                    self._on_fault, f"heartbeats ended unexpectedly: {describe(error)}"
                )
        finally:
            self._call_worker(self._gone.set)

    async def _run(self) -> None:
        self._own_loop = asyncio.get_running_loop()
        async with self._target.open(aside=True) as backend:
            next_beat = monotonic()
            while not self._ended.is_set():
                try:
                    await self._extend(backend)
                    await self._extend_unread(backend)
                    if monotonic() >= next_beat:
                        next_beat = monotonic() + self._heartbeat
                        await self._beat(backend)
                except LanewayError as error:
                    logger.warning("no heartbeat: %s", error)
                except Exception:
                    # Keep going: without heartbeats the worker would soon count as dead.
                    logger.exception("no heartbeat")
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._pause):
                        await self._woken.wait()
                self._woken.clear()
            with suppress(LanewayError):
                await self._beat(backend)

    async def _beat(self, backend: Backend) -> None:
        counters = self._counters
        try:
            order = await backend.workers.record_heartbeat(
                self._identity.worker_id,
                handled=counters.handled,
                failed=counters.failed,
                progress=self._collect_progress(),
            )
        except WorkerNotFound:
            order = WorkerOrder(WorkerState.STOPPED, None)
        if order.state is WorkerState.STOPPED and order.asked is None and not self._ended.is_set():
            await self._return(backend)
        else:
            self._call_worker(self._on_order, order)
        if order.leases_ended:
            await self._extend(backend, due_only=False)

    def _collect_progress(self) -> dict[str, Progress]:
        """Return what the running handlers have reported, by message id."""
        return {
            str(message.id): message.reported
            for slot in self._slots
            for message in slot.messages
            if message.reported is not None
        }

    async def _return(self, backend: Backend) -> None:
        """Register the worker again, and find the messages that it lost."""
        await backend.workers.register(self._identity)
        logger.warning(
            "worker %s sent no heartbeat for too long and its messages were reclaimed; it continues",
            self._identity.worker_id,
        )
        self._call_worker(self._on_return)
        await self._extend(backend, due_only=False)

    async def _extend_unread(self, backend: Backend) -> None:
        """Extend all leases of the worker while its loop is blocked.

        Among them may be leases of claims whose answers the blocked loop has not read.
        """
        if self._asked:
            lease = timedelta(seconds=self._pause * 2 * PART)
            await backend.workers.extend_leases(self._identity.worker_id, lease=lease)
        else:
            self._asked = True
            self._call_worker(self._answer)

    def _answer(self) -> None:
        self._asked = False

    async def _extend(self, backend: Backend, *, due_only: bool = True) -> None:
        """Extend the leases of all messages in flight: waiting, being handled, or being settled."""
        now = monotonic()
        due: dict[float, list[tuple[LeaseGroup, list[Message]]]] = {}
        for lease_group, messages in self._in_flight.group().items():
            if not due_only or now - lease_group.since > lease_group.lease / PART:
                due.setdefault(lease_group.lease, []).append((lease_group, messages))
        for lease, lease_groups in due.items():
            messages_of_length = [message for _, messages in lease_groups for message in messages]
            receipts = [message.receipt for message in messages_of_length]
            untils = await backend.extend(receipts, lease=timedelta(seconds=lease))
            for lease_group, _ in lease_groups:
                lease_group.since = now
            self._lose(
                [
                    message
                    for message, until in zip(messages_of_length, untils, strict=True)
                    if not until
                ]
            )

    def _lose(self, lost: Sequence[Message]) -> None:
        if not lost:
            return
        self._in_flight.drop(lost)
        for message in lost:
            message.lost = True
        for slot in self._slots:
            messages = slot.messages
            if any(message.lost for message in messages):
                for message in messages:
                    message.lost = True
                self._call_worker(self._on_lost, slot, messages)

    def _call_worker(self, call: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            # The worker's loop is closed.
            self._ended.set()
