"""Runs one handler: takes messages ahead, hands them to slots, settles what they did."""

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
from laneway.worker.handlers import wrap
from laneway.worker.pauses import wait_after
from laneway.worker.pools import make_pool
from laneway.worker.returns import Returns
from laneway.worker.slots import Slot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from laneway.domain.backend import Backend
    from laneway.domain.messages import Delivery
    from laneway.worker.handlers import Handler, Middleware, Proceed
    from laneway.worker.oversight import Overseer
    from laneway.worker.settling import Settler

logger = logging.getLogger(__name__)

LONG_POLL = timedelta(seconds=30)

# Messages are taken so far ahead as all slots will have begun within this time.
AHEAD = 0.1
MOST_AHEAD = 1000

# How long handlers that are given up have to end, in seconds; one that does not is left behind. So
# long too giving back is tried at the end, where the database is away.
PATIENCE = 1.0

# A slot lets others have the loop at least so often.
SLICE = 0.02


class Counters:
    """What a worker has done since it began."""

    __slots__ = ("failed", "handled")

    def __init__(self) -> None:
        self.handled = 0
        self.failed = 0


class Runner:
    def __init__(
        self,
        handler: Handler,
        *,
        backend: Backend,
        settler: Settler,
        counters: Counters,
        consumer: str,
        lease: timedelta,
        middlewares: list[Middleware],
        overseer: Overseer,
        hurry: Callable[[float], None],
    ) -> None:
        """Begin with nothing; `hurry` is told of locks shorter than the queue's others."""
        self.handler = handler
        self.slots = [Slot() for _ in range(handler.concurrency)]
        self._backend = backend
        self._settler = settler
        self._returns = Returns(
            handler, backend=backend, settler=settler, counters=counters, lease=lease
        )
        self._counters = counters
        self._consumer = consumer
        self._lease = lease.total_seconds()
        # By how much the database's clock is ahead of ours: not known yet.
        self._skew = math.inf
        self._overseer = overseer
        self._hurry = hurry
        self._pool = make_pool(handler.executor, handler.concurrency)
        self._call = wrap(self._make_call(), middlewares)
        # With when each becomes stale, half its lock being over, and how long that lasts.
        self._waiting: deque[tuple[Message, float, float]] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._hungry = asyncio.Event()
        self._quiet = asyncio.Event()
        self._pace = 0.0
        # How often to look for what went stale: a quarter of the shortest lock there was.
        self._patience = self._lease / 4
        self._impatient = asyncio.Event()
        # The handlers hang: what was taken ahead went stale, and none has ended since.
        self._stuck = False
        self._taking = False
        self._claimer: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Run the slots; nothing is taken before `resume`."""
        for slot in self.slots:
            slot.task = self._overseer.start(self._work(slot), f"laneway {self.handler.queue}")

    def resume(self) -> None:
        if not self._taking:
            self._taking = True
            self._begin_claiming()
            self._watch = self._overseer.start(self._return_stale(), "laneway stale")

    async def suspend(self) -> None:
        """Take nothing more, and give back what was taken and not begun."""
        await self._take_no_more()
        waiting = list(self._waiting)
        self._waiting.clear()
        try:
            await self._returns.release([item[0].receipt for item in waiting])
        except asyncio.CancelledError:
            self._waiting.extend(waiting)
            raise

    async def finish(self) -> None:
        """Return once no handler runs."""
        while any(slot.messages for slot in self.slots):
            self._quiet.clear()
            await self._quiet.wait()

    async def stop(self) -> None:
        """End the slots; handlers that still run are given up, and their messages go back."""
        left = [message.receipt for slot in self.slots for message in slot.messages]
        for slot in self.slots:
            slot.given_up = True
        try:
            await self._overseer.end(*(slot.task for slot in self.slots), patience=PATIENCE)
        finally:
            if self._pool is not None:
                self._pool.close()
        await self._take_no_more()
        if left:
            logger.warning("%d handlers did not end in time: their messages come again", len(left))
        waiting = [item[0].receipt for item in self._waiting]
        await self._returns.release(left + waiting, patience=PATIENCE)

    async def _take_no_more(self) -> None:
        self._taking = False
        # The watch first: it begins claiming anew.
        await self._overseer.end(self._watch)
        await self._overseer.end(self._claimer)
        self._claimer = self._watch = None

    def _make_call(self) -> Proceed:
        """Return what runs the handler's function on a message, or on a list of them."""
        function, pool, timeout = self.handler.function, self._pool, self.handler.timeout
        call: Callable[[Any], Awaitable[Any]] = function
        if pool is not None:

            def call_in_pool(work: Any) -> Awaitable[Any]:
                return pool.run(function, work)

            call = call_in_pool
        if timeout is None:
            return call
        seconds = timeout.total_seconds()
        plain = call

        async def call_in_time(work: Any) -> Any:
            limit = asyncio.timeout(seconds)
            try:
                async with limit:
                    return await plain(work)
            except TimeoutError:
                if limit.expired():
                    raise TimeoutError(f"the handler took longer than {seconds:g} s") from None
                raise

        return call_in_time

    def _begin_claiming(self) -> None:
        self._claimer = self._overseer.start(self._claim(), "laneway claim")

    async def _claim(self) -> None:
        """Take messages for the slots that are idle, and some ahead."""
        handler = self.handler
        lock_time = handler.lock_time
        while True:
            free = len(self._idle) * (handler.batch or 1)
            ahead = self._look_ahead()
            want = free + ahead - len(self._waiting)
            if want <= ahead // 2:
                self._hungry.clear()
                await self._hungry.wait()
                continue
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
                logger.error("no messages of %r: %s", handler.queue, error)  # noqa: TRY400 - it says all
                await asyncio.sleep(1)
                continue
            since = monotonic()
            try:
                since = await self._date(deliveries, since)
            finally:
                # Also when cancelled: whoever ends the claiming gives them back.
                self._line_up(deliveries, since)

    async def _date(self, deliveries: Sequence[Delivery], now: float) -> float:
        """Return since when messages are locked: now, unless their locks do not end as expected.

        Then the queue's locks last for another time than before, or this loop was held up.
        """
        if self.handler.lock_time is not None:
            return now
        until = next((item.until.timestamp() for item in deliveries if item.lease is None), None)
        if until is None or abs(until - self._skew - self._lease - now) < self._lease / 4:
            return now
        try:
            await self._look_up()
        except LanewayError as error:
            logger.info("the lease of %r cannot be looked up: %s", self.handler.queue, error)
            return now
        return min(now, until - self._skew - self._lease)

    async def _look_up(self) -> None:
        asked = monotonic()
        self._skew = (await self._backend.ping()).timestamp() - asked
        lease = (await self._backend.get_queue(self.handler.queue)).settings.lease
        self._lease = lease.total_seconds()
        self._hurry(self._lease)
        self._watch_for(self._lease)

    def _line_up(self, deliveries: Sequence[Delivery], since: float) -> None:
        queue, lease = self.handler.queue, self._lease
        if self.handler.lock_time is not None or not any(item.lease for item in deliveries):
            stale = since + lease / 2
            self._waiting.extend([(Message(queue, item), stale, lease) for item in deliveries])
        else:
            for item in deliveries:
                own = lease if item.lease is None else item.lease.total_seconds()
                self._waiting.append((Message(queue, item), since + own / 2, own))
                self._watch_for(own)
        self._rouse(len(deliveries))

    def _watch_for(self, lease: float) -> None:
        if lease / 4 < self._patience:
            self._patience = lease / 4
            self._impatient.set()

    def _look_ahead(self) -> int:
        if self._stuck:
            return 0
        prefetch = self.handler.prefetch
        if prefetch is not None:
            return prefetch
        if not self._pace:
            return 0
        # A slot that is never done in time for another within the horizon takes none ahead.
        return min(int(AHEAD / self._pace) * self.handler.concurrency, MOST_AHEAD)

    def _rouse(self, n: int) -> None:
        while n > 0 and self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                n -= self.handler.batch or 1

    async def _work(self, slot: Slot) -> None:
        batch = self.handler.batch
        began = monotonic()
        while not slot.given_up:
            if not self._waiting:
                await self._wait_for_work()
                began = monotonic()
                continue
            if batch is None:
                message, stale, lease = self._waiting.popleft()
                work: Any = message
                messages: Sequence[Message] = (message,)
            else:
                taken = [self._waiting.popleft() for _ in range(min(batch, len(self._waiting)))]
                messages = work = [item[0] for item in taken]
                # That of the shortest lock.
                stale, lease = min(item[1:] for item in taken)
            if self._taking and not self._hungry.is_set():
                self._hungry.set()
            now = monotonic()
            if now > stale:
                await self._returns.release([message.receipt for message in messages])
                continue
            slot.since = stale - lease / 2
            slot.lease = lease
            slot.messages = messages
            if slot.lost:
                # The one before was told, and paid no heed.
                slot.recover()
            if lease < self._lease:
                self._hurry(lease)
            try:
                await self._handle(slot, work)
            finally:
                slot.messages = ()
                self._stuck = False
                self._quiet.set()
            end = monotonic()
            # The newest weigh most; a burst of quick ones is soon believed, and so is a slow one.
            self._pace += (end - now - self._pace) * 0.1 if self._pace else end - now
            if end - began > SLICE:
                await asyncio.sleep(0)
                began = monotonic()

    async def _handle(self, slot: Slot, work: Any) -> None:
        """Run the handler and settle; whatever it raises, the slot goes on."""
        try:
            await self._settle(slot, work)
        except BaseException as error:
            if slot.given_up or self._overseer.is_ending:
                raise
            self._counters.failed += len(slot.messages)
            if slot.lost:
                # Another has the message, or will: there is nothing to settle.
                logger.warning("a handler of %r was ended: its lock was lost", self.handler.queue)
            else:
                logger.exception(
                    "%s comes again when its lock ends", slot.messages[0], exc_info=error
                )
            slot.recover()

    async def _settle(self, slot: Slot, work: Any) -> None:
        messages = slot.messages
        try:
            result = await self._call(work)
        except BaseException as error:
            # Of its own it is not cancelled: then the handler was, or what it waited for.
            if slot.given_up or slot.lost or self._overseer.is_ending:
                raise
            slot.recover()
            await self._returns.settle(messages, error)
        else:
            if self.handler.keep_results is None:
                self._counters.handled += len(messages)
                for message in messages:
                    self._settler.ack(message.receipt)
            else:
                await self._returns.keep(messages[0], result, self.handler.keep_results)

    async def _wait_for_work(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(waiter)
        self._hungry.set()
        try:
            await waiter
        finally:
            with suppress(ValueError):
                self._idle.remove(waiter)

    async def _return_stale(self) -> None:
        """Give back what was taken ahead and could not be begun: the handlers hang."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await self._impatient.wait()
            self._impatient.clear()
            now = monotonic()
            if all(item[1] > now for item in self._waiting):
                continue
            # The claim that waits would take again what goes back: it asked for some ahead.
            self._stuck = True
            await self._overseer.end(self._claimer)
            stale = [item for item in self._waiting if item[1] <= now]
            self._waiting = deque(item for item in self._waiting if item[1] > now)
            try:
                await self._returns.release([item[0].receipt for item in stale])
            except asyncio.CancelledError:
                self._waiting.extendleft(reversed(stale))
                raise
            self._begin_claiming()
