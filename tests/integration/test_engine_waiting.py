"""Waiting consumers cost no calls, are woken at once, and leave no tasks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from laneway.domain.errors import Overloaded, QueueNotFound
from laneway.domain.messages import Nack, Outcome, OutgoingMessage
from laneway.domain.settings import PumpSettings, QueueSettings, WakeupSettings
from laneway.engine import Broker
from laneway.engine.procedures.delivery import claim_spans
from laneway.engine.pumps.line import FIRST_BATCH
from tests.integration.conftest import QUIET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncpg import Record

    from laneway.domain.messages import Delivery
    from laneway.engine.pumps.claim import ClaimPump
    from laneway.engine.pumps.line import Waiter
    from tests.postgres import Connect

MINUTE = timedelta(minutes=1)

# No net: what is not woken stays asleep, and the test runs into its timeout.
DEAF = replace(QUIET, wakeups=WakeupSettings(safety_poll=timedelta(hours=1)))


async def test_push_in_the_same_process_wakes(database: str) -> None:
    async with Broker(database, DEAF) as broker:
        await broker.queues.create("jobs")
        waiting = await start_waiting(broker)
        await broker.push("jobs", [OutgoingMessage("1")])
        assert await bodies(waiting) == ["1"]


async def test_push_in_another_process_wakes(database: str) -> None:
    async with Broker(database, DEAF) as broker, Broker(database, DEAF) as other:
        await broker.queues.create("jobs")
        await broker._core.notices.listening.wait()
        waiting = await start_waiting(broker)
        await other.push("jobs", [OutgoingMessage("1")])
        assert await bodies(waiting) == ["1"]


async def test_safety_poll_finds_messages_without_a_notification(
    broker: Broker, connect: Connect
) -> None:
    waiting = await start_waiting(broker)
    queue = await broker.queues.get("jobs")
    await (await connect()).execute(
        "select laneway.push_many($1, array['1'::json])", [queue.queue_id]
    )
    assert await bodies(waiting) == ["1"]


async def test_waiting_costs_no_calls(database: str) -> None:
    async with Broker(database, DEAF) as broker:
        await broker.queues.create("jobs")
        await broker.queues.create("other")
        waiting = await start_waiting(broker)
        pump = only_pump(broker)
        calls = pump.calls
        for n in range(5):
            await broker.push("other", [OutgoingMessage(str(n))])
        assert pump.calls == calls
        waiting.cancel()


async def test_delayed_message_wakes_when_it_is_due(database: str) -> None:
    async with Broker(database, DEAF) as broker:
        await broker.queues.create("jobs")
        waiting = await start_waiting(broker)
        delay = timedelta(milliseconds=150)
        await broker.push("jobs", [OutgoingMessage("1", delay=delay)])
        assert await bodies(waiting) == ["1"]


async def test_message_of_a_delaying_queue_wakes_when_it_is_due(database: str) -> None:
    async with Broker(database, DEAF) as broker:
        await broker.queues.create("jobs", QueueSettings(delay=timedelta(milliseconds=100)))
        waiting = await start_waiting(broker)
        await broker.push("jobs", [OutgoingMessage("1")])
        assert await bodies(waiting) == ["1"]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("how", ["nack", "backoff", "release"])
async def test_returned_message_wakes_a_waiter(database: str, how: str, ordered: bool) -> None:  # noqa: FBT001
    async with Broker(database, DEAF) as broker:
        await broker.queues.create("jobs", QueueSettings(ordered=ordered))
        await broker.push("jobs", [OutgoingMessage("1")])
        [delivery] = await broker.claim("jobs")
        waiting = await start_waiting(broker)
        match how:
            case "nack":
                await broker.nack([Nack(*delivery.receipt)])
            case "backoff":
                await broker.nack([Nack(*delivery.receipt, delay=timedelta(milliseconds=100))])
            case _:
                await broker.release([delivery.receipt])
        assert await bodies(waiting) == ["1"]


async def test_ack_in_an_ordered_group_frees_the_lane(database: str) -> None:
    async with Broker(database, DEAF) as broker, Broker(database, DEAF) as other:
        await broker.queues.create("jobs", QueueSettings(ordered=True))
        await broker.push("jobs", [OutgoingMessage("1"), OutgoingMessage("2")])
        await broker._core.notices.listening.wait()
        [first] = await broker.claim("jobs")
        waiting = await start_waiting(broker)
        # Another process, which never claimed from that lane.
        assert await other.ack([first.receipt]) == []
        assert await bodies(waiting) == ["2"]


async def test_only_waiters_for_the_partition_are_woken(database: str) -> None:
    async with Broker(database, DEAF) as broker:
        await broker.queues.create("jobs")
        a = await start_waiting(broker, partition="a")
        calls = only_pump(broker).calls
        b = await start_waiting(broker, partition="b")
        await broker.push("jobs", [OutgoingMessage("1", partition="b")])
        assert await bodies(b) == ["1"]
        assert only_pump(broker).calls == calls + 2
        await broker.push("jobs", [OutgoingMessage("2", partition="a")])
        assert await bodies(a) == ["2"]


async def test_one_message_does_not_wake_every_waiter(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    async def count_and_claim(*arguments: Any, wants: Sequence[int], **named: Any) -> Any:
        asked.append(len(wants))
        return await claim_spans(*arguments, wants=wants, **named)

    monkeypatch.setattr("laneway.engine.pumps.claim.claim_spans", count_and_claim)
    async with Broker(database, DEAF) as broker:
        await broker.queues.create("jobs")
        sleepers = [await start_waiting(broker) for _ in range(100)]
        # The first asked, and the others knew.
        assert asked == [1]
        await broker.push("jobs", [OutgoingMessage("1")])
        assert await bodies(sleepers[0]) == ["1"]
        assert asked[1:] == [FIRST_BATCH]
        # As many as there are are found all the same, first come, first served.
        await broker.push("jobs", [OutgoingMessage(str(n)) for n in range(99)])
        assert [await bodies(sleeper) for sleeper in sleepers[1:]] == [[str(n)] for n in range(99)]
        assert sum(asked[2:]) < 200


async def test_new_waiter_causes_no_claim_and_is_woken_in_turn(database: str) -> None:
    async with Broker(database, DEAF) as broker:
        await broker.queues.create("jobs")
        waiting = [await start_waiting(broker) for _ in range(4)]
        assert only_pump(broker).calls == 1
        # Who cannot wait asks.
        assert await broker.claim("jobs") == []
        assert only_pump(broker).calls == 2
        await broker.push("jobs", [OutgoingMessage(str(n)) for n in range(4)])
        assert [await bodies(waiter) for waiter in waiting] == [["0"], ["1"], ["2"], ["3"]]


async def test_one_push_serves_many_waiters_in_order(database: str) -> None:
    async with Broker(database, DEAF) as broker:
        await broker.queues.create("jobs")
        waiting = [await start_waiting(broker) for _ in range(20)]
        before = only_pump(broker).calls
        await broker.push("jobs", [OutgoingMessage(str(n)) for n in range(20)])
        assert [await bodies(waiter) for waiter in waiting] == [[str(n)] for n in range(20)]
        assert only_pump(broker).calls - before <= 2


async def test_wait_ends_empty_after_its_timeout(broker: Broker) -> None:
    assert await broker.claim("jobs", wait=timedelta(milliseconds=50)) == []
    async with asyncio.timeout(20):
        # The call that found nothing may still be on its way back.
        while only_pump(broker)._lines:
            await asyncio.sleep(0.01)


async def test_cancelled_waiter_leaves_the_message_to_others(broker: Broker) -> None:
    waiting = await start_waiting(broker)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await broker.push("jobs", [OutgoingMessage("1")])
    [delivery] = await broker.claim("jobs")
    assert delivery.attempt == 1


async def test_waiter_cancelled_during_the_claim_releases_its_messages(database: str) -> None:
    async with Broker(database, DEAF) as broker:
        await broker.queues.create("jobs")
        await broker.push("jobs", [OutgoingMessage("1")])
        gone = asyncio.ensure_future(broker.claim("jobs", wait=MINUTE))
        while not broker._claims or not only_pump(broker).calls:
            await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        [delivery] = await broker.claim("jobs", wait=MINUTE)
        assert (delivery.body, delivery.attempt) == ("1", 1)


async def test_waiter_cancelled_after_the_claim_releases_its_messages(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Broker(database, DEAF) as broker:
        await broker.queues.create("jobs")
        waiting = await start_waiting(broker)
        pump = only_pump(broker)
        deal = pump._answer_waiters

        def deal_and_cancel(batch: Sequence[Waiter], rows: Sequence[Record]) -> list[Waiter]:
            left = deal(batch, rows)
            waiting.cancel()
            return left

        monkeypatch.setattr(pump, "_answer_waiters", deal_and_cancel)
        await broker.push("jobs", [OutgoingMessage("1")])
        with pytest.raises(asyncio.CancelledError):
            await waiting
        [delivery] = await broker.claim("jobs", wait=MINUTE)
        assert (delivery.body, delivery.attempt) == ("1", 1)


async def test_deleted_queue_ends_the_waiting(broker: Broker) -> None:
    waiting = await start_waiting(broker)
    await broker.queues.delete("jobs")
    with pytest.raises(QueueNotFound, match='queue "jobs" not found'):
        await waiting
    assert broker._claims == {}


async def test_queue_that_another_process_deletes_ends_the_waiting(database: str) -> None:
    async with Broker(database, DEAF) as broker, Broker(database, DEAF) as other:
        await broker.queues.create("jobs")
        await broker._core.notices.listening.wait()
        waiting = await start_waiting(broker)
        await other.queues.delete("jobs")
        with pytest.raises(QueueNotFound, match='queue "jobs" not found'):
            await waiting


async def test_too_many_waiters_are_refused(database: str) -> None:
    settings = replace(DEAF, pumps=PumpSettings(waiting_messages=2))
    async with Broker(database, settings) as broker:
        await broker.queues.create("jobs")
        waiting = [await start_waiting(broker) for _ in range(2)]
        with pytest.raises(Overloaded):
            await broker.claim("jobs")
        waiting[0].cancel()
        await asyncio.wait(waiting[:1])
        assert await broker.claim("jobs") == []


async def test_catalog_change_in_another_process_is_heard(database: str) -> None:
    settings = replace(DEAF, wakeups=WakeupSettings(catalog_age=timedelta(hours=1)))
    async with Broker(database, settings) as broker, Broker(database, settings) as other:
        await broker.queues.create("jobs")
        await broker._core.notices.listening.wait()
        await broker.push("jobs", [OutgoingMessage("1")])
        await other.queues.update("jobs", {"description": "changed"})
        while broker._core.catalog.peek("jobs") is not None:
            await asyncio.sleep(0.001)
        assert (await broker._core.catalog.find("jobs")).settings.description == "changed"


async def test_consumers_of_a_batched_claim_settle_separately(database: str) -> None:
    """They hold what they got by one claim, and none can tell but by its token."""
    async with Broker(database, DEAF) as broker:
        await broker.queues.create("jobs")
        waiting = [await start_waiting(broker) for _ in range(4)]
        await broker.push("jobs", [OutgoingMessage(str(n)) for n in range(4)])
        (acked,), (failed,), (unread,), (kept,) = await asyncio.gather(*waiting)
        assert len({each.token for each in (acked, failed, unread, kept)}) == 1
        assert await broker.ack([acked.receipt]) == []
        assert await broker.nack([Nack(*failed.receipt, dead=True)]) == [Outcome.DEAD]
        assert await broker.release([unread.receipt]) == []
        assert await broker.ack([acked.receipt, failed.receipt, unread.receipt]) == [0, 1, 2]
        (until,) = await broker.extend([kept.receipt], lease=timedelta(hours=1))
        assert until is not None
        assert until > kept.until
        (again,) = await broker.claim("jobs")
        assert (again.body, again.attempt) == (unread.body, 1)
        assert await broker.ack([again.receipt, kept.receipt]) == []


async def test_claim_with_its_own_token_shares_it_with_no_other(database: str) -> None:
    async with Broker(database, DEAF) as broker:
        await broker.queues.create("jobs")
        waiting = [await start_waiting(broker, own_token=place == 1) for place in range(3)]
        await broker.push("jobs", [OutgoingMessage(str(n)) for n in range(3)])
        dealt = await asyncio.gather(*waiting)
        assert len({each.token for (each,) in dealt}) == 3


async def start_waiting(
    broker: Broker, *, partition: str | None = None, own_token: bool = False
) -> asyncio.Task[list[Delivery]]:
    """Return a claim that has found nothing and waits, and that hears of others' pushes."""
    broker._core.notices.await_wakes()
    await broker._core.notices.listening.wait()
    before = {group_id: pump.waiting for group_id, pump in broker._claims.items()}
    task = asyncio.ensure_future(
        broker.claim("jobs", wait=MINUTE, partition=partition, own_token=own_token)
    )

    def asleep(pump: ClaimPump) -> bool:
        return (
            pump.waiting > before.get(pump.group_id, 0)
            and not pump._running_calls
            and not any(line.has_eligible for line in pump._lines.values())
        )

    while not any(map(asleep, broker._claims.values())):
        await asyncio.sleep(0.001)
    return task


def only_pump(broker: Broker) -> ClaimPump:
    [pump] = broker._claims.values()
    return pump


async def bodies(waiting: asyncio.Task[list[Delivery]]) -> list[str]:
    return [delivery.body for delivery in await waiting]
