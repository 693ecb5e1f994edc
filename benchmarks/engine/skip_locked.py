"""Compares the usual queue table (status column, SKIP LOCKED, delete) with a queue of the broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.cpu import BackendClock
from benchmarks.engine.bodies import make_bodies
from benchmarks.engine.horizon import QueueLoad, run_pinned
from benchmarks.engine.queues import Queue, WrongCount
from benchmarks.engine.rounds import interleave, measure
from benchmarks.results import MICROSECONDS, Figure, Row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.engine.rounds import Comparison, Cost
    from benchmarks.engine.site import Connection, Database, Site

_BATCH = 100

_TABLE = """
create table usual (
  id bigint generated always as identity primary key,
  status text not null default 'queued',
  claimed_at timestamptz,
  created_at timestamptz not null default now(),
  body json not null
);
create index usual_queued on usual (id) where status = 'queued';
"""

_PUSH = "insert into usual (body) select e from json_array_elements($1::json) e"

# Not `id in (select …)`. Analyzed while the table is drained, PostgreSQL plans that as a join that runs the inner
# select again for every row, and the comparison would measure that plan.
_CLAIM = """
update usual set status = 'claimed', claimed_at = now()
where id = any (array(
  select id from usual where status = 'queued' order by id for update skip locked limit $1
)) returning id, body
"""

_ACK = "delete from usual where id = any ($1)"


async def measure_skip_locked(site: Site) -> list[Row]:
    return [*await _measure_batches(site), await _measure_pinned(site)]


@dataclass(frozen=True, slots=True)
class UsualTable:
    """The usual queue table, with one connection that pushes and one that consumes."""

    pusher: Connection
    consumer: Connection

    @classmethod
    async def create(cls, database: Database) -> UsualTable:
        pusher = await database.connect()
        await pusher.execute(_TABLE)
        return cls(pusher, await database.connect())

    @property
    def pids(self) -> Mapping[str, int]:
        return {"push": self.pusher.get_server_pid(), "consume": self.consumer.get_server_pid()}

    async def push(self, count: int) -> None:
        await self.pusher.execute(_PUSH, f"[{','.join(make_bodies(count))}]")

    async def consume(self, waiters: int) -> int:
        rows = await self.consumer.fetch(_CLAIM, waiters)
        if rows:
            await self.consumer.execute(_ACK, [row["id"] for row in rows])
        return len(rows)

    async def maintain(self) -> None:
        """Do nothing: autovacuum runs by itself."""


async def _measure_batches(site: Site) -> list[Row]:
    calls, rounds = site.scale.calls, site.scale.rounds
    async with site.open_database() as database:
        usual = await UsualTable.create(database)
        queue = await Queue.create(await database.connect(), "beside")
        pushing = BackendClock([usual.pusher.get_server_pid()])
        consuming = BackendClock([usual.consumer.get_server_pid()])
        ours = BackendClock([queue.connection.get_server_pid()])

        async def push_usual() -> Cost:
            return await measure(pushing, lambda: usual.push(_BATCH), calls=calls, messages=_BATCH)

        async def push_ours() -> Cost:
            return await measure(
                ours, lambda: queue.push(make_bodies(_BATCH)), calls=calls, messages=_BATCH
            )

        async def consume_batch() -> None:
            if await usual.consume(_BATCH) != _BATCH:
                raise WrongCount("the usual table did not return all messages that were pushed")

        async def consume_usual() -> Cost:
            for _ in range(calls):
                await usual.push(_BATCH)
            return await measure(consuming, consume_batch, calls=calls, messages=_BATCH)

        async def consume_ours() -> Cost:
            for _ in range(calls):
                await queue.push(make_bodies(_BATCH))
            return await measure(
                ours, lambda: queue.claim_and_ack_all([_BATCH]), calls=calls, messages=_BATCH
            )

        consumed = await interleave(
            consume_usual, consume_ours, rounds=rounds, progress=site.progress
        )
        pushed = await interleave(push_usual, push_ours, rounds=rounds, progress=site.progress)
    return [
        _make_row("skip-locked-push-100", pushed),
        _make_row("skip-locked-claim-ack-100", consumed),
    ]


async def _measure_pinned(site: Site) -> Row:
    """Run both one after the other, because the usual table can use a whole processor."""
    pin_time = site.scale.pin_beside_time
    async with site.open_database() as database:
        ours = await run_pinned(site, database, await QueueLoad.create(database), pin_time)
    async with site.open_database() as database:
        usual = await run_pinned(site, database, await UsualTable.create(database), pin_time)
    return Row(
        name="skip-locked-pinned",
        ours=Figure(ours.last.cost, MICROSECONDS, ""),
        beside=Figure(usual.last.cost, MICROSECONDS, "skip locked"),
        ratio=ours.last.cost / usual.last.cost,
        rounds=1,
        details={
            "pinned, s": pin_time.total_seconds(),
            "last to first window, ours": ours.ratio,
            "skip locked": usual.ratio,
            "messages/s, ours": ours.last.rate,
            "skip locked messages/s": usual.last.rate,
            "greatest backlog, ours": float(ours.backlog),
            "skip locked backlog": float(usual.backlog),
        },
        series=[
            *({"ours": 1.0, **entry} for entry in ours.tabulate()),
            *({"ours": 0.0, **entry} for entry in usual.tabulate()),
        ],
    )


def _make_row(name: str, found: Comparison) -> Row:
    return Row(
        name=name,
        ours=Figure(found.ours, MICROSECONDS, ""),
        beside=Figure(found.base, MICROSECONDS, "skip locked"),
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        rounds=found.rounds,
    )
