"""Heartbeats and lock extensions, from a thread of its own: also while a handler blocks the loop."""

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
    from laneway.domain.workers import WorkerIdentity
    from laneway.library.connection import Target
    from laneway.library.messages import Message
    from laneway.worker.in_flight import Holdings, Lot
    from laneway.worker.runner import Counters
    from laneway.worker.slots import Slot

logger = logging.getLogger(__name__)

# A lock is extended after this part of its time.
PART = 3


class Guard:
    """Tells the database that the worker lives, and the worker what it is asked to do.

    A worker that was not heard of for too long, and reclaimed, it makes known again: on_return. That,
    on_order, on_lost and on_fault, for when it can do nothing more, are called on the worker's loop.
    """

    def __init__(
        self,
        *,
        target: Target,
        identity: WorkerIdentity,
        heartbeat: timedelta,
        shortest_lease: timedelta,
        holdings: Holdings,
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
        self._holdings = holdings
        self._slots = slots
        self._counters = counters
        self._on_order = on_order
        self._on_return = on_return
        self._on_lost = on_lost
        self._on_fault = on_fault
        self._loop = asyncio.get_running_loop()
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        # Whether the worker's loop was asked something and has not answered: a handler blocks it.
        self._asked = False
        self._ended = threading.Event()
        self._gone = asyncio.Event()
        self._thread = threading.Thread(target=self._live, name="laneway guard", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hurry(self, lease: float) -> None:
        """Look often enough for a lock that lasts so many seconds, from now on."""
        if self._pace(lease):
            self._wake()

    def end(self) -> None:
        """Have it end, as soon as the database answers or is known to be away."""
        self._ended.set()
        self._wake()

    async def stop(self) -> None:
        self.end()
        # Not joined: that would keep the program for as long as the database does not answer.
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

    def _live(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            if not self._ended.is_set():
                logger.exception("heartbeats ended unexpectedly")
                self._tell(self._on_fault, f"heartbeats ended unexpectedly: {describe(error)}")
        finally:
            self._tell(self._gone.set)

    async def _run(self) -> None:
        self._own_loop = asyncio.get_running_loop()
        async with self._target.open(aside=True) as backend:
            next_beat = monotonic()
            while not self._ended.is_set():
                try:
                    await self._extend(backend)
                    await self._hold(backend)
                    if monotonic() >= next_beat:
                        next_beat = monotonic() + self._heartbeat
                        await self._beat(backend)
                except LanewayError as error:
                    logger.warning("no heartbeat: %s", error)
                except Exception:
                    # Without it the worker would soon count as dead.
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
                self._identity.worker_id, handled=counters.handled, failed=counters.failed
            )
        except WorkerNotFound:
            order = WorkerOrder(WorkerState.STOPPED, None)
        if order.state is WorkerState.STOPPED and order.asked is None and not self._ended.is_set():
            await self._return(backend)
        else:
            self._tell(self._on_order, order)

    async def _return(self, backend: Backend) -> None:
        """Make the worker known again, and find out what it holds no more."""
        await backend.workers.register(self._identity)
        logger.warning(
            "worker %s was not heard of for too long and was reclaimed; it goes on",
            self._identity.worker_id,
        )
        self._tell(self._on_return)
        await self._extend(backend, due_only=False)

    async def _hold(self, backend: Backend) -> None:
        """Have locks last on that the worker cannot know of: its loop has not answered since last time.

        Of what was claimed meanwhile it has not read the answer.
        """
        if self._asked:
            lease = timedelta(seconds=self._pause * 2 * PART)
            await backend.workers.extend_leases(self._identity.worker_id, lease=lease)
        else:
            self._asked = True
            self._tell(self._answer)

    def _answer(self) -> None:
        self._asked = False

    async def _extend(self, backend: Backend, *, due_only: bool = True) -> None:
        """Have the locks of all that is in hand last on: also of what waits, or is on its way back."""
        now = monotonic()
        due: dict[float, list[tuple[Lot, list[Message]]]] = {}
        for lot, messages in self._holdings.group().items():
            if not due_only or now - lot.since > lot.lease / PART:
                due.setdefault(lot.lease, []).append((lot, messages))
        for lease, lots in due.items():
            held = [message for _, messages in lots for message in messages]
            receipts = [message.receipt for message in held]
            untils = await backend.extend(receipts, lease=timedelta(seconds=lease))
            for lot, _ in lots:
                lot.since = now
            self._lose([message for message, until in zip(held, untils, strict=True) if not until])

    def _lose(self, lost: Sequence[Message]) -> None:
        if not lost:
            return
        self._holdings.drop(lost)
        for message in lost:
            message.lost = True
        for slot in self._slots:
            messages = slot.messages
            if any(message.lost for message in messages):
                for message in messages:
                    message.lost = True
                self._tell(self._on_lost, slot, messages)

    def _tell(self, call: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            # The worker's loop is closed.
            self._ended.set()
