"""Running one handler: claim and prefetch messages, pass them to slots, settle them."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import LanewayError, Retryable
from laneway.library.messages import Message
from laneway.worker.backoff import wait_after
from laneway.worker.handlers import finish, wrap
from laneway.worker.in_flight import LeaseGroup
from laneway.worker.pools import make_pool
from laneway.worker.queue_policy import QueuePolicy
from laneway.worker.returns import Returns
from laneway.worker.slots import Slot
from laneway.worker.start_limit import StartLimit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from datetime import datetime
    from typing import TypeAlias

    from laneway.domain.backend import Backend
    from laneway.domain.messages import Delivery
    from laneway.domain.settings import QueueSettings
    from laneway.worker.ack_batches import Settler
    from laneway.worker.handlers import Handler, Middleware, Proceed
    from laneway.worker.in_flight import InFlight
    from laneway.worker.oversight import Overseer

    # A message in flight, with the group of its lease.
    Item: TypeAlias = tuple[Message, LeaseGroup]

logger = logging.getLogger(__name__)

LONG_POLL = timedelta(seconds=30)

# Prefetch as many messages as the slots will have started on within this time, in seconds.
AHEAD = 0.1
MOST_AHEAD = 1000

# How long cancelled handlers have to end before they are abandoned, in seconds; also how long the
# release of their messages is retried at shutdown while the database is unreachable.
PATIENCE = 1.0

# A slot yields to the event loop at least this often, in seconds.
SLICE = 0.02


class Counters:
    """How many messages a worker has handled, and how many failed, since it started."""

    __slots__ = ("failed", "handled")

    def __init__(self) -> None:
        self.handled = 0
        self.failed = 0


class Runner:
    """Runs the handler of a shared group: any idle slot handles the next message."""

    _ordered = False

    def __init__(
        self,
        handler: Handler,
        *,
        backend: Backend,
        settler: Settler,
        in_flight: InFlight,
        counters: Counters,
        consumer: str,
        lease: timedelta,
        settings: QueueSettings,
        middlewares: list[Middleware],
        overseer: Overseer,
        on_short_lease: Callable[[float], None],
    ) -> None:
        """on_short_lease: called with the duration of leases shorter than the queue's, in seconds."""
        self.handler = handler
        self.slots = [Slot() for _ in range(handler.concurrency)]
        self._backend = backend
        self._settler = settler
        self._in_flight = in_flight
        self._returns = Returns(
            handler,
            backend=backend,
            settler=settler,
            in_flight=in_flight,
            counters=counters,
            lease=lease,
            policy=QueuePolicy(handler.queue, settings, backend),
            ordered=self._ordered,
        )
        self._counters = counters
        self._consumer = consumer
        self._lease = lease.total_seconds()
        # By how many seconds the database's clock is ahead of `monotonic`; -inf until measured.
        self._skew = -math.inf
        self._overseer = overseer
        self._on_short_lease = on_short_lease
        self._pool = make_pool(handler.executor, handler.concurrency)
        self._call = wrap(self._make_call(), middlewares)
        self._limit = None if handler.rate_limit is None else StartLimit(handler.rate_limit)
        self._waiting: deque[Item] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._wants_messages = asyncio.Event()
        self._handler_ended = asyncio.Event()
        self._pace = 0.0
        # How often to check for stale messages: a quarter of the shortest lease so far.
        self._stale_interval = self._lease / 4
        self._interval_shortened = asyncio.Event()
        # Whether prefetched messages went stale and no handler has ended since: the handlers hang.
        self._stuck = False
        self._claiming = False
        self._claimer: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the slots. Nothing is claimed before `resume`."""
        for slot in self.slots:
            slot.task = self._overseer.start(self._work(slot), f"laneway {self.handler.queue}")

    def resume(self) -> None:
        if not self._claiming:
            self._claiming = True
            self._start_claiming()
            self._watch = self._overseer.start(self._watch_stale(), "laneway stale")

    async def suspend(self) -> None:
        """Stop claiming, and release the messages that no handler has started on."""
        await self._stop_claiming()
        await self._release_stale(math.inf)

    async def finish(self) -> None:
        """Return once no handler is running."""
        while any(slot.messages for slot in self.slots):
            self._handler_ended.clear()
            await self._handler_ended.wait()

    async def stop(self) -> None:
        """End the slots: cancel running handlers, and release all messages."""
        left = [message for slot in self.slots for message in slot.messages]
        for slot in self.slots:
            slot.abandoned = True
        try:
            await self._overseer.end(*(slot.task for slot in self.slots), patience=PATIENCE)
        finally:
            if self._pool is not None:
                self._pool.close()
        await self._stop_claiming()
        if left:
            logger.warning(
                "%d messages were still being handled at shutdown; they are released and delivered again",
                len(left),
            )
        waiting = [message for message, _ in self._list_waiting()]
        await self._returns.release(left + waiting, patience=PATIENCE)

    async def _stop_claiming(self) -> None:
        self._claiming = False
        # The watch first, because it restarts claiming.
        await self._overseer.end(self._watch)
        await self._overseer.end(self._claimer)
        self._claimer = self._watch = None

    def _make_call(self) -> Proceed:
        """Return the call that runs the handler's function, with its pool and timeout."""
        function, pool, timeout = self.handler.function, self._pool, self.handler.timeout
        call: Callable[[Any], Awaitable[Any]] = function
        if pool is not None:

            async def call_in_pool(work: Any) -> Any:
                return await finish(await pool.run(function, work))

            call = call_in_pool
        if timeout is None:
            return call
        seconds = timeout.total_seconds()
        plain = call

        async def call_in_time(work: Any) -> Any:
            limit = asyncio.timeout(seconds)
            cancelled = None
            try:
                async with limit:
                    result = await plain(work)
                    # A function that swallows its cancellation may be incomplete: it timed out.
                    if not limit.expired():
                        return result
            except TimeoutError as error:
                if not limit.expired():
                    raise
                # Its traceback shows where the handler was.
                # Before Python 3.11.4, asyncio names no cause.
                cancelled = error.__cause__ or error.__context__
            raise TimeoutError(f"the handler took longer than {seconds:g} s") from cancelled

        return call_in_time

    def _start_claiming(self) -> None:
        self._claimer = self._overseer.start(self._claim(), "laneway claim")

    async def _claim(self) -> None:
        """Claim messages for the idle slots, and prefetch more."""
        handler = self.handler
        lock_time = handler.lock_time
        while True:
            want = self._count_wanted()
            if not want:
                self._wants_messages.clear()
                await self._wants_messages.wait()
                continue
            if self._limit is not None:
                want = await self._limit.wait(want)
            try:
                deliveries = await self._backend.claim(
                    handler.queue,
                    want,
                    group=handler.group,
                    wait=LONG_POLL,
                    lease=lock_time,
                    consumer=self._consumer,
                    partition=handler.partition,
                )
            except Retryable as error:
                await wait_after(error)
                continue
            except LanewayError as error:
                logger.error("cannot claim from queue %r: %s", handler.queue, error)  # noqa: TRY400 - the text is enough
                await asyncio.sleep(1)
                continue
            if self._limit is not None:
                self._limit.spend(len(deliveries))
            claimed = self._register(deliveries)
            try:
                await self._correct_start(claimed)
                await self._extend_old(claimed)
            finally:
                # Also when cancelled: the caller that stops claiming releases them.
                self._add_waiting(claimed)

    def _count_wanted(self) -> int:
        """Return how many messages to claim now."""
        free = len(self._idle) * (self.handler.batch or 1)
        ahead = self._look_ahead()
        want = free + ahead - len(self._waiting)
        return want if want > ahead // 2 else 0

    def _add_waiting(self, claimed: Sequence[Item]) -> None:
        """Add messages to those that wait for a slot."""
        self._waiting.extend(claimed)
        self._wake_slots(-(-len(claimed) // (self.handler.batch or 1)))

    def _list_waiting(self) -> Iterable[Item]:
        """Return the messages that no handler has started on."""
        return self._waiting

    def _withdraw(self, by: float) -> list[Item]:
        """Remove and return the waiting messages that are stale at the time `by`."""
        stale = [item for item in self._waiting if item[1].stale <= by]
        self._waiting = deque(item for item in self._waiting if item[1].stale > by)
        return stale

    def _restore(self, items: Sequence[Item]) -> None:
        """Put back withdrawn messages whose release was cancelled."""
        self._waiting.extendleft(reversed(items))

    async def _release_stale(self, by: float) -> None:
        items = self._withdraw(by)
        try:
            await self._returns.release([message for message, _ in items])
        except asyncio.CancelledError:
            self._restore(items)
            raise

    def _register(self, deliveries: Sequence[Delivery]) -> list[Item]:
        """Return the messages with their lease groups, one for each lease duration."""
        queue, now = self.handler.queue, monotonic()
        lease_groups: dict[timedelta | None, LeaseGroup] = {}
        claimed: list[Item] = []
        for item in deliveries:
            # The handler's lock_time overrides a message's own lease duration.
            own = item.lease if self.handler.lock_time is None else None
            lease_group = lease_groups.get(own)
            if lease_group is None:
                lease = self._lease if own is None else own.total_seconds()
                since = min(now, self._find_start(item.until, lease))
                lease_group = lease_groups[own] = LeaseGroup(since, lease)
            message = Message(queue, item)
            message.is_tracked = True
            claimed.append((message, lease_group))
        self._in_flight.add(claimed)
        for lease_group in lease_groups.values():
            if lease_group.lease < self._lease:
                self._on_short_lease(lease_group.lease)
                self._shorten_interval(lease_group.lease)
        return claimed

    async def _correct_start(self, claimed: Sequence[Item]) -> None:
        """Correct the start of the leases if they do not end when expected.

        That is so if the queue's lease duration was changed, or if this loop was delayed.
        """
        fixed = self.handler.lock_time is not None
        first = next((item for item in claimed if fixed or item[0].lease is None), None)
        if first is None:
            return
        now, until, lease_group = monotonic(), first[0].locked_until, first[1]
        supposed = lease_group.since
        if abs(self._find_start(until, self._lease) - now) < self._lease / 4:
            return
        try:
            await self._refresh_lease()
        except LanewayError as error:
            logger.info("cannot read the lease duration of queue %r: %s", self.handler.queue, error)
            return
        # Unless they were extended meanwhile.
        if lease_group.since == supposed:
            lease_group.set_start(min(now, self._find_start(until, self._lease)), self._lease)

    async def _extend_old(self, claimed: Sequence[Item]) -> None:
        """Extend leases that are half over already, because this loop was delayed after the claim."""
        now = monotonic()
        for lease_group in {lease_group for _, lease_group in claimed if lease_group.stale < now}:
            messages = [message for message, own in claimed if own is lease_group]
            receipts = [message.receipt for message in messages]
            lease = timedelta(seconds=lease_group.lease)
            try:
                untils = await self._backend.extend(receipts, lease=lease)
            except LanewayError as error:
                logger.info("cannot extend leases of queue %r: %s", self.handler.queue, error)
                continue
            lease_group.set_start(now, lease_group.lease)
            for message, until in zip(messages, untils, strict=True):
                message.lost = until is None

    def _find_start(self, until: datetime, lease: float) -> float:
        """Return when a lease started, by `monotonic`; inf while the skew is unknown."""
        return until.timestamp() - lease - self._skew

    async def _refresh_lease(self) -> None:
        asked = monotonic()
        self._skew = (await self._backend.ping()).timestamp() - asked
        if self.handler.lock_time is not None:
            return
        lease = (await self._backend.queues.get(self.handler.queue)).settings.lease
        self._lease = lease.total_seconds()
        self._on_short_lease(self._lease)
        self._shorten_interval(self._lease)

    def _shorten_interval(self, lease: float) -> None:
        if lease / 4 < self._stale_interval:
            self._stale_interval = lease / 4
            self._interval_shortened.set()

    def _look_ahead(self) -> int:
        if self._stuck:
            return 0
        prefetch = self.handler.prefetch
        if prefetch is not None:
            return prefetch
        if not self._pace:
            return 0
        # 0 if one call takes longer than AHEAD.
        return min(int(AHEAD / self._pace) * self.handler.concurrency, MOST_AHEAD)

    def _wake_slots(self, slots: int) -> None:
        while slots > 0 and self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                slots -= 1

    async def _work(self, slot: Slot) -> None:
        batch = self.handler.batch
        began = monotonic()
        while not slot.abandoned:
            if not self._waiting:
                await self._wait_for_work()
                began = monotonic()
                continue
            claimed = [self._waiting.popleft() for _ in range(min(batch or 1, len(self._waiting)))]
            if self._claiming and not self._wants_messages.is_set():
                self._wants_messages.set()
            now = monotonic()
            messages = [
                message
                for message, lease_group in claimed
                if lease_group.is_safe(now) and not message.lost
            ]
            if len(messages) < len(claimed):
                await self._put_back(claimed, messages)
                continue
            await self._handle(slot, messages)
            end = self._measure_pace(now)
            if end - began > SLICE:
                await asyncio.sleep(0)
                began = monotonic()

    def _measure_pace(self, began: float) -> float:
        """Update the average duration of handler calls; return the current time."""
        end = monotonic()
        # An exponential average, so that it follows changes quickly.
        self._pace += (end - began - self._pace) * 0.1 if self._pace else end - began
        return end

    async def _put_back(self, claimed: Sequence[Item], good: list[Message]) -> None:
        """Release the messages whose leases are too old to start on; put the rest back in front."""
        self._waiting.extendleft(item for item in reversed(claimed) if item[0] in good)
        await self._returns.release([message for message, _ in claimed if message not in good])

    async def _handle(self, slot: Slot, messages: Sequence[Message]) -> bool:
        """Run the handler and settle; return whether it succeeded. The slot survives any error."""
        slot.messages = messages
        if slot.lost:
            # The previous handler swallowed its cancellation.
            slot.recover()
        try:
            return await self._settle(slot, messages)
        except BaseException as error:
            if slot.abandoned or self._overseer.is_ending:
                raise
            self._counters.failed += len(messages)
            if slot.lost:
                # The message is or will be delivered to another consumer: there is nothing to settle.
                logger.warning(
                    "handler of queue %r cancelled: %s was cancelled, or its lease was lost",
                    self.handler.queue,
                    messages[0],
                )
            else:
                logger.exception(
                    "%s could not be settled; it is delivered again when its lease expires",
                    messages[0],
                    exc_info=error,
                )
            self._in_flight.drop(messages)
            slot.recover()
            return False
        finally:
            slot.messages = ()
            self._stuck = False
            self._handler_ended.set()

    async def _settle(self, slot: Slot, messages: Sequence[Message]) -> bool:
        work: Any = messages[0] if self.handler.batch is None else messages
        try:
            result = await self._call(work)
        except BaseException as error:
            # The slot itself was not cancelled, so this is the handler's own error.
            if slot.abandoned or slot.lost or self._overseer.is_ending:
                raise
            slot.recover()
            await self._returns.settle(messages, error)
            return False
        if self.handler.keep_results is None:
            self._counters.handled += len(messages)
            for message in messages:
                self._settler.ack(message)
            return True
        return await self._returns.keep(messages[0], result, self.handler.keep_results)

    async def _wait_for_work(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(waiter)
        self._wants_messages.set()
        try:
            await waiter
        finally:
            with suppress(ValueError):
                self._idle.remove(waiter)

    async def _watch_stale(self) -> None:
        """Release prefetched messages that went stale because the handlers hang."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._stale_interval):
                    await self._interval_shortened.wait()
            self._interval_shortened.clear()
            now = monotonic()
            if all(lease_group.stale > now for _, lease_group in self._list_waiting()):
                continue
            # The waiting claim, which asked for messages to prefetch, would claim them again.
            self._stuck = True
            await self._overseer.end(self._claimer)
            await self._release_stale(now)
            self._start_claiming()
