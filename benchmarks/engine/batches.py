"""Batches: a push compared with a plain insert, a claim and ack compared with the push."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.cpu import BackendClock
from benchmarks.engine.bodies import make_bodies
from benchmarks.engine.plain import PlainTable
from benchmarks.engine.queues import Queue
from benchmarks.engine.rounds import interleave, measure
from benchmarks.results import MICROSECONDS, Bound, Figure, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.engine.rounds import Comparison, Cost
    from benchmarks.engine.site import Site

_BATCH = 100


async def measure_push(site: Site) -> list[Row]:
    async with site.open_database() as database:
        connection = await database.connect()
        clock = BackendClock([connection.get_server_pid()])
        table = await PlainTable.create(connection)
        queue = await Queue.create(connection, "push")
        calls = site.scale.calls

        async def insert() -> Cost:
            return await measure(
                clock, lambda: table.insert_many(make_bodies(_BATCH)), calls=calls, messages=_BATCH
            )

        async def push() -> Cost:
            return await measure(
                clock, lambda: queue.push(make_bodies(_BATCH)), calls=calls, messages=_BATCH
            )

        found = await interleave(insert, push, rounds=site.scale.rounds, progress=site.progress)
    return [_make_row("push-100", found, beside="insert of 100", target=Bound("at most", 1.6))]


async def measure_claim(site: Site) -> list[Row]:
    found = await _claim_beside_push(site, wants=[_BATCH])
    return [_make_row("claim-ack-100", found, beside="push of 100", target=Bound("at most", 1.0))]


async def measure_claim_of_lanes(site: Site) -> list[Row]:
    found = await _claim_beside_push(site, wants=[_BATCH], lanes=10)
    return [
        _make_row(
            "claim-ack-100-of-10-lanes",
            found,
            beside="push of 100 to one lane",
            target=Bound("at most", 2.0),
        )
    ]


async def measure_claim_of_waiters(site: Site) -> list[Row]:
    found = await _claim_beside_push(site, wants=[1] * 32)
    return [
        _make_row(
            "claim-ack-32x1",
            found,
            beside="push of 32",
            target=Bound("at most", 25, figure="ours"),
        )
    ]


async def _claim_beside_push(site: Site, *, wants: Sequence[int], lanes: int = 1) -> Comparison:
    """Compare claiming and acking messages with pushing as many to one lane, in calls of the same size."""
    batch, calls = sum(wants), site.scale.calls
    partitions = [f"p{number % lanes}" for number in range(batch)]
    async with site.open_database() as database:
        connection = await database.connect()
        clock = BackendClock([connection.get_server_pid()])
        queue = await Queue.create(connection, "claim")
        other = await Queue.create(connection, "push")

        async def push() -> Cost:
            target = queue if lanes == 1 else other
            return await measure(
                clock, lambda: target.push(make_bodies(batch)), calls=calls, messages=batch
            )

        async def claim() -> Cost:
            if lanes > 1:
                for _ in range(calls):
                    await queue.push(make_bodies(batch), partitions=partitions)
            return await measure(
                clock, lambda: queue.claim_and_ack_all(wants), calls=calls, messages=batch
            )

        return await interleave(
            push, claim, rounds=site.scale.rounds, progress=site.progress, swap=False
        )


def _make_row(name: str, found: Comparison, *, beside: str, target: Bound) -> Row:
    return Row(
        name=name,
        ours=Figure(found.ours, MICROSECONDS, ""),
        beside=Figure(found.base, MICROSECONDS, beside),
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        rounds=found.rounds,
        target=target,
    )
