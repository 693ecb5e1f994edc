"""The broker: the calls of every protocol, worker and library user, in one process."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from laneway.domain.errors import (
    BrokerClosed,
    GroupNotFound,
    InvalidRequest,
    LanewayError,
    NotFound,
    QueueExists,
)
from laneway.domain.messages import Receipt
from laneway.domain.queues import DEFAULT_GROUP
from laneway.domain.settings import EngineSettings
from laneway.engine.activity import Activity
from laneway.engine.catalog import Catalog
from laneway.engine.columns import expand_places, make_spans, squeeze, turn_messages
from laneway.engine.core import Core
from laneway.engine.dead_letters import DeadLetters
from laneway.engine.deliveries import list_deliveries, list_receipts
from laneway.engine.groups import Groups
from laneway.engine.in_flight_limits import InFlight
from laneway.engine.keys import Keys
from laneway.engine.kv import KeyValues, Locks
from laneway.engine.lane_queues import LanePlace, Lanes
from laneway.engine.lease_expiry import Deadlines
from laneway.engine.listings import Listings
from laneway.engine.log_reads import LogReads
from laneway.engine.maintenance import make_services
from laneway.engine.maintenance.keeper import Keeper
from laneway.engine.measurements import Measurements, Traffic
from laneway.engine.messages import Messages
from laneway.engine.moves import Moves
from laneway.engine.noisy_partitions import NoisyPartitions
from laneway.engine.notifications import Notices
from laneway.engine.poll import SafetyPoll
from laneway.engine.pool import Pool
from laneway.engine.procedures.delivery import transact
from laneway.engine.procedures.maintenance import is_read_only, read_clock
from laneway.engine.procedures.queues import create_queue
from laneway.engine.pumps.claim import NO_WAIT, ClaimPump
from laneway.engine.pumps.conflicts import retry_conflicts
from laneway.engine.pumps.line import Filter
from laneway.engine.pumps.ordered_claim import OrderedClaimPump
from laneway.engine.pumps.push import PushLoad, PushPump
from laneway.engine.pumps.settle import SettlePump
from laneway.engine.queues import Queues
from laneway.engine.receive_attempts import ReceiveAttempts
from laneway.engine.schedules import Schedules
from laneway.engine.schema import Schema
from laneway.engine.statistics import Statistics
from laneway.engine.streams import Streams
from laneway.engine.subscriptions import Subscriptions
from laneway.engine.tasks import Tasks
from laneway.engine.timers import Timers
from laneway.engine.traces import Traces
from laneway.engine.transactions import Transactions
from laneway.engine.wakeups import Wakeups
from laneway.engine.workers import Workers
from laneway.engine.workflows import Workflows

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime, timedelta
    from types import TracebackType
    from uuid import UUID

    from laneway.domain.ids import MessageId
    from laneway.domain.messages import (
        ClaimedSpan,
        Delivery,
        Nack,
        Outcome,
        OutgoingMessage,
        Pushed,
    )
    from laneway.domain.queues import DefaultQueue, Group, Queue
    from laneway.engine.columns import LostSpan, Spans

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Broker:
    """A broker on the database at `dsn`, running for as long as its context.

    It starts whether or not the database is reachable: while it is not, calls fail with
    Unavailable. Any number of brokers may run on one database, with equal rights.

    default_queue: a queue that is created when it is first named, unless it exists. Deleted after
    that, it stays deleted.
    """

    def __init__(
        self,
        dsn: str,
        settings: EngineSettings | None = None,
        *,
        default_queue: DefaultQueue | None = None,
    ) -> None:
        self._settings = settings or EngineSettings()
        connections, wakeups = self._settings.connections, self._settings.wakeups
        self._tasks = Tasks()
        self._returns = Tasks()
        pool = Pool(dsn, settings=connections, tasks=self._tasks)
        catalog = Catalog(pool=pool, tasks=self._tasks, age=wakeups.catalog_age)
        if default_queue is not None:
            catalog.default_name = default_queue.name
            catalog.create_default = partial(self._create_default_queue, default_queue)
        outbox = asyncio.Event()
        timers = asyncio.Event()
        notices = Notices(
            dsn,
            connections=connections,
            settings=wakeups,
            on_wake=self._hear_wake,
            on_catalog=catalog.forget,
            on_outbox=outbox.set,
            on_transactions=self._hear_transactions,
            on_gap=self._hear_gap,
        )
        waiters = Wakeups(notices)
        self._lanes = Lanes(pool=pool, tasks=self._tasks, wakeups=waiters)
        traffic = self._traffic = Traffic()
        core = self._core = Core(pool, catalog, waiters, notices, self._lanes, traffic)
        self.schema = Schema(core)
        self.queues = Queues(core)
        self.groups = Groups(core)
        self.messages = Messages(core)
        self.listings = Listings(core)
        self.statistics = Statistics(core)
        self.dead_letters = DeadLetters(core, self.messages)
        self.moves = Moves(core)
        self.receive_attempts = ReceiveAttempts(core)
        self.streams = Streams(core, timers)
        self.kv = KeyValues(core)
        self.locks = Locks(core)
        self.timers = Timers(core)
        self.reads = LogReads(core)
        self.subscriptions = Subscriptions(core, self.groups)
        self.traces = Traces(core)
        self.activity = Activity(core)
        self.workers = Workers(core)
        self.schedules = Schedules(core)
        self.workflows = Workflows(core)
        self.transactions = Transactions(core, tasks=self._tasks, settings=self._settings.pumps)
        self.keys = Keys(core)
        self._pushes = PushPump(
            pool=pool,
            tasks=self._tasks,
            settings=self._settings.pumps,
            wakeups=waiters,
            traffic=traffic,
        )
        self._settlements = SettlePump(
            pool=pool,
            tasks=self._tasks,
            settings=self._settings.pumps,
            lanes=self._lanes,
            traffic=traffic,
        )
        self._deadlines = Deadlines(pool=pool, tasks=self._tasks, wakeups=waiters)
        self._claims: dict[int, ClaimPump] = {}
        # Of the claim pumps whose group was deleted.
        self._past_claim_calls = 0
        self.in_flight = InFlight(self.statistics.count_in_flight)
        self.noisy = NoisyPartitions(self.statistics.count_in_flight_by_partition)
        self._safety = SafetyPoll(
            pool=pool, pumps=self._claims.values, interval=wakeups.safety_poll
        )
        self._keeper = Keeper(
            dsn,
            connections=connections,
            services=make_services(
                self._settings.maintenance, waiters, outbox=outbox, timers=timers
            ),
            candidacy=self._settings.maintenance.candidacy,
        )
        self._closed = False

    @property
    def leads_maintenance(self) -> asyncio.Event:
        """An event that is set while this broker is the maintenance leader."""
        return self._keeper.elected

    async def __aenter__(self) -> Self:
        notices = self._core.notices
        speak = (
            notices.run() if self._settings.wakeups.listen else notices.run_sending(self._core.pool)
        )
        self._tasks.start(speak, name="notices")
        self._tasks.start(self._safety.run(), name="safety poll")
        if self._settings.maintenance.enabled:
            self._tasks.start(self._keeper.run(), name="maintenance")
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Accept no new calls, finish the present ones, and close all tasks and connections.

        Consumers that wait for messages get none.
        """
        self._closed = True
        self._deadlines.close()
        try:
            async with asyncio.timeout(self._settings.shutdown.total_seconds()):
                for claims in list(self._claims.values()):
                    await claims.drain()
                await self._returns.join()
                await self._pushes.drain()
                await self.transactions.drain()
                await self._settlements.drain()
                await self._core.notices.drain(self._core.pool)
        except TimeoutError:
            logger.warning("the broker closed during the call")
        finally:
            self._pushes.abandon()
            self.transactions.abandon()
            self._settlements.abandon()
            try:
                await self._returns.close()
                await self._tasks.close()
            finally:
                # Close the connections when cancelled, too.
                await self._core.pool.close()

    async def ping(self) -> datetime:
        """Return the database's clock, as proof that the database answers."""
        async with self._core.pool.lend() as connection:
            return await read_clock(connection)

    async def accepts_writes(self) -> bool:
        """Return whether the database accepts writes; raise Unavailable if it does not answer."""
        async with self._core.pool.lend() as connection:
            return not await is_read_only(connection)

    def measure(self) -> Measurements:
        claims = list(self._claims.values())
        traffic = self._traffic
        return Measurements(
            *self._core.pool.usage,
            *self._pushes.waiting,
            claim_waiters=sum(pump.waiting for pump in claims),
            settle_messages=self._settlements.waiting,
            pushed=traffic.pushed,
            delivered=traffic.delivered,
            acked=traffic.acked,
            refused=traffic.refused,
            requeued=traffic.requeued,
            dead=traffic.dead,
            push_calls=self._pushes.calls,
            claim_calls=self._past_claim_calls + sum(pump.calls for pump in claims),
            settle_calls=self._settlements.calls,
        )

    async def push(
        self,
        queue: str,
        messages: Sequence[OutgoingMessage],
        *,
        guards: int | None = None,
        producers: Sequence[str | None] | None = None,
    ) -> list[Pushed]:
        """Return the place of each message after the commit; all are pushed, or none.

        producers: who enqueued each message, for the activity log. Raises QueueChanged if the queue's
        guards are not those given.
        """
        if not messages:
            return []

        async def push() -> list[Pushed]:
            found = self._core.catalog.peek(queue) or await self._core.catalog.find(queue)
            delayed = found.settings.delay is not None
            expected = None if guards is None else (guards,)
            load = PushLoad((found.queue_id,), messages, delayed, expected, producers)
            return await self._pushes.push(load)

        return await self._with_catalog((queue,), push)

    async def push_each(
        self,
        items: Sequence[tuple[str, OutgoingMessage]],
        *,
        guards: Sequence[int] | None = None,
        producers: Sequence[str | None] | None = None,
    ) -> list[Pushed]:
        """Push each message to the queue named with it; all are pushed, or none.

        guards: for each message's queue, as for `push`; producers: as for `push`.
        """
        if not items:
            return []
        names, messages = zip(*items, strict=True)

        async def push() -> list[Pushed]:
            queues, delayed = await self._find_queues(names)
            expected = None if guards is None else squeeze(guards)
            return await self._pushes.push(PushLoad(queues, messages, delayed, expected, producers))

        return await self._with_catalog(names, push)

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
        own_token: bool = False,
    ) -> list[Delivery]:
        """Return up to n messages by priority, then age; none if none was ready in time.

        The lease lasts for `lease`, else the message's own duration, else the queue's, from the
        time of delivery. If the caller is cancelled, its claim is released. Consumers of the same
        name may get messages under one token; with `own_token`, none shares this claim's token.
        """
        spans = await self.claim_spans(
            queue,
            n,
            group=group,
            wait=wait,
            lease=lease,
            consumer=consumer,
            partition=partition,
            priority=priority,
            own_token=own_token,
        )
        return list_deliveries(spans)

    async def claim_spans(
        self,
        queue: str,
        n: int,
        *,
        group: str = DEFAULT_GROUP,
        wait: timedelta = NO_WAIT,
        lease: timedelta | None = None,
        consumer: str | None = None,
        partition: str | None = None,
        priority: int | None = None,
        own_token: bool = False,
        fill: bool = False,
    ) -> list[ClaimedSpan]:
        """Claim messages as spans with columns, for callers that can use them.

        fill: in the default group of a FIFO queue, return spans of several partitions, each with a
        token of its own, in the order in which to deliver them.
        """
        if n < 1:
            raise InvalidRequest(f"cannot claim {n} messages: ask for one or more")

        async def claim() -> list[ClaimedSpan]:
            pump = await self._find_pump(queue, group)
            try:
                return await pump.claim(
                    n,
                    wait=wait,
                    lease=lease,
                    consumer=consumer,
                    wanted=Filter(partition, priority),
                    own_token=own_token,
                    fill=fill,
                )
            except GroupNotFound as error:
                self._close_pump(pump, error)
                # Raise an error that names what no longer exists.
                self._core.catalog.forget(queue)
                await self._core.catalog.find_group(queue, group)
                raise

        return await self._with_catalog((queue,), claim)

    async def ack(self, receipts: Sequence[Receipt]) -> list[int]:
        """Ack messages; return the positions of those whose lease was lost, which are unchanged."""
        return await self._settlements.ack(receipts) if receipts else []

    async def ack_spans(self, spans: Spans) -> list[LostSpan]:
        """Ack spans of messages; return the parts that were not acked."""
        return await self._settlements.ack_spans(spans)

    async def ack_whole(self, spans: Spans) -> None:
        """Ack all of these messages, or raise LeaseLost and ack none if a lease is lost."""
        await self._settlements.ack_whole(spans)

    async def nack(self, nacks: Sequence[Nack]) -> list[Outcome]:
        """Nack messages: the attempt counts."""
        return await self._settlements.nack(nacks) if nacks else []

    async def release(
        self, receipts: Sequence[Receipt], *, delay: timedelta | None = None
    ) -> list[int]:
        """Release messages without counting; return the positions of those whose lease was lost."""
        return await self._settlements.release(receipts, delay=delay) if receipts else []

    async def return_claims(self, receipts: Sequence[Receipt]) -> None:
        """Release what was claimed here and not delivered; log a failure instead of raising it.

        It goes on if the caller is cancelled.
        """
        self._traffic.delivered -= len(receipts)
        await asyncio.shield(self._start_release(receipts))

    async def extend(
        self, receipts: Sequence[Receipt], *, lease: timedelta
    ) -> list[datetime | None]:
        """Extend leases to `lease` from now; return the new expiry times, None for lost leases.

        A duration of zero ends them; a negative one is refused.
        """
        if lease < NO_WAIT:
            raise InvalidRequest(f"lease must not be negative: {lease.total_seconds():g} s")
        return await self._settlements.extend(receipts, lease=lease) if receipts else []

    async def extend_any(
        self, queue: str, message: MessageId, *, lease: timedelta, group: str = DEFAULT_GROUP
    ) -> datetime | None:
        """Extend the current lease of a message, whichever consumer has it; None without one."""
        (token,) = await self.messages.find_leases(queue, [message], group=group)
        if token is None:
            return None
        return (await self.extend([Receipt(token, message.lane, message.seq)], lease=lease))[0]

    def expect_expiry(self, lease: timedelta) -> None:
        """End leases that were just given promptly when they expire.

        Without this call they end in the next regular round, up to some seconds later.
        """
        self._deadlines.note(lease)

    async def transact(
        self, acks: Sequence[Receipt], pushes: Sequence[tuple[str, OutgoingMessage]]
    ) -> list[Pushed]:
        """Settle messages and push others, all or nothing; LeaseLost if a lease is lost."""
        self._require_open()
        spans = make_spans(acks)
        names = tuple(name for name, _ in pushes)
        columns = turn_messages([message for _, message in pushes])

        async def push() -> list[Pushed]:
            queues, delayed = await self._find_queues(names) if names else ((), False)
            async with self._core.pool.lend() as connection:
                rows = await retry_conflicts(
                    lambda: transact(connection, acks=spans, queues=queues, columns=columns)
                )
            self._lanes.settle(spans, lost=())
            self._traffic.count_acks(spans.messages)
            self._traffic.pushed += len(pushes)
            if queues:
                delayed = delayed or columns.delays is not None
                self._pushes.announce(queues, columns, delayed=delayed)
            return expand_places(rows)

        return await self._with_catalog(names, push)

    async def _with_catalog(self, names: Sequence[str], call: Callable[[], Awaitable[T]]) -> T:
        """Repeat the call if it failed because a cached queue or group was recreated."""
        self._require_open()
        try:
            return await call()
        except NotFound:
            known = [self._core.catalog.peek(name) for name in set(names)]
            if not any(known):
                raise
            for name in names:
                self._core.catalog.forget(name)
        return await call()

    async def _find_queues(self, names: Sequence[str]) -> tuple[Sequence[int], bool]:
        """Return the queues' ids, one id if all are equal, and whether one of them delays."""
        found = {name: await self._core.catalog.find(name) for name in set(names)}
        ids = [found[name].queue_id for name in names]
        delayed = any(queue.settings.delay is not None for queue in found.values())
        return squeeze(ids) or ids, delayed

    async def _find_pump(self, queue_name: str, group_name: str) -> ClaimPump:
        queue = self._core.catalog.peek(queue_name)
        group = queue.groups.get(group_name) if queue is not None else None
        if queue is None or group is None:
            queue, group = await self._core.catalog.find_group(queue_name, group_name)
            self._require_open()
        pump = self._claims.get(group.group_id)
        if pump is None:
            if group_name == DEFAULT_GROUP and queue.settings.default_group_optional:
                await self.subscriptions.note_own_group(queue_name)
                self._require_open()
            pump = self._claims.get(group.group_id) or self._open_pump(queue, group)
        return pump

    def _open_pump(self, queue: Queue, group: Group) -> ClaimPump:
        queue_id, ordered = queue.queue_id, queue.settings.ordered
        pump = (OrderedClaimPump if group.ordered else ClaimPump)(
            queue_id=queue_id,
            group_id=group.group_id,
            place=lambda partition: LanePlace(queue_id, partition, ordered),
            pool=self._core.pool,
            tasks=self._tasks,
            settings=self._settings.pumps,
            lanes=self._lanes,
            traffic=self._traffic,
            release=lambda spans: self._start_release(list_receipts(spans)),
            find_noisy=self.noisy.find,
        )
        self._claims[group.group_id] = pump
        self._core.wakeups.subscribe(queue_id, pump)
        return pump

    def _close_pump(self, pump: ClaimPump, error: LanewayError) -> None:
        if self._claims.pop(pump.group_id, None) is not None:
            self._past_claim_calls += pump.calls
            self._core.wakeups.unsubscribe(pump.queue_id, pump)
            pump.fail(error)
            pump.close()

    def _start_release(self, receipts: Sequence[Receipt]) -> asyncio.Task[None]:
        return self._returns.start(self._return(receipts), name="release")

    async def _return(self, receipts: Sequence[Receipt]) -> None:
        try:
            await self._settlements.release(receipts)
        except LanewayError as error:
            logger.warning(
                "cannot release %d messages: they return when their leases expire: %s",
                len(receipts),
                error,
            )

    async def _create_default_queue(self, default: DefaultQueue) -> None:
        async with self._core.pool.lend() as connection:
            # Another process may have been first.
            with suppress(QueueExists):
                await create_queue(connection, default.name, default.settings)
        self._core.announce_change()

    def _hear_wake(self, queue_id: int, delayed: bool) -> None:  # noqa: FBT001 - as Notices calls it
        self._core.wakeups.hear(queue_id, delayed=delayed)

    def _hear_transactions(self, ids: list[UUID]) -> None:
        self.transactions.hear(ids)

    def _hear_gap(self) -> None:
        self._core.wakeups.wake_all()
        self.transactions.hear_gap()

    def _require_open(self) -> None:
        if self._closed:
            raise BrokerClosed("the broker is closed")
