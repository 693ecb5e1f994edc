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
from laneway.worker.backoff import wait_after
from laneway.worker.handlers import finish, wrap
from laneway.worker.in_flight import Lot
from laneway.worker.pools import make_pool
from laneway.worker.returns import Returns
from laneway.worker.slots import Slot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from datetime import datetime
    from typing import TypeAlias

    from laneway.domain.backend import Backend
    from laneway.domain.messages import Delivery
    from laneway.worker.ack_batches import Settler
    from laneway.worker.handlers import Handler, Middleware, Proceed
    from laneway.worker.in_flight import Holdings
    from laneway.worker.oversight import Overseer

    # A message in hand, with when its lock was taken.
    Item: TypeAlias = tuple[Message, Lot]

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
    """Runs the handler of a shared group: whatever message is next goes to whichever slot is idle."""

    _ordered = False

    def __init__(
        self,
        handler: Handler,
        *,
        backend: Backend,
        settler: Settler,
        holdings: Holdings,
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
        self._holdings = holdings
        self._returns = Returns(
            handler,
            backend=backend,
            settler=settler,
            holdings=holdings,
            counters=counters,
            lease=lease,
            ordered=self._ordered,
        )
        self._counters = counters
        self._consumer = consumer
        self._lease = lease.total_seconds()
        # By how much the database's clock is ahead of ours: not known yet.
        self._skew = -math.inf
        self._overseer = overseer
        self._hurry = hurry
        self._pool = make_pool(handler.executor, handler.concurrency)
        self._call = wrap(self._make_call(), middlewares)
        self._waiting: deque[Item] = deque()
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
        await self._give_back(math.inf)

    async def finish(self) -> None:
        """Return once no handler runs."""
        while any(slot.messages for slot in self.slots):
            self._quiet.clear()
            await self._quiet.wait()

    async def stop(self) -> None:
        """End the slots; handlers that still run are given up, and their messages go back."""
        left = [message for slot in self.slots for message in slot.messages]
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
        waiting = [message for message, _ in self._list_waiting()]
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

            async def call_in_pool(work: Any) -> Any:
                return await finish(await pool.run(function, work))

            call = call_in_pool
        if timeout is None:
            return call
        seconds = timeout.total_seconds()
        plain = call

        async def call_in_time(work: Any) -> Any:
            limit = asyncio.timeout(seconds)
            try:
                async with limit:
                    result = await plain(work)
                    # Else it returned though it was cancelled, and may have been cut short anywhere.
                    if not limit.expired():
                        return result
            except TimeoutError:
                if not limit.expired():
                    raise
            raise TimeoutError(f"the handler took longer than {seconds:g} s")

        return call_in_time

    def _begin_claiming(self) -> None:
        self._claimer = self._overseer.start(self._claim(), "laneway claim")

    async def _claim(self) -> None:
        """Take messages for the slots that are idle, and some ahead."""
        handler = self.handler
        lock_time = handler.lock_time
        while True:
            want = self._count_wanted()
            if not want:
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
            taken = self._hold(deliveries)
            try:
                await self._date(taken)
                await self._renew(taken)
            finally:
                # Also when cancelled: whoever ends the claiming gives them back.
                self._line_up(taken)

    def _count_wanted(self) -> int:
        """Return how many messages to ask for now."""
        free = len(self._idle) * (self.handler.batch or 1)
        ahead = self._look_ahead()
        want = free + ahead - len(self._waiting)
        return want if want > ahead // 2 else 0

    def _line_up(self, taken: Sequence[Item]) -> None:
        """Have messages wait for a slot."""
        self._waiting.extend(taken)
        self._rouse(-(-len(taken) // (self.handler.batch or 1)))

    def _list_waiting(self) -> Iterable[Item]:
        """Return what was taken and not begun."""
        return self._waiting

    def _withdraw(self, by: float) -> list[Item]:
        """Take out of line what was not begun, and is stale by then."""
        stale = [item for item in self._waiting if item[1].stale <= by]
        self._waiting = deque(item for item in self._waiting if item[1].stale > by)
        return stale

    def _restore(self, items: Sequence[Item]) -> None:
        """Have in hand again what was withdrawn and could not be given back."""
        self._waiting.extendleft(reversed(items))

    async def _give_back(self, by: float) -> None:
        items = self._withdraw(by)
        try:
            await self._returns.release([message for message, _ in items])
        except asyncio.CancelledError:
            self._restore(items)
            raise

    def _hold(self, deliveries: Sequence[Delivery]) -> list[Item]:
        """Return the messages with their lots, one for each length of their locks."""
        queue, now = self.handler.queue, monotonic()
        lots: dict[timedelta | None, Lot] = {}
        taken: list[Item] = []
        for item in deliveries:
            # Where the handler says how long locks last, a message's own time does not count.
            own = item.lease if self.handler.lock_time is None else None
            lot = lots.get(own)
            if lot is None:
                lease = self._lease if own is None else own.total_seconds()
                since = min(now, self._find_begin(item.until, lease))
                lot = lots[own] = Lot(since, lease)
            taken.append((Message(queue, item), lot))
        self._holdings.add(taken)
        for lot in lots.values():
            if lot.lease < self._lease:
                self._hurry(lot.lease)
                self._watch_for(lot.lease)
        return taken

    async def _date(self, taken: Sequence[Item]) -> None:
        """Put right since when messages are locked, where their locks do not end as expected.

        Then the queue's locks last for another time than before, or this loop was held up.
        """
        fixed = self.handler.lock_time is not None
        first = next((item for item in taken if fixed or item[0].lease is None), None)
        if first is None:
            return
        now, until, lot = monotonic(), first[0].locked_until, first[1]
        supposed = lot.since
        if abs(self._find_begin(until, self._lease) - now) < self._lease / 4:
            return
        try:
            await self._look_up()
        except LanewayError as error:
            logger.info("the lease of %r cannot be looked up: %s", self.handler.queue, error)
            return
        # Unless they were extended meanwhile.
        if lot.since == supposed:
            lot.date(min(now, self._find_begin(until, self._lease)), self._lease)

    async def _renew(self, taken: Sequence[Item]) -> None:
        """Extend locks that are half over already: this loop was held up since they were taken."""
        now = monotonic()
        for lot in {lot for _, lot in taken if lot.stale < now}:
            messages = [message for message, own in taken if own is lot]
            receipts = [message.receipt for message in messages]
            lease = timedelta(seconds=lot.lease)
            try:
                untils = await self._backend.extend(receipts, lease=lease)
            except LanewayError as error:
                logger.info("locks of %r are not extended: %s", self.handler.queue, error)
                continue
            lot.date(now, lot.lease)
            for message, until in zip(messages, untils, strict=True):
                message.lost = until is None

    def _find_begin(self, until: datetime, lease: float) -> float:
        """Return since when a message is locked, by our clock; without end while the skew is unknown."""
        return until.timestamp() - lease - self._skew

    async def _look_up(self) -> None:
        asked = monotonic()
        self._skew = (await self._backend.ping()).timestamp() - asked
        if self.handler.lock_time is not None:
            return
        lease = (await self._backend.queues.get(self.handler.queue)).settings.lease
        self._lease = lease.total_seconds()
        self._hurry(self._lease)
        self._watch_for(self._lease)

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

    def _rouse(self, slots: int) -> None:
        while slots > 0 and self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                slots -= 1

    async def _work(self, slot: Slot) -> None:
        batch = self.handler.batch
        began = monotonic()
        while not slot.given_up:
            if not self._waiting:
                await self._wait_for_work()
                began = monotonic()
                continue
            taken = [self._waiting.popleft() for _ in range(min(batch or 1, len(self._waiting)))]
            if self._taking and not self._hungry.is_set():
                self._hungry.set()
            now = monotonic()
            messages = [message for message, lot in taken if lot.is_safe(now) and not message.lost]
            if len(messages) < len(taken):
                await self._put_back(taken, messages)
                continue
            await self._handle(slot, messages)
            end = self._pace_since(now)
            if end - began > SLICE:
                await asyncio.sleep(0)
                began = monotonic()

    def _pace_since(self, began: float) -> float:
        """Learn how long handlers take; return the time."""
        end = monotonic()
        # The newest weigh most; a burst of quick ones is soon believed, and so is a slow one.
        self._pace += (end - began - self._pace) * 0.1 if self._pace else end - began
        return end

    async def _put_back(self, taken: Sequence[Item], good: list[Message]) -> None:
        """Give back what is not held for long enough to be begun with; the rest is next in line."""
        self._waiting.extendleft(item for item in reversed(taken) if item[0] in good)
        await self._returns.release([message for message, _ in taken if message not in good])

    async def _handle(self, slot: Slot, messages: Sequence[Message]) -> bool:
        """Run the handler and settle; return whether all went well. Whatever it raises, the slot goes on."""
        slot.messages = messages
        if slot.lost:
            # The one before was told, and paid no heed.
            slot.recover()
        try:
            return await self._settle(slot, messages)
        except BaseException as error:
            if slot.given_up or self._overseer.is_ending:
                raise
            self._counters.failed += len(messages)
            if slot.lost:
                # Another has the message, or will: there is nothing to settle.
                logger.warning("a handler of %r was ended: its lock was lost", self.handler.queue)
            else:
                logger.exception("%s comes again when its lock ends", messages[0], exc_info=error)
            self._holdings.drop(messages)
            slot.recover()
            return False
        finally:
            slot.messages = ()
            self._stuck = False
            self._quiet.set()

    async def _settle(self, slot: Slot, messages: Sequence[Message]) -> bool:
        work: Any = messages[0] if self.handler.batch is None else messages
        try:
            result = await self._call(work)
        except BaseException as error:
            # Of its own it is not cancelled: then the handler was, or what it waited for.
            if slot.given_up or slot.lost or self._overseer.is_ending:
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
            if all(lot.stale > now for _, lot in self._list_waiting()):
                continue
            # The claim that waits would take again what goes back: it asked for some ahead.
            self._stuck = True
            await self._overseer.end(self._claimer)
            await self._give_back(now)
            self._begin_claiming()
