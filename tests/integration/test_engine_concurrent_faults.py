"""Nothing is lost or settled twice while consumers and connections fail."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from laneway.domain.errors import Retryable
from laneway.domain.messages import Nack, Outcome, OutgoingMessage
from laneway.domain.settings import EngineSettings, MaintenanceSettings, QueueSettings
from laneway.engine import Broker

if TYPE_CHECKING:
    from laneway.domain.messages import Delivery
    from tests.postgres import Connect

MESSAGES = 1500
LEASE = timedelta(milliseconds=300)

BUSY = EngineSettings(
    maintenance=MaintenanceSettings(
        candidacy=timedelta(milliseconds=50), expire=timedelta(milliseconds=50)
    )
)


@dataclass
class Record:
    """What the clients were told; `unknown`: the connection broke before the answer."""

    pushed: set[str] = field(default_factory=set)
    acked: Counter[str] = field(default_factory=Counter)
    dead: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    @property
    def settled(self) -> set[str]:
        return set(self.acked) | self.dead | self.unknown


@pytest.mark.parametrize("ordered", [False, True])
async def test_every_message_is_settled_once(
    database: str,
    connect: Connect,
    ordered: bool,  # noqa: FBT001
) -> None:
    record = Record()
    async with Broker(database, BUSY) as one, Broker(database, BUSY) as two:
        await one.queues.create(
            "jobs",
            QueueSettings(ordered=ordered, lease=LEASE, max_attempts=50, backoff=timedelta(0)),
        )
        brokers = [one, two]
        consumers = [
            asyncio.ensure_future(consume(brokers[n % 2], record, random.Random(n)))  # noqa: S311
            for n in range(8)
        ]
        killer = asyncio.ensure_future(kill_now_and_then(connect))
        await asyncio.gather(*[produce(brokers[n % 2], record, n) for n in range(4)])
        killer.cancel()
        await asyncio.wait([killer])
        while record.pushed - record.settled:
            await asyncio.sleep(0.02)
        for consumer in consumers:
            consumer.cancel()
        await asyncio.wait(consumers)
        assert max(record.acked.values()) == 1
        assert not set(record.acked) & record.dead
        await finish(one, record)
        [counts] = await one.statistics.counts("jobs")
        assert (counts.queued, counts.processing) == (0, 0)
        assert counts.acknowledged + counts.dead >= MESSAGES
        assert max(record.acked.values()) == 1


async def produce(broker: Broker, record: Record, name: int) -> None:
    bodies = [f"{name + 1}{n:05}" for n in range(1, MESSAGES // 4 + 1)]
    while bodies:
        batch = bodies[:10]
        with suppress(Retryable):
            # With keys, so that a push of unknown outcome can be made again.
            await broker.push(
                "jobs",
                [OutgoingMessage(body, dedup_key=body, partition=f"p{name}") for body in batch],
            )
            record.pushed.update(batch)
            del bodies[:10]
        await asyncio.sleep(0.002)


async def consume(broker: Broker, record: Record, dice: random.Random) -> None:
    while True:
        with suppress(Retryable, TimeoutError):
            # Now and then a consumer goes away while it waits, or while it is being served.
            patience = dice.uniform(0, 0.01) if dice.random() < 0.1 else None
            async with asyncio.timeout(patience):
                deliveries = await broker.claim(
                    "jobs", dice.randint(1, 20), wait=timedelta(milliseconds=200)
                )
            await settle(broker, record, deliveries, dice)


async def settle(
    broker: Broker, record: Record, deliveries: list[Delivery], dice: random.Random
) -> None:
    for delivery in deliveries:
        chance = dice.random()
        if chance < 0.02:
            await asyncio.sleep(LEASE.total_seconds() * 1.2)
        elif chance < 0.05:
            await broker.extend([delivery.receipt], lease=LEASE)
        elif chance < 0.1:
            with suppress(Retryable):
                await broker.release([delivery.receipt])
            continue
        elif chance < 0.2:
            await nack(broker, record, delivery, dead=chance < 0.12)
            continue
        await ack(broker, record, delivery)


async def ack(broker: Broker, record: Record, delivery: Delivery) -> None:
    try:
        if await broker.ack([delivery.receipt]) == []:
            record.acked[delivery.body] += 1
    except Retryable:
        record.unknown.add(delivery.body)


async def nack(broker: Broker, record: Record, delivery: Delivery, *, dead: bool) -> None:
    try:
        [outcome] = await broker.nack([Nack(*delivery.receipt, reason="bad luck", dead=dead)])
    except Retryable:
        record.unknown.add(delivery.body)
        return
    if outcome is Outcome.DEAD:
        record.dead.add(delivery.body)


async def finish(broker: Broker, record: Record) -> None:
    """Settle what came back after its settling was in doubt, or was left by a consumer."""
    while True:
        for delivery in await broker.claim("jobs", 100, wait=LEASE * 3):
            await ack(broker, record, delivery)
        [counts] = await broker.statistics.counts("jobs")
        if not counts.queued and not counts.processing:
            return


async def kill_now_and_then(connect: Connect) -> None:
    connection = await connect()
    while True:
        await asyncio.sleep(0.3)
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name like 'laneway%'"
            " and random() < 0.3"
        )
