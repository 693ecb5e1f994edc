"""Single messages by SQL: the cost of a call, and the rate of many connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.cpu import BackendClock, ServerClock
from benchmarks.engine.bodies import make_bodies
from benchmarks.engine.plain import PlainTable
from benchmarks.engine.queues import Queue
from benchmarks.engine.rounds import compare, interleave, measure
from benchmarks.pgbench import Statement, run_pgbench
from benchmarks.results import MICROSECONDS, PER_SECOND, Bound, Figure, Row

if TYPE_CHECKING:
    from datetime import timedelta

    from benchmarks.engine.rounds import Cost
    from benchmarks.engine.site import Site

_CLIENTS = 16


@dataclass(frozen=True, slots=True)
class Rate:
    per_second: float
    microseconds: float  # of the whole server's time, per transaction


async def measure_one_connection(site: Site) -> list[Row]:
    async with site.open_database() as database:
        connection = await database.connect()
        clock = BackendClock([connection.get_server_pid()])
        table = await PlainTable.create(connection)
        queue = await Queue.create(connection, "push")
        calls = site.scale.single_calls

        async def insert() -> Cost:
            return await measure(
                clock, lambda: table.insert_one(make_bodies(1)[0]), calls=calls, messages=1
            )

        async def push() -> Cost:
            return await measure(clock, lambda: queue.push(make_bodies(1)), calls=calls, messages=1)

        found = await interleave(insert, push, rounds=site.scale.rounds, progress=site.progress)
    return [
        Row(
            name="push-1-of-1",
            ours=Figure(found.ours, MICROSECONDS, ""),
            beside=Figure(found.base, MICROSECONDS, "insert of one row"),
            ratio=found.ratio,
            low=found.low,
            high=found.high,
            rounds=found.rounds,
            target=Bound("at most", 2.5),
        )
    ]


async def measure_connections(site: Site) -> list[Row]:
    """Compare rates with pgbench, whose own cost is negligible."""
    rounds = min(site.scale.rounds, site.scale.bench_rounds)
    clock = ServerClock(site.postmaster)
    async with site.open_database() as database:
        connection = await database.connect()
        await PlainTable.create(connection)
        queue = await Queue.create(connection, "push")
        insert = "insert into plain (body) values (:body);"
        push = f"select * from laneway.push_many(array[{queue.queue_id}], array[:body]::json[]);"
        pairs: list[tuple[Rate, Rate]] = []
        for number in range(rounds + 1):
            site.progress.step("round", number, rounds)
            base = await _run_bench(database.dsn, insert, site.scale.bench_time, clock)
            ours = await _run_bench(database.dsn, push, site.scale.bench_time, clock)
            pairs.append((base, ours))
        stripes = await connection.fetchval("select count(*) from laneway.lane")
    pairs = pairs[1:]
    rates = compare([(base.per_second, ours.per_second) for base, ours in pairs])
    costs = compare([(base.microseconds, ours.microseconds) for base, ours in pairs])
    return [
        Row(
            name="push-1-of-16",
            ours=Figure(rates.ours, PER_SECOND, ""),
            beside=Figure(rates.base, PER_SECOND, "insert of one row"),
            ratio=rates.ratio,
            low=rates.low,
            high=rates.high,
            rounds=rates.rounds,
            target=Bound("at least", 0.4),
            goal=Bound("at least", 0.6),
            details={
                "whole server, µs a push": costs.ours,
                "µs an insert": costs.base,
                "stripes": float(stripes),
            },
        )
    ]


async def _run_bench(dsn: str, script: str, time: timedelta, clock: ServerClock) -> Rate:
    statement = Statement(script, make_bodies(1)[0], 1)
    start = clock.read()
    bench = await run_pgbench(dsn, statement, clients=_CLIENTS, time=time, threads=2)
    spent = clock.read() - start
    return Rate(bench.per_second, spent / max(bench.rows, 1) / 1000)
