"""Waiting consumers of ordered groups are woken for lanes that are ready, and cause no other claims."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from laneway.domain.messages import Nack, OutgoingMessage
from laneway.domain.settings import QueueSettings
from laneway.engine import Broker
from tests.integration.test_engine_waiting import DEAF, MINUTE, bodies, only_pump
from tests.sql.calls import rotate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from laneway.domain.messages import Delivery
    from laneway.engine.pumps.claim import ClaimPump
    from tests.postgres import Connect


@pytest.fixture
async def broker(database: str) -> AsyncIterator[Broker]:
    async with Broker(database, DEAF) as broker:
        await broker.queues.create("jobs", QueueSettings(ordered=True))
        broker._core.notices.await_wakes()
        await broker._core.notices.listening.wait()
        yield broker


def message(body: str, partition: str = "", *, priority: int = 0) -> OutgoingMessage:
    return OutgoingMessage(body, partition=partition, priority=priority)


async def wait(broker: Broker, want: int = 1) -> asyncio.Task[list[Delivery]]:
    """Return once the waiter sleeps, whether it had to ask or not."""
    waiting = asyncio.create_task(broker.claim("jobs", want, wait=MINUTE))
    while not broker._claims or want not in sleepers(only_pump(broker)):
        await asyncio.sleep(0.001)
    return waiting


def sleepers(pump: ClaimPump) -> list[int]:
    """Return what those who sleep want."""
    return [waiter.want for line in pump._lines.values() for waiter in line._asleep]


async def test_push_to_a_leased_lane_causes_no_claim_until_it_is_settled(broker: Broker) -> None:
    await broker.push("jobs", [message("1")])
    [first] = await broker.claim("jobs", 10)
    waiting = await wait(broker)
    calls = only_pump(broker).calls
    await broker.push("jobs", [message("2")])
    pump = only_pump(broker)
    assert (pump.calls, pump._awake) == (calls, {})
    assert await broker.ack([first.receipt]) == []
    assert await bodies(waiting) == ["2"]
    assert only_pump(broker).calls == calls + 1


async def test_ack_of_the_last_message_causes_no_claim(broker: Broker) -> None:
    await broker.push("jobs", [message("1"), message("2")])
    first = await broker.claim("jobs", 10)
    waiting = await wait(broker)
    calls = only_pump(broker).calls
    assert await broker.ack([first[0].receipt]) == []
    assert await broker.ack([first[1].receipt]) == []
    pump = only_pump(broker)
    assert (pump.calls, pump._awake) == (calls, {})
    await broker.push("jobs", [message("3")])
    assert await bodies(waiting) == ["3"]


async def test_ack_wakes_a_waiter_for_the_rest_of_the_lane(broker: Broker) -> None:
    await broker.push("jobs", [message("1"), message("2")])
    [first] = await broker.claim("jobs", 1)
    waiting = await wait(broker)
    assert await broker.ack([first.receipt]) == []
    assert await bodies(waiting) == ["2"]


async def test_ack_wakes_a_waiter_for_the_next_segment(broker: Broker, connect: Connect) -> None:
    session = await connect()
    await broker.push("jobs", [message("1")])
    await rotate(session)
    await broker.push("jobs", [message("2")])
    first = await broker.claim("jobs", 10)
    assert [each.body for each in first] == ["1"]
    waiting = await wait(broker)
    assert await broker.ack([first[0].receipt]) == []
    assert await bodies(waiting) == ["2"]


async def test_ack_in_one_group_causes_no_claim_in_another(broker: Broker) -> None:
    await broker.groups.create("jobs", "other")
    await broker.push("jobs", [message("1")])
    [mine] = await broker.claim("jobs", 10)
    [theirs] = await broker.claim("jobs", 10, group="other")
    _, other = broker._claims.values()
    waiting = asyncio.create_task(broker.claim("jobs", group="other", wait=MINUTE))
    while not sleepers(other):
        await asyncio.sleep(0.001)
    calls = other.calls
    assert await broker.ack([mine.receipt]) == []
    assert (other.calls, other._awake) == (calls, {})
    await broker.push("jobs", [message("2")])
    assert await broker.ack([theirs.receipt]) == []
    assert await bodies(waiting) == ["2"]


async def test_each_pushed_partition_wakes_one_waiter(broker: Broker) -> None:
    waiting = [await wait(broker, 7 + n) for n in range(5)]
    calls = only_pump(broker).calls
    await broker.push("jobs", [message("1", "a"), message("2", "b"), message("3", "c")])
    got = [await bodies(waiter) for waiter in waiting[:3]]
    assert sorted(got) == [["1"], ["2"], ["3"]]
    assert only_pump(broker).calls == calls + 1
    await broker.push("jobs", [message("4", "d"), message("5", "e")])
    assert sorted([await bodies(waiter) for waiter in waiting[3:]]) == [["4"], ["5"]]


async def test_lanes_of_one_partition_serve_as_many_waiters(broker: Broker) -> None:
    waiting = [await wait(broker, 7 + n) for n in range(2)]
    await broker.push("jobs", [message("1", "p"), message("2", "p", priority=5)])
    assert sorted([await bodies(waiter) for waiter in waiting]) == [["1"], ["2"]]


async def test_wakeup_of_a_cancelled_waiter_passes_to_another(broker: Broker) -> None:
    first, second = await wait(broker, 7), await wait(broker, 8)
    pump = only_pump(broker)
    pump.wake(partitions={"p"}, plain=True)
    first.cancel()
    assert [waiter.want for line in pump._lines.values() for waiter in line._woken] == [7]
    await broker.push("jobs", [message("1", "p")])
    assert await bodies(second) == ["1"]


async def test_acks_after_a_nack_of_the_same_claim_free_the_lane(broker: Broker) -> None:
    await broker.push("jobs", [message(str(n)) for n in range(3)])
    first = await broker.claim("jobs", 3)
    waiting = await wait(broker, 7)
    await broker.nack([Nack(*first[2].receipt)])
    assert await broker.ack([first[0].receipt]) == []
    assert await broker.ack([first[1].receipt]) == []
    assert await bodies(waiting) == ["2"]


async def test_new_waiters_cause_no_claims_while_every_lane_is_leased(broker: Broker) -> None:
    waiting = [await wait(broker, 7)]
    calls = only_pump(broker).calls
    waiting += [await wait(broker, 8 + n) for n in range(5)]
    assert only_pump(broker).calls == calls
    await broker.push("jobs", [message("1")])
    assert await bodies(waiting[0]) == ["1"]
    for waiter in waiting[1:]:
        waiter.cancel()


async def test_every_waiter_is_served_under_concurrent_changes(database: str) -> None:
    """Without a net: consumers of two processes that give back, fail, give up, and settle in parts."""
    count = 200
    chance = random.Random(7)  # noqa: S311 - the same every time
    done: set[str] = set()

    async def consume(brokers: Sequence[Broker]) -> None:
        while True:
            wait = timedelta(seconds=chance.choice([0.01, 60]))
            got = await brokers[0].claim("jobs", chance.choice([1, 3, 100]), wait=wait)
            match got and chance.randrange(8):
                case 0:
                    await brokers[1].release([each.receipt for each in got])
                case 1:
                    await brokers[0].nack([Nack(*got[-1].receipt)])
                    assert await brokers[1].ack([each.receipt for each in got[:-1]]) == []
                    done.update(each.body for each in got[:-1])
                case _:
                    for each in got:
                        assert await brokers[1].ack([each.receipt]) == []
                        done.add(each.body)

    async with Broker(database, DEAF) as one, Broker(database, DEAF) as two:
        settings = QueueSettings(ordered=True, max_attempts=None, backoff=timedelta(milliseconds=1))
        await one.queues.create("jobs", settings)
        for broker in (one, two):
            await broker._core.notices.listening.wait()
        async with asyncio.TaskGroup() as group:
            consumers = [
                group.create_task(consume(brokers))
                for brokers in ((one, one), (one, two), (two, one), (two, two)) * 2
            ]
            for number in range(count):
                broker = chance.choice((one, two))
                await broker.push("jobs", [message(str(number), f"p{chance.randrange(12)}")])
            while len(done) < count:
                await asyncio.sleep(0.01)
            for consumer in consumers:
                consumer.cancel()
