"""Requests are batched, and one that fails affects no other."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from laneway.domain.errors import (
    InvalidMessage,
    InvalidRequest,
    MessageTooLarge,
    Overloaded,
    QueueChanged,
    TransientConflict,
)
from laneway.domain.messages import Nack, Outcome, OutgoingMessage, Receipt
from laneway.domain.settings import PumpSettings, QueueSettings
from laneway.engine import Broker
from laneway.engine.procedures import delivery as procedures
from laneway.engine.pumps import push as push_module
from laneway.engine.pumps import settle as settle_module
from tests.integration.conftest import QUIET

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from uuid import UUID

    from tests.postgres import Connect


async def test_single_pushes_are_batched(broker: Broker) -> None:
    pushed = await asyncio.gather(*[broker.push("jobs", [message(n)]) for n in range(500)])
    assert broker._pushes.calls <= 3
    assert sorted(place.seq for [place] in pushed) == list(range(1, 501))
    claimed = await broker.claim("jobs", 1000)
    assert [delivery.body for delivery in claimed] == [str(n) for n in range(500)]
    assert [delivery.id for delivery in claimed] == [place.id for [place] in pushed]


async def test_single_claims_and_acks_are_batched(broker: Broker) -> None:
    await broker.push("jobs", [message(n) for n in range(300)])
    claims = await asyncio.gather(*[broker.claim("jobs") for _ in range(300)])
    assert sorted(int(delivery.body) for [delivery] in claims) == list(range(300))
    [pump] = broker._claims.values()
    assert pump.calls <= 3
    lost = await asyncio.gather(*[broker.ack([delivery.receipt]) for [delivery] in claims])
    assert lost == [[]] * 300
    assert broker._settlements.calls <= 3


async def test_each_kind_of_settlement_is_batched(broker: Broker) -> None:
    await broker.push("jobs", [message(n) for n in range(90)])
    claimed = await broker.claim("jobs", 90)
    lease = timedelta(hours=1)
    untils = await asyncio.gather(
        *[broker.extend([delivery.receipt], lease=lease) for delivery in claimed[:30]]
    )
    assert all(until is not None for [until] in untils)
    outcomes = await asyncio.gather(
        *[broker.nack([Nack(*delivery.receipt)]) for delivery in claimed[30:60]]
    )
    assert outcomes == [[Outcome.REQUEUED]] * 30
    delays = [None, lease, None]
    lost = await asyncio.gather(
        *[
            broker.release([delivery.receipt], delay=delays[n % 3])
            for n, delivery in enumerate(claimed[60:])
        ]
    )
    assert lost == [[]] * 30
    assert broker._settlements.calls <= 8
    [counts] = await broker.statistics.counts("jobs")
    assert (counts.processing, counts.queued, counts.delayed) == (30, 60, 10)


async def test_acks_of_one_claim_are_serialized_and_delay_no_others(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.push("jobs", [message(n) for n in range(3)])
    shared = await broker.claim("jobs", 2)
    [other] = await broker.claim("jobs")
    begun: list[UUID] = []
    go_on = asyncio.Event()

    async def ack_many(*args: Any, **named: Any) -> object:
        begun.extend(named["tokens"])
        if named["tokens"] == [shared[0].token]:
            await go_on.wait()
        return await procedures.ack_many(*args, **named)

    monkeypatch.setattr(settle_module, "ack_many", ack_many)
    first = asyncio.ensure_future(broker.ack([shared[0].receipt]))
    while not begun:
        await asyncio.sleep(0)
    second = asyncio.ensure_future(broker.ack([shared[1].receipt]))
    assert await broker.ack([other.receipt]) == []
    assert begun == [shared[0].token, other.token]
    go_on.set()
    assert (await first, await second) == ([], [])


async def test_pushes_to_several_queues_are_batched(broker: Broker) -> None:
    names = [f"q{n}" for n in range(5)]
    for name in names:
        await broker.queues.create(name, QueueSettings(ordered=True))
    before = broker._pushes.calls
    await asyncio.gather(
        *[
            broker.push(name, [OutgoingMessage(str(n), partition=f"p{n % 3}")])
            for n in range(6)
            for name in names
        ]
    )
    assert broker._pushes.calls - before <= 6
    for name in names:
        claims = [await broker.claim(name, 10) for _ in range(3)]
        assert [[delivery.body for delivery in claim] for claim in claims] == [
            ["0", "3"],
            ["1", "4"],
            ["2", "5"],
        ]


async def test_invalid_push_fails_alone_in_its_batch(broker: Broker) -> None:
    await broker.queues.update("jobs", {"max_bytes": 100})
    results = await asyncio.gather(
        broker.push("jobs", [message(1)]),
        broker.push("jobs", [message(2), OutgoingMessage("{")]),
        broker.push("jobs", [message(3)]),
        broker.push("jobs", [OutgoingMessage('"' + "x" * 200 + '"')]),
        broker.push("jobs", [message(4)]),
        return_exceptions=True,
    )
    assert isinstance(results[1], InvalidMessage)
    assert isinstance(results[3], MessageTooLarge)
    assert [delivery.body for delivery in await broker.claim("jobs", 10)] == ["1", "3", "4"]


async def test_push_with_outdated_queue_options_fails_alone_in_its_batch(broker: Broker) -> None:
    await broker.queues.create("sealed", QueueSettings(encrypted=True))
    pushes = [
        broker.push("sealed", [message(0)], guards=1),
        broker.push("sealed", [message(1)], guards=0),
        broker.push("sealed", [message(2)]),
        broker.push_each([("sealed", message(3)), ("jobs", message(4))], guards=[1, 0]),
        broker.push_each([("sealed", message(5)), ("jobs", message(6))], guards=[0, 0]),
        broker.push("jobs", [message(7), message(8)], guards=0),
    ]
    answers = await asyncio.gather(*pushes, return_exceptions=True)
    refused = [n for n, answer in enumerate(answers) if isinstance(answer, QueueChanged)]
    assert refused == [1, 4]
    sealed = await broker.claim("sealed", 10)
    jobs = await broker.claim("jobs", 10)
    assert sorted(delivery.body for delivery in sealed) == ["0", "2", "3"]
    assert sorted(delivery.body for delivery in jobs) == ["4", "7", "8"]


async def test_push_to_a_deleted_queue_fails_alone_in_its_batch(
    broker: Broker, connect: Connect
) -> None:
    await broker.queues.create("doomed")
    await broker.push_each([("jobs", message(0)), ("doomed", message(0))])
    await (await connect()).execute("select laneway.delete_queue('doomed', true)")
    results = await asyncio.gather(
        broker.push("jobs", [message(1)]),
        broker.push("doomed", [message(2)]),
        return_exceptions=True,
    )
    assert not isinstance(results[0], BaseException)
    assert "doomed" in str(results[1])


async def test_invalid_token_fails_alone_in_its_batch(broker: Broker) -> None:
    await broker.push("jobs", [message(1)])
    [delivery] = await broker.claim("jobs")
    results = await asyncio.gather(
        broker.ack([delivery.receipt]),
        broker.ack([Receipt("nonsense", delivery.lane, delivery.seq)]),
        return_exceptions=True,
    )
    assert results[0] == []
    assert isinstance(results[1], InvalidMessage)


async def test_invalid_claim_fails_alone_in_its_batch(broker: Broker) -> None:
    await broker.push("jobs", [message(1), message(2)])
    results = await asyncio.gather(
        broker.claim("jobs"),
        broker.claim("jobs", consumer="a\x00"),
        broker.claim("jobs"),
        return_exceptions=True,
    )
    assert [[delivery.body for delivery in claim] for claim in (results[0], results[2])] == [  # type: ignore[union-attr]
        ["1"],
        ["2"],
    ]
    assert isinstance(results[1], InvalidRequest)


async def test_lost_lease_is_reported_to_its_own_caller(broker: Broker) -> None:
    await broker.push("jobs", [message(n) for n in range(6)])
    claimed = await broker.claim("jobs", 6)
    receipts = [delivery.receipt for delivery in claimed]
    await broker.ack([receipts[2]])
    lost = await asyncio.gather(
        broker.ack(receipts[:2]), broker.ack([receipts[3], receipts[2]]), broker.ack(receipts[4:])
    )
    assert list(lost) == [[], [1], []]


async def test_full_pump_refuses_and_recovers(database: str, connect: Connect) -> None:
    settings = replace(QUIET, pumps=PumpSettings(waiting_messages=3, flush_messages=1))
    async with Broker(database, settings) as broker:
        await broker.queues.create("jobs", QueueSettings(ordered=True))
        await broker.push("jobs", [message(0)])
        blocker = await connect()
        async with blocker.transaction():
            # Whoever holds the lane's lock holds up all pushes into it.
            await blocker.execute(
                "select pg_advisory_xact_lock('laneway.lane'::regclass::oid::int, lane_id)"
                " from laneway.lane"
            )
            waiting = [asyncio.ensure_future(broker.push("jobs", [message(n)])) for n in (1, 2, 3)]
            await asyncio.sleep(0)
            with pytest.raises(Overloaded) as caught:
                await broker.push("jobs", [message(4)])
            assert caught.value.retry_after == timedelta(seconds=1)
        await asyncio.gather(*waiting)
        await broker.push("jobs", [message(5)])
        bodies = [delivery.body for delivery in await broker.claim("jobs", 10)]
        assert bodies == ["0", "1", "2", "3", "5"]


async def test_pump_full_by_bytes_refuses(database: str, connect: Connect) -> None:
    settings = replace(QUIET, pumps=PumpSettings(waiting_bytes=1000))
    async with Broker(database, settings) as broker:
        await broker.queues.create("jobs", QueueSettings(ordered=True))
        await broker.push("jobs", [OutgoingMessage(f'"{"x" * 5000}"')])
        blocker = await connect()
        async with blocker.transaction():
            await blocker.execute(
                "select pg_advisory_xact_lock('laneway.lane'::regclass::oid::int, lane_id)"
                " from laneway.lane"
            )
            waiting = asyncio.ensure_future(broker.push("jobs", [message(1)]))
            await asyncio.sleep(0)
            with pytest.raises(Overloaded, match="messages wait for a push: 1 "):
                await broker.push("jobs", [OutgoingMessage(f'"{"x" * 1000}"')])
        await waiting


async def test_push_larger_than_a_batch_is_sent_whole(database: str) -> None:
    settings = replace(QUIET, pumps=PumpSettings(flush_messages=10, flush_bytes=100))
    async with Broker(database, settings) as broker:
        await broker.queues.create("jobs")
        pushed = await broker.push("jobs", [message(n) for n in range(50)])
        assert len(pushed) == 50
        assert broker._pushes.calls == 1


async def test_push_cancelled_before_its_batch_is_not_sent(
    broker: Broker, connect: Connect
) -> None:
    await broker.queues.create("line", QueueSettings(ordered=True))
    await broker.push("line", [message(0)])
    blocker = await connect()
    async with blocker.transaction():
        await blocker.execute(
            "select pg_advisory_xact_lock('laneway.lane'::regclass::oid::int, lane_id)"
            " from laneway.lane"
        )
        first = asyncio.ensure_future(broker.push("line", [message(1)]))
        while broker._pushes.calls < 2:
            await asyncio.sleep(0.001)
        second = asyncio.ensure_future(broker.push("line", [message(2)]))
        third = asyncio.ensure_future(broker.push("line", [message(3)]))
        await asyncio.sleep(0)
        second.cancel()
    await asyncio.gather(first, third)
    bodies = [delivery.body for delivery in await broker.claim("line", 10)]
    assert bodies == ["0", "1", "3"]


async def test_batch_that_lost_a_race_is_retried(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = 3

    def lose(call: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def push(*args: object, **arguments: object) -> object:
            nonlocal losses
            if losses:
                losses -= 1
                raise TransientConflict("somebody else was quicker")
            return await call(*args, **arguments)

        return push

    for name in ("push_many", "push_notifying"):
        monkeypatch.setattr(push_module, name, lose(getattr(procedures, name)))
    await broker.push("jobs", [message(1)])
    assert losses == 0
    losses = 1000
    with pytest.raises(TransientConflict):
        await broker.push("jobs", [message(2)])


def message(n: int) -> OutgoingMessage:
    return OutgoingMessage(str(n))


async def test_claim_without_wait_is_not_answered_empty_during_a_concurrent_read(
    broker: Broker, connect: Connect
) -> None:
    await broker.push("jobs", [OutgoingMessage("1")])
    [first] = await broker.claim("jobs")
    await broker.nack([Nack(*first.receipt)])
    await broker.push("jobs", [OutgoingMessage("2")])
    other = await connect()
    async with other.transaction():
        await other.execute(
            "select pg_advisory_xact_lock('laneway.reader'::regclass::oid::int, reader_id)"
            " from laneway.reader"
        )
        # One call carries both; one gets what failed, and the other's is being read.
        claims = [asyncio.ensure_future(broker.claim("jobs")) for _ in range(2)]
        assert [each.body for each in await claims[0]] == ["1"]
    assert [each.body for each in await claims[1]] == ["2"]
