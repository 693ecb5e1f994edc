"""Producers, consumers, maintenance and a killer of connections, and a record of what each saw."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import asyncpg

from tests.sql import calls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from tests.sql.calls import Delivery, Queue, Session

T = TypeVar("T")
Address: TypeAlias = tuple[int, int]  # lane, seq

LEASE = timedelta(milliseconds=400)
PARTITIONS = ("a", "b", "c", "d", "e", "f")
PRIORITIES = (0, 5)
# The driver's ways to say that the connection is gone; the internal error when it goes while idle.
LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    OSError,
)


@dataclass(slots=True)
class Hold:
    """What a holder of a lane knows of its time, on the database's clock."""

    since: datetime
    until: datetime


@dataclass(slots=True)
class Log:
    """What producers and consumers know for certain, and what a lost connection left open."""

    pushed: set[int] = field(default_factory=set)
    perhaps_pushed: set[int] = field(default_factory=set)
    places: defaultdict[int, set[Address]] = field(default_factory=lambda: defaultdict(set))
    attempts: Counter[Address] = field(default_factory=Counter)
    acked: dict[Address, int] = field(default_factory=dict)
    perhaps_acked: set[Address] = field(default_factory=set)
    duplicates: int = 0
    kills: int = 0
    lost: int = 0


class Run:
    """One queue under load until all that was pushed is settled."""

    def __init__(self, dsn: str, queue: Queue, *, ordered: bool, messages: int) -> None:
        self.dsn = dsn
        self.queue = queue
        self.ordered = ordered
        self.messages = messages
        self.log = Log()
        self.holds: dict[int, Hold] = {}
        self.sessions: dict[str, Session] = {}
        self.numbers = itertools.count()
        self.produced = asyncio.Event()
        self.done = asyncio.Event()

    async def go(self, *, producers: int, consumers: int, kills: int) -> Log:
        async with asyncio.timeout(100), asyncio.TaskGroup() as tasks:
            work = [
                tasks.create_task(self._keep(f"producer {n}", self._produce))
                for n in range(producers)
            ]
            for n in range(consumers):
                tasks.create_task(self._keep(f"consumer {n}", self._consume))
            tasks.create_task(self._maintain())
            tasks.create_task(self._kill(kills))
            await asyncio.gather(*work)
            self.produced.set()
        return self.log

    async def _keep(self, name: str, work: Callable[[Session, Random], Awaitable[bool]]) -> None:
        """Repeat a worker's step until it says that it is done, over as many connections as need be."""
        random = Random(name)  # noqa: S311 - which message fails is no secret
        while True:
            try:
                session = await asyncpg.connect(self.dsn)
                self.sessions[name] = session
                try:
                    while await work(session, random):
                        pass
                finally:
                    del self.sessions[name]
                    await session.close(timeout=10)
            except LOST:
                self.log.kills += 1
            else:
                return

    async def _produce(self, session: Session, random: Random) -> bool:
        numbers = list(itertools.islice(self.numbers, random.choice((1, 1, 5, 20))))
        numbers = [each for each in numbers if each < self.messages]
        if not numbers:
            return False
        if random.random() < 0.3:
            self.log.perhaps_pushed.update(numbers)
            await self._push(session, random, numbers, keyed=False)
        else:
            await self._push_surely(session, random, numbers)
        self.log.perhaps_pushed.difference_update(numbers)
        self.log.pushed.update(numbers)
        return True

    async def _push_surely(self, session: Session, random: Random, numbers: list[int]) -> None:
        """Push what has keys until it is known to be there, whatever becomes of the connection."""
        try:
            await self._push(session, random, numbers, keyed=True)
        except LOST:
            while True:
                try:
                    again = await asyncpg.connect(self.dsn)
                    try:
                        await self._push(again, random, numbers, keyed=True)
                    finally:
                        await again.close(timeout=10)
                except LOST:
                    continue
                break
            self.log.pushed.update(numbers)
            raise

    async def _push(
        self, session: Session, random: Random, numbers: Sequence[int], *, keyed: bool
    ) -> None:
        sent = list(numbers)
        if keyed and self.log.pushed and random.random() < 0.3:
            sent.append(numbers[0])
        spread = random.random() < 0.5

        def pick(values: Sequence[T]) -> list[T]:
            return [random.choice(values) for _ in sent] if spread else [random.choice(values)]

        async with session.transaction():
            places = await calls.push(
                session,
                self.queue,
                [str(each) for each in sent],
                partitions=pick(PARTITIONS),
                priorities=None if self.ordered else pick(PRIORITIES),
                keys=[f"message {each}" for each in sent] if keyed else None,
            )
            if random.random() < 0.2:
                await asyncio.sleep(random.random() * 0.02)
        self.log.duplicates += sum(each.duplicate for each in places)
        assert len({(each.lane_id, each.seq) for each in places}) == len(numbers)

    async def _consume(self, session: Session, random: Random) -> bool:
        if self.done.is_set():
            return False
        got = await again(
            lambda: calls.claim(session, self.queue, random.choice((1, 3, 10)), leases=[LEASE])
        )
        if not got:
            await asyncio.sleep(0.005)
            return True
        for each in got:
            self._note_delivery(each)
        if self.ordered:
            await self._note_holder(session, got)
            await self._work_in_order(session, random, got)
        else:
            await self._work(session, random, got)
        return True

    async def _work(self, session: Session, random: Random, got: list[Delivery]) -> None:
        random.shuffle(got)
        if random.random() < 0.05:
            return  # abandoned
        if random.random() < 0.2:
            await again(lambda: calls.extend(session, got[:1], LEASE))
        failed = [each for each in got if random.random() < 0.1]
        fine = [each for each in got if each not in failed]
        cut = random.randint(0, len(fine))
        await self._ack(session, fine[:cut])
        await again(lambda: calls.nack(session, failed, reason="failed"))
        await self._ack(session, fine[cut:])

    async def _work_in_order(self, session: Session, random: Random, got: list[Delivery]) -> None:
        lane = got[0].lane_id
        if random.random() < 0.05:
            return
        if random.random() < 0.2:
            whole = random.random() < 0.5
            [until] = await again(lambda: calls.extend(session, got[:1], LEASE, whole=whole))
            # What is held longer than the rest holds the lane only until it is settled.
            if whole and until is not None and lane in self.holds:
                self.holds[lane].until = max(until, self.holds[lane].until)
        failed = random.choice(got) if random.random() < 0.3 else None
        before = [each for each in got if failed is not None and each.seq < failed.seq]
        rest = [each for each in got if failed is None or each.seq > failed.seq]
        random.shuffle(before)
        random.shuffle(rest)
        for each in before:
            await self._ack(session, [each])
        await self._ack(session, rest[:-1])
        # The last of these calls lets go of the lane.
        self.holds.pop(lane, None)
        if failed is not None:
            await again(lambda: calls.nack(session, [failed], reason="failed"))
        await self._ack(session, rest[-1:])

    async def _ack(self, session: Session, deliveries: Sequence[Delivery]) -> None:
        addresses = [(each.lane_id, each.seq) for each in deliveries]
        self.log.perhaps_acked.update(addresses)
        missed = await again(lambda: calls.ack(session, deliveries))
        self.log.lost += len(missed)
        for at, (each, address) in enumerate(zip(deliveries, addresses, strict=True)):
            if at not in missed:
                assert address not in self.log.acked, f"{address} was acked twice"
                self.log.acked[address] = each.attempt

    def _note_delivery(self, each: Delivery) -> None:
        address = each.lane_id, each.seq
        self.log.places[int(each.body)].add(address)
        self.log.attempts[address] = max(self.log.attempts[address], each.attempt)

    async def _note_holder(self, session: Session, got: Sequence[Delivery]) -> None:
        lane = got[0].lane_id
        seqs = [each.seq for each in got]
        assert {each.lane_id for each in got} == {lane}
        assert seqs == sorted(set(seqs))
        mine = Hold(got[0].until - LEASE, got[0].until)
        other = self.holds.get(lane)
        if other is not None:
            apart = other.until <= mine.since or mine.until <= other.since
            assert apart, f"lane {lane} has two holders: {other} and {mine}"
        if other is None or other.since < mine.since:
            self.holds[lane] = mine
        skipped = [
            seq
            for seq in range(1, seqs[-1])
            if seq not in seqs and (lane, seq) not in self.log.perhaps_acked
        ]
        if skipped:
            dead = await session.fetch(
                "select seq from laneway.dead_letter where lane_id = $1 and seq = any ($2)",
                lane,
                skipped,
            )
            assert sorted(skipped) == sorted(row["seq"] for row in dead), f"stepped over {skipped}"

    async def _maintain(self) -> None:
        session = await asyncpg.connect(self.dsn)
        try:
            for turn in itertools.count():
                await calls.expire(session)
                if turn % 10 == 0:
                    await calls.rotate(session)
                    await calls.retain(session)
                if turn % 5 == 0:
                    await calls.sweep_idle(session)
                if self.produced.is_set():
                    left = await calls.count_by_subtraction(session, self.queue)
                    if left.queued + left.processing == 0:
                        self.done.set()
                        return
                await asyncio.sleep(0.02)
        finally:
            await session.close(timeout=10)

    async def _kill(self, kills: int) -> None:
        random = Random("killer")  # noqa: S311 - see _keep
        session = await asyncpg.connect(self.dsn)
        try:
            while kills and not self.done.is_set():
                await asyncio.sleep(0.05)
                if self.sessions:
                    victim = random.choice(list(self.sessions.values()))
                    if not victim.is_closed():
                        pid = victim.get_server_pid()
                        await session.execute("select pg_terminate_backend($1)", pid)
                        kills -= 1
        finally:
            await session.close(timeout=10)


async def again(call: Callable[[], Awaitable[T]]) -> T:
    """Call until nobody else is in the way."""
    while True:
        try:
            return await call()
        except asyncpg.PostgresError as error:
            if error.sqlstate != "LW503":
                raise
