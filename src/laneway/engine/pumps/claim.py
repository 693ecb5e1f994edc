"""Batches the claims of one group; they wait in memory while nothing is ready."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict

from laneway.domain.errors import (
    BrokerClosed,
    InternalError,
    InvalidMessage,
    InvalidRequest,
    LanewayError,
    NotFound,
    Overloaded,
)
from laneway.domain.loops import fail
from laneway.engine.deliveries import count_messages, distribute
from laneway.engine.procedures.delivery import claim_spans, next_due
from laneway.engine.pumps.conflicts import retry_conflicts
from laneway.engine.pumps.line import Filter, Line, Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    import asyncpg

    from laneway.domain.messages import ClaimedSpan
    from laneway.domain.settings import PumpSettings
    from laneway.engine.lane_queues import LanePlace, Lanes
    from laneway.engine.measurements import Traffic
    from laneway.engine.pool import Pool
    from laneway.engine.procedures.call import Connection
    from laneway.engine.tasks import Tasks

logger = logging.getLogger(__name__)

# How long to wait before another look for a message that is due but was not claimed. Doubled each time.
FIRST_RETRY = timedelta(milliseconds=5)
LAST_RETRY = timedelta(seconds=1)

NO_WAIT = timedelta(0)


class BatchArguments(TypedDict):
    """What the waiters of a batch ask for, as arguments of a claim."""

    wants: list[int]
    leases: list[timedelta | None] | None
    consumers: list[str | None] | None


class ClaimPump:
    """Claims messages of one group for its waiting consumers.

    A waiter costs no SQL while it waits: `wake` wakes it, or a timer when a parked message comes
    due. `release` is called with messages that were claimed for a waiter that is gone. `find_noisy`
    names the partitions of the group that yield to others.
    """

    def __init__(
        self,
        *,
        queue_id: int,
        group_id: int,
        place: Callable[[str], LanePlace],
        pool: Pool,
        tasks: Tasks,
        settings: PumpSettings,
        lanes: Lanes,
        traffic: Traffic,
        release: Callable[[Sequence[ClaimedSpan]], object],
        find_noisy: Callable[[int], Sequence[str] | None],
    ) -> None:
        self.queue_id = queue_id
        self.group_id = group_id
        self._place = place
        self._pool = pool
        self._tasks = tasks
        self._settings = settings
        self._lanes = lanes
        self._traffic = traffic
        self._release = release
        self._find_noisy = find_noisy
        self._lines: dict[Filter, Line] = {}
        self._lines_by_partition: dict[str | None, list[Line]] = {}
        self._awake: dict[Line, None] = {}
        self._waiting = 0
        self._running_calls = 0
        self._most_calls = settings.concurrent_calls
        self._due_known = False
        self._due_timer: asyncio.TimerHandle | None = None
        self._retry = FIRST_RETRY
        # Messages per waiter, after some were too large for one result.
        self._most_messages: int | None = None
        self._closed = False
        self._drained = asyncio.Event()
        self.calls = 0

    @property
    def waiting(self) -> int:
        """Number of consumers that wait for messages."""
        return self._waiting

    @property
    def has_sleepers(self) -> bool:
        """Whether any consumer waits for messages."""
        return self._waiting > 0

    async def claim(
        self,
        want: int,
        *,
        wait: timedelta = NO_WAIT,
        lease: timedelta | None = None,
        consumer: str | None = None,
        wanted: Filter = Filter(),  # noqa: B008 - a tuple, never changed
        own_token: bool = False,
        fill: bool = False,
    ) -> list[ClaimedSpan]:
        """Return up to `want` messages, or none if none became ready within `wait`.

        If the caller is cancelled, its messages are released.
        """
        self._require_room()
        waiter = Waiter(want, lease, consumer, last=wait <= NO_WAIT, own_token=own_token, fill=fill)
        line = self._lines.get(wanted) or self._open_line(wanted)
        line.join(waiter)
        self._awake[line] = None
        self._waiting += 1
        timer = None
        if not waiter.last:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(wait.total_seconds(), self._time_out, line, waiter)
        try:
            self._start_call()
            spans = await waiter.answer
        except asyncio.CancelledError:
            self._release_answer(waiter)
            raise
        finally:
            self._waiting -= 1
            if timer is not None:
                timer.cancel()
            line.leave(waiter)
            self._drop_if_empty(line)
        self._traffic.delivered += count_messages(spans)
        return spans

    def wake(
        self,
        *,
        partitions: Collection[str] | None = None,
        delayed: bool = False,
        plain: bool = False,  # noqa: ARG002 - shared groups need no distinction
    ) -> None:
        """Wake waiters, as `Sleeper.wake`."""
        if delayed:
            self._due_known = False
        if partitions is None:
            for line in self._lines.values():
                self._wake_line(line)
        else:
            for partition in (None, *partitions):
                for line in self._lines_by_partition.get(partition, ()):
                    self._wake_line(line)
        self._start_call()

    def fail(self, error: LanewayError) -> None:
        """Fail all waiters, each with its own copy of the error."""
        for line in self._lines.values():
            _refuse(line, error)

    def close(self) -> None:
        """Return no messages to all waiters; release what a running call claims for them."""
        self._closed = True
        self._cancel_timer()
        for line in self._lines.values():
            for waiter in line:
                if not waiter.answer.done():
                    waiter.answer.set_result([])

    async def drain(self) -> None:
        """Close, and return when no call is running."""
        self.close()
        if self._running_calls:
            await self._drained.wait()

    def _require_room(self) -> None:
        if self._closed:
            raise BrokerClosed("the broker is closed, or the group was deleted")
        if self._waiting >= self._settings.waiting_messages:
            raise Overloaded(
                f"too many consumers wait for messages of this group ({self._waiting}): retry later",
                retry_after=self._settings.retry_after,
            )

    def _time_out(self, line: Line, waiter: Waiter) -> None:
        waiter.last = True
        if line.has(waiter) and not waiter.answer.done():
            waiter.answer.set_result([])

    def _release_answer(self, waiter: Waiter) -> None:
        """Release the messages of a caller that was cancelled before it received them."""
        answer = waiter.answer
        if answer.done() and not answer.cancelled() and answer.exception() is None:
            spans = answer.result()
            if spans:
                self._release(spans)

    def _start_call(self) -> None:
        if self._running_calls < self._most_calls and self._find_line() is not None:
            self._running_calls += 1
            self._tasks.start(self._run(), name="claim")

    def _open_line(self, wanted: Filter) -> Line:
        line = self._lines[wanted] = self._make_line(wanted)
        self._lines_by_partition.setdefault(wanted.partition, []).append(line)
        return line

    def _make_line(self, wanted: Filter) -> Line:
        return Line(wanted)

    def _wake_line(self, line: Line) -> None:
        line.wake()
        self._mark_awake(line)

    def _mark_awake(self, line: Line) -> None:
        if line.has_eligible:
            self._awake[line] = None

    def _find_line(self) -> Line | None:
        """Return the line that has been awake longest and has eligible waiters, or None.

        A line has one call at a time, because two calls would wait for each other's locks on the
        same lanes. Waiters that arrive during a call are part of the next one.
        """
        found = None
        idle = []
        for line in self._awake:
            if not line.has_eligible:
                idle.append(line)
            elif not line.in_call:
                found = line
                break
        for line in idle:
            del self._awake[line]
        return found

    async def _run(self) -> None:
        try:
            while self._find_line() is not None:
                async with self._pool.lend("claim") as connection:
                    # Choose the batch only now: more waiters may have arrived.
                    line = self._find_line()
                    if line is not None:
                        await self._run_call(connection, line)
        except LanewayError as error:
            self.fail(error)
        finally:
            self._running_calls -= 1
            if not self._running_calls and self._closed:
                self._drained.set()

    async def _run_call(self, connection: Connection, line: Line) -> None:
        del self._awake[line]
        batch = line.next_batch(messages=self._settings.flush_messages)
        if line.awake:
            self._awake[line] = None
        try:
            if batch:
                await self._claim_batch(connection, line, batch)
        except asyncio.CancelledError:
            _refuse(batch, BrokerClosed("the broker closed during the claim"))
            raise
        except Exception as error:
            logger.exception("the claim failed")
            _refuse(batch, InternalError(f"the claim failed: {error!r}"))
        finally:
            line.in_call -= len(batch)
            self._drop_if_empty(line)

    async def _claim_batch(
        self, connection: Connection, line: Line, batch: Sequence[Waiter]
    ) -> None:
        wakes = line.wakes
        if self._most_messages is not None:
            self._limit(batch)
        try:
            rows = await self._call(connection, line.filter, batch)
            left = self._answer_waiters(batch, rows)
            line.finish_call(left, exhausted=bool(left) or not rows, wakes=wakes)
            if line.awake:
                # Messages or waiters arrived during the call.
                self._awake[line] = None
            if rows:
                self._retry = FIRST_RETRY
            if left and not self._due_known:
                await self._watch_due(connection)
        except InvalidRequest as error:
            if len(batch) == 1 and batch[0].want > 1 and isinstance(error, InvalidMessage):
                # Its messages are too large for one result.
                self._most_messages = max(batch[0].want // 4, 1)
                await self._claim_batch(connection, line, batch)
                return
            if len(batch) == 1 or isinstance(error, NotFound):
                _refuse(batch, error)
                return
            # One request is invalid: call once for each, so that only that one fails.
            for waiter in batch:
                await self._claim_batch(connection, line, [waiter])
        except LanewayError as error:
            _refuse(batch, error)

    def _limit(self, batch: Sequence[Waiter]) -> None:
        """Have each waiter want fewer messages; the next call may have a quarter more."""
        most = self._most_messages or 1
        for waiter in batch:
            waiter.want = min(waiter.want, most)
        more = most + max(most // 4, 1)
        self._most_messages = more if more < self._settings.flush_messages else None

    async def _call(
        self, connection: Connection, wanted: Filter, batch: Sequence[Waiter]
    ) -> list[asyncpg.Record]:
        named = batch_arguments(batch)

        async def call() -> list[asyncpg.Record]:
            self.calls += 1
            return await claim_spans(
                connection,
                group_id=self.group_id,
                partition=wanted.partition,
                priority=wanted.priority,
                shared=not any(waiter.own_token for waiter in batch),
                avoid=self._find_noisy(self.group_id) if wanted.partition is None else None,
                **named,
            )

        return await retry_conflicts(call)

    def _answer_waiters(
        self, batch: Sequence[Waiter], rows: Sequence[asyncpg.Record]
    ) -> list[Waiter]:
        """Give the waiters their messages; return the waiters that got none and still wait.

        A waiter that may not wait is tried once more if others got messages, because lanes that
        another call had locked may have more.
        """
        parts = self._distribute(rows, [waiter.want for waiter in batch])
        for row in rows:
            self._lanes.learn(row["lane_id"], self._place(row["partition"]))
        left = []
        for waiter, spans in zip(batch, parts, strict=True):
            if waiter.answer.done():
                if spans:
                    self._release(spans)
            elif spans or self._closed or (waiter.last and not rows):
                waiter.answer.set_result(spans)
            else:
                left.append(waiter)
        return left

    def _distribute(
        self, rows: Sequence[asyncpg.Record], wants: Sequence[int]
    ) -> list[list[ClaimedSpan]]:
        return distribute(rows, wants)

    async def _watch_due(self, connection: Connection) -> None:
        """Set a timer for when the next parked message comes due."""
        self._due_known = True
        self._cancel_timer()
        due = await next_due(connection, self.group_id)
        if due is None or self._closed:
            return
        if due < FIRST_RETRY:
            # It is due but was not claimed: another consumer may have it, or no filter matches it.
            due = self._retry
            self._retry = min(self._retry * 2, LAST_RETRY)
        loop = asyncio.get_running_loop()
        self._due_timer = loop.call_later(due.total_seconds(), self._wake_due)

    def _wake_due(self) -> None:
        self._due_timer = None
        self.wake(delayed=True)

    def _cancel_timer(self) -> None:
        if self._due_timer is not None:
            self._due_timer.cancel()
            self._due_timer = None

    def _drop_if_empty(self, line: Line) -> None:
        if not line.is_empty or self._lines.get(line.filter) is not line:
            return
        del self._lines[line.filter]
        siblings = self._lines_by_partition[line.filter.partition]
        siblings.remove(line)
        if not siblings:
            del self._lines_by_partition[line.filter.partition]


def batch_arguments(batch: Sequence[Waiter]) -> BatchArguments:
    leases = [waiter.lease for waiter in batch]
    consumers = [waiter.consumer for waiter in batch]
    return {
        "wants": [waiter.want for waiter in batch],
        "leases": leases if any(leases) else None,
        "consumers": consumers if any(consumers) else None,
    }


def _refuse(waiters: Iterable[Waiter], error: LanewayError) -> None:
    for waiter in waiters:
        if not waiter.answer.done():
            fail(waiter.answer, error.copy())
