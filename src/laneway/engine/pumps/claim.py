"""Claims of one group ride together, and wait in memory while there is nothing to claim."""

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
from laneway.engine.deliveries import count_messages, deal
from laneway.engine.procedures.delivery import claim_spans, next_due
from laneway.engine.pumps.conflicts import persist
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

# How soon to look again for what is due but did not come, doubled while it does not.
FIRST_RETRY = timedelta(milliseconds=5)
LAST_RETRY = timedelta(seconds=1)

NO_WAIT = timedelta(0)


class Wishes(TypedDict):
    """What those who ride together ask for, as a claim takes it."""

    wants: list[int]
    leases: list[timedelta | None] | None
    consumers: list[str | None] | None


class ClaimPump:
    """Hands out the messages of one group.

    A waiter costs no SQL while it waits: it is woken by `wake`, or when what is set aside for later
    comes due. What was claimed for a waiter that has gone is given back with `give_back`.
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
        give_back: Callable[[Sequence[ClaimedSpan]], object],
    ) -> None:
        self.queue_id = queue_id
        self.group_id = group_id
        self._place = place
        self._pool = pool
        self._tasks = tasks
        self._settings = settings
        self._lanes = lanes
        self._traffic = traffic
        self._give_back = give_back
        self._lines: dict[Filter, Line] = {}
        self._lines_by_partition: dict[str | None, list[Line]] = {}
        self._awake: dict[Line, None] = {}
        self._waiting = 0
        self._flights = 0
        self._most_flights = settings.flights
        self._due_known = False
        self._due_timer: asyncio.TimerHandle | None = None
        self._retry = FIRST_RETRY
        self._closed = False
        self._landed = asyncio.Event()
        self.calls = 0

    @property
    def waiting(self) -> int:
        """How many consumers wait for messages."""
        return self._waiting

    @property
    def has_sleepers(self) -> bool:
        """Whether somebody waits for messages that did not come yet."""
        return self._waiting > 0

    async def claim(
        self,
        want: int,
        *,
        wait: timedelta = NO_WAIT,
        lease: timedelta | None = None,
        consumer: str | None = None,
        wanted: Filter = Filter(),  # noqa: B008 - a tuple, never changed
        apart: bool = False,
    ) -> list[ClaimedSpan]:
        """Return up to `want` messages, or none when nothing came within `wait`.

        A caller that is cancelled gives back what was claimed for it.
        """
        self._require_room()
        waiter = Waiter(want, lease, consumer, last=wait <= NO_WAIT, apart=apart)
        line = self._lines.get(wanted) or self._open_line(wanted)
        line.join(waiter)
        self._awake[line] = None
        self._waiting += 1
        timer = None
        if not waiter.last:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(wait.total_seconds(), self._time_out, line, waiter)
        try:
            self._launch()
            spans = await waiter.answer
        except asyncio.CancelledError:
            self._undo(waiter)
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
        plain: bool = False,  # noqa: ARG002 - it is all the same to competing consumers
    ) -> None:
        if delayed:
            self._due_known = False
        if partitions is None:
            for line in self._lines.values():
                self._rouse(line)
        else:
            for partition in (None, *partitions):
                for line in self._lines_by_partition.get(partition, ()):
                    self._rouse(line)
        self._launch()

    def fail(self, error: LanewayError) -> None:
        """Answer all who wait with an error, each with its own."""
        for line in self._lines.values():
            _refuse(line, error)

    def close(self) -> None:
        """Answer those who wait with nothing; what is being claimed for them goes back."""
        self._closed = True
        self._cancel_timer()
        for line in self._lines.values():
            for waiter in line:
                if not waiter.answer.done():
                    waiter.answer.set_result([])

    async def drain(self) -> None:
        """Close, and return once no call is under way."""
        self.close()
        if self._flights:
            await self._landed.wait()

    def _require_room(self) -> None:
        if self._closed:
            raise BrokerClosed("the broker is closed, or the group was deleted")
        if self._waiting >= self._settings.waiting_messages:
            raise Overloaded(
                f"{self._waiting} consumers wait for messages of this group already",
                retry_after=self._settings.retry_after,
            )

    def _time_out(self, line: Line, waiter: Waiter) -> None:
        waiter.last = True
        if line.holds(waiter) and not waiter.answer.done():
            waiter.answer.set_result([])

    def _undo(self, waiter: Waiter) -> None:
        """Give back what a caller was answered that was cancelled before it could take it."""
        answer = waiter.answer
        if answer.done() and not answer.cancelled() and answer.exception() is None:
            handouts = answer.result()
            if handouts:
                self._give_back(handouts)

    def _launch(self) -> None:
        if self._flights < self._most_flights and self._find_line() is not None:
            self._flights += 1
            self._tasks.start(self._fly(), name="claim")

    def _open_line(self, wanted: Filter) -> Line:
        line = self._lines[wanted] = self._make_line(wanted)
        self._lines_by_partition.setdefault(wanted.partition, []).append(line)
        return line

    def _make_line(self, wanted: Filter) -> Line:
        return Line(wanted)

    def _rouse(self, line: Line) -> None:
        line.wake()
        self._note(line)

    def _note(self, line: Line) -> None:
        if line.has_askers:
            self._awake[line] = None

    def _find_line(self) -> Line | None:
        """Return the line that has been awake the longest and has somebody who may ask now.

        Nobody asks beside a call of its line: they would hold each other up in the same lanes, so
        who comes meanwhile rides in the next.
        """
        found = None
        idle = []
        for line in self._awake:
            if not line.has_askers:
                idle.append(line)
            elif not line.riding:
                found = line
                break
        for line in idle:
            del self._awake[line]
        return found

    async def _fly(self) -> None:
        try:
            while self._find_line() is not None:
                async with self._pool.lend("claim") as connection:
                    # Not before: until now, more may have gathered.
                    line = self._find_line()
                    if line is not None:
                        await self._serve(connection, line)
        except LanewayError as error:
            self.fail(error)
        finally:
            self._flights -= 1
            if not self._flights and self._closed:
                self._landed.set()

    async def _serve(self, connection: Connection, line: Line) -> None:
        del self._awake[line]
        riders = line.board(messages=self._settings.flush_messages)
        if line.awake:
            self._awake[line] = None
        try:
            if riders:
                await self._serve_riders(connection, line, riders)
        except asyncio.CancelledError:
            _refuse(riders, BrokerClosed("the broker closed during the claim"))
            raise
        except Exception as error:
            logger.exception("the claim failed")
            _refuse(riders, InternalError(f"the claim failed: {error!r}"))
        finally:
            line.riding -= len(riders)
            self._drop_if_empty(line)

    async def _serve_riders(
        self, connection: Connection, line: Line, riders: Sequence[Waiter]
    ) -> None:
        wakes = line.wakes
        try:
            rows = await self._call(connection, line.filter, riders)
            left = self._deal(riders, rows)
            line.settle(left, dry=bool(left) or not rows, wakes=wakes)
            if line.awake:
                # Something or somebody came while the call was under way.
                self._awake[line] = None
            if rows:
                self._retry = FIRST_RETRY
            if left and not self._due_known:
                await self._watch_due(connection)
        except InvalidRequest as error:
            if len(riders) == 1 and riders[0].want > 1 and isinstance(error, InvalidMessage):
                # Together its messages are more than one answer can hold.
                riders[0].want //= 2
                await self._serve_riders(connection, line, riders)
                return
            if len(riders) == 1 or isinstance(error, NotFound):
                _refuse(riders, error)
                return
            # One of them asks for what cannot be: each on its own harms only itself.
            for rider in riders:
                await self._serve_riders(connection, line, [rider])
        except LanewayError as error:
            _refuse(riders, error)

    async def _call(
        self, connection: Connection, wanted: Filter, riders: Sequence[Waiter]
    ) -> list[asyncpg.Record]:
        named = gather(riders)

        async def call() -> list[asyncpg.Record]:
            self.calls += 1
            return await claim_spans(
                connection,
                group_id=self.group_id,
                partition=wanted.partition,
                priority=wanted.priority,
                shared=not any(rider.apart for rider in riders),
                **named,
            )

        return await persist(call)

    def _deal(self, riders: Sequence[Waiter], rows: Sequence[asyncpg.Record]) -> list[Waiter]:
        """Answer the riders and return those who got nothing and go on waiting.

        Where others got something, that may be all that nobody else was just reading: so who
        cannot wait asks once more.
        """
        dealt = self._share_out(rows, [rider.want for rider in riders])
        for row in rows:
            self._lanes.learn(row["lane_id"], self._place(row["partition"]))
        left = []
        for rider, handouts in zip(riders, dealt, strict=True):
            if rider.answer.done():
                if handouts:
                    self._give_back(handouts)
            elif handouts or self._closed or (rider.last and not rows):
                rider.answer.set_result(handouts)
            else:
                left.append(rider)
        return left

    def _share_out(
        self, rows: Sequence[asyncpg.Record], wants: Sequence[int]
    ) -> list[list[ClaimedSpan]]:
        return deal(rows, wants)

    async def _watch_due(self, connection: Connection) -> None:
        """Wake up when something that is set aside for later comes due."""
        self._due_known = True
        self._cancel_timer()
        due = await next_due(connection, self.group_id)
        if due is None or self._closed:
            return
        if due < FIRST_RETRY:
            # Due, but not for those who wait, or not yet: another may hold it, or filters pass by it.
            due = self._retry
            self._retry = min(self._retry * 2, LAST_RETRY)
        loop = asyncio.get_running_loop()
        self._due_timer = loop.call_later(due.total_seconds(), self._come_due)

    def _come_due(self) -> None:
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


def gather(riders: Sequence[Waiter]) -> Wishes:
    leases = [rider.lease for rider in riders]
    consumers = [rider.consumer for rider in riders]
    return {
        "wants": [rider.want for rider in riders],
        "leases": leases if any(leases) else None,
        "consumers": consumers if any(consumers) else None,
    }


def _refuse(waiters: Iterable[Waiter], error: LanewayError) -> None:
    for waiter in waiters:
        if not waiter.answer.done():
            waiter.answer.set_exception(error.copy())
