"""The consumer, on both transports."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import laneway
from laneway import Status
from laneway.domain.errors import (
    BrokerClosed,
    GroupNotFound,
    InvalidId,
    InvalidRequest,
    LeaseLost,
    QueueNotFound,
)
from laneway.domain.messages import Outcome
from laneway.engine import Broker
from tests.library.conftest import QUIET

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from laneway import Connection, Consumer

MOMENT = timedelta(milliseconds=50)
SECOND = timedelta(seconds=1)
LONG = timedelta(seconds=20)


async def test_empty_queue_answers_at_once(lane: Connection, queue: str) -> None:
    assert await lane.consumer(queue).dequeue() is None
    assert await lane.consumer(queue).dequeue_many(10) == []


async def test_waiting_consumer_gets_what_is_pushed(lane: Connection, queue: str) -> None:
    waiting = asyncio.ensure_future(lane.consumer(queue).dequeue(wait=LONG))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await lane.producer(queue).enqueue("here")
    message = await waiting
    assert message is not None
    assert message.payload == "here"


async def test_longest_wait_returns_a_message(lane: Connection, queue: str) -> None:
    waiting = asyncio.ensure_future(lane.consumer(queue).dequeue(wait=timedelta.max))
    await until_waited_for(lane, waiting)
    await lane.producer(queue).enqueue("here")
    message = await waiting
    assert message is not None
    assert message.payload == "here"


@pytest.mark.parametrize("wait", [LONG, timedelta(days=1)])
async def test_waiting_consumers_get_none_when_the_connection_closes(
    address: str, queue: str, wait: timedelta
) -> None:
    async with laneway.connect(address, settings=QUIET) as lane:
        consumer = lane.consumer(queue)
        waiting = asyncio.ensure_future(consumer.dequeue(wait=wait))
        await until_waited_for(lane, waiting)
    assert await waiting is None
    with pytest.raises(BrokerClosed):
        await consumer.dequeue(wait=wait)


async def until_waited_for(lane: Connection, waiting: asyncio.Future[Any]) -> None:
    backend: Any = lane.backend
    while not (
        backend.measure().claim_waiters if isinstance(backend, Broker) else backend._client._busy
    ):
        assert not waiting.done(), waiting
        await asyncio.sleep(0.01)


async def test_deleted_message_is_not_redelivered(lane: Connection, queue: str) -> None:
    await lane.producer(queue).enqueue(1)
    consumer = lane.consumer(queue)
    message = await consumer.dequeue(lock_time=SECOND)
    assert message is not None
    assert consumer.holding == [message.id]
    assert await consumer.delete(message) is True
    assert consumer.holding == []
    assert await consumer.delete(message.id) is False
    assert (await lane.admin.queue_metrics(queue)).total == 0


async def test_batch_results_are_in_the_order_of_the_request(lane: Connection, queue: str) -> None:
    ids = await lane.producer(queue).batch_enqueue(range(4))
    consumer, other = lane.consumer(queue), lane.consumer(queue)
    mine = [message.id for message in await consumer.dequeue_many(2)]
    theirs = [message.id for message in await other.dequeue_many(2)]
    assert mine + theirs == ids
    asked = [ids[3], ids[0], ids[2], ids[1]]
    assert await consumer.delete_many(asked) == [False, True, False, True]
    assert await other.archive_many(asked) == [True, False, True, False]
    assert await other.delete_many([]) == []


async def test_only_the_consumer_with_the_lease_settles(lane: Connection, queue: str) -> None:
    await lane.producer(queue).enqueue(1)
    holder, stranger = lane.consumer(queue), lane.consumer(queue)
    message = await holder.dequeue()
    assert message is not None
    assert await stranger.delete(message.id) is False
    assert await stranger.archive(message.id) is False
    assert await stranger.release(message.id) is False
    assert await stranger.fail(message.id, "mine") is Outcome.LOST
    with pytest.raises(LeaseLost, match=str(message.id)):
        await stranger.extend(message.id, SECOND)
    assert await holder.delete(message.id) is True


async def test_consumer_with_an_expired_lease_changes_nothing(lane: Connection, queue: str) -> None:
    await lane.producer(queue).enqueue(1)
    late = lane.consumer(queue)
    first = await late.dequeue(lock_time=MOMENT)
    assert first is not None
    second = await lane.consumer(queue).dequeue(wait=LONG, lock_time=LONG)
    assert second is not None
    assert (second.id, second.attempt) == (first.id, 2)
    assert await late.delete(first) is False
    assert await late.archive(first) is False
    with pytest.raises(LeaseLost):
        await late.extend(first, SECOND)
    assert (await lane.admin.queue_metrics(queue)).locked == 1


async def test_consumer_may_lease_a_message_again(lane: Connection, queue: str) -> None:
    await lane.producer(queue).enqueue(1)
    consumer = lane.consumer(queue)
    first = await consumer.dequeue(lock_time=MOMENT)
    again = await consumer.dequeue(wait=LONG)
    assert first is not None
    assert again is not None
    assert await consumer.delete(first) is False
    assert consumer.holding == [again.id]
    assert await consumer.delete(again.id) is True


async def test_unsettled_messages_are_forgotten_in_time(
    lane: Connection, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laneway.library.consumer._MANY", 2)
    monkeypatch.setattr("laneway.library.consumer._GRACE", timedelta(0))
    consumer, other = lane.consumer(queue), lane.consumer(queue)
    lost, kept, last = await lane.producer(queue).batch_enqueue(range(3))
    await consumer.dequeue(lock_time=MOMENT)
    await consumer.dequeue(lock_time=SECOND)
    await consumer.extend(kept, LONG)
    assert consumer.holding == [lost, kept]
    await asyncio.sleep(SECOND.total_seconds())
    taken = await other.dequeue_many(2, LONG)
    assert [message.id for message in taken] == [lost, last]
    await other.release(last)
    await consumer.dequeue()
    assert consumer.holding == [kept, last]


async def test_archived_message_is_kept(lane: Connection, queue: str) -> None:
    message_id = await lane.producer(queue).enqueue({"keep": "me"})
    consumer = lane.consumer(queue)
    await consumer.dequeue()
    assert await consumer.archive(message_id) is True
    (kept,) = await lane.admin.messages(queue, Status.ARCHIVED)
    assert (kept.id, kept.body) == (message_id, '{"keep":"me"}')
    assert (await lane.admin.queue_metrics(queue)).archived == 1


async def test_failures_end_in_a_dead_letter(lane: Connection, queue: str) -> None:
    await lane.producer(queue).enqueue(1)
    consumer = lane.consumer(queue)
    outcomes = []
    for attempt in (1, 2, 3):
        message = await consumer.dequeue(wait=LONG)
        assert message is not None
        assert message.attempt == attempt
        outcomes.append(await consumer.fail(message, f"failed {attempt}"))
    assert outcomes == [Outcome.REQUEUED, Outcome.REQUEUED, Outcome.DEAD]
    (dead,) = await lane.admin.dlq_list(queue)
    assert dead.error == "failed 3"


async def test_any_true_value_dead_letters(lane: Connection, queue: str) -> None:
    await lane.producer(queue).enqueue(1)
    consumer = lane.consumer(queue)
    message = await consumer.dequeue()
    assert message is not None
    assert await consumer.fail(message, dead="yes") is Outcome.DEAD  # type: ignore[arg-type]


async def test_extend_sets_the_lease_duration(lane: Connection, queue: str) -> None:
    await lane.producer(queue).enqueue(1)
    consumer = lane.consumer(queue)
    message = await consumer.dequeue(lock_time=SECOND)
    assert message is not None
    until = await consumer.extend(message, timedelta(minutes=5))
    assert until - message.locked_until > timedelta(minutes=4)


async def test_lock_time_applies_to_a_batch(lane: Connection, queue: str) -> None:
    await lane.producer(queue).batch_enqueue([1, 2])
    (first, _) = await lane.consumer(queue).dequeue_many_with_delay(2, timedelta(hours=1))
    assert first.locked_until - first.created_at > timedelta(minutes=59)


async def test_iteration_yields_messages_as_they_arrive(lane: Connection, queue: str) -> None:
    consumer = lane.consumer(queue)
    producer = lane.producer(queue)
    await producer.batch_enqueue(range(3))
    seen = []
    async for message in consumer:
        seen.append(message.payload)
        await consumer.delete(message)
        if message.payload == 2:
            await producer.enqueue(99)
        if message.payload == 99:
            break
    assert seen == [0, 1, 2, 99]


async def test_filters_select_partition_and_priority(lane: Connection, queue: str) -> None:
    producer = lane.producer(queue)
    await producer.enqueue("a", partition="a")
    await producer.enqueue("b", partition="b", priority=4)
    message = await lane.consumer(queue, partition="a").dequeue()
    assert message is not None
    assert message.payload == "a"
    message = await lane.consumer(queue, priority=4).dequeue()
    assert message is not None
    assert message.payload == "b"


async def test_every_group_receives_every_message(lane: Connection, queue: str) -> None:
    await lane.producer(queue).enqueue(1)
    await lane.admin.create_group(queue, "audit")
    for group in ("default", "audit"):
        assert await lane.consumer(queue, group=group).dequeue() is not None
    with pytest.raises(GroupNotFound):
        await lane.consumer(queue, group="none").dequeue()


async def test_cancelled_wait_releases_its_message(lane: Connection, queue: str) -> None:
    waiting = asyncio.ensure_future(lane.consumer(queue).dequeue(wait=LONG))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await lane.producer(queue).enqueue(1)
    message = await lane.consumer(queue).dequeue(wait=LONG)
    assert message is not None
    assert message.attempt == 1


async def test_waiting_consumers_block_no_other_call(address: str, queue: str) -> None:
    one = replace(QUIET, connections=replace(QUIET.connections, size=1))
    async with laneway.connect(address, settings=one) as lane, asyncio.timeout(20):
        consumer = lane.consumer(queue)
        waiting = [asyncio.ensure_future(consumer.dequeue(wait=LONG * 2)) for _ in range(3)]
        await asyncio.sleep(0.05)
        await lane.producer(queue).batch_enqueue(range(3))
        assert {message.payload for message in await asyncio.gather(*waiting) if message} == {
            0,
            1,
            2,
        }


async def test_invalid_requests_are_refused(lane: Connection, queue: str) -> None:
    with pytest.raises(QueueNotFound):
        await lane.consumer("nowhere").dequeue()
    with pytest.raises(InvalidRequest, match="cannot claim 0"):
        await lane.consumer(queue).dequeue_many(0)


@pytest.mark.parametrize(
    "options",
    [
        {"wait": 5},
        {"lock_time": 5},
        {"lock_time": timedelta(0)},
        {"lock_time": timedelta(seconds=-1)},
        {"lock_time": timedelta(days=9000 * 365)},
    ],
    ids=str,
)
async def test_invalid_time_is_refused_and_claims_nothing(
    lane: Connection, queue: str, options: dict[str, Any]
) -> None:
    await lane.producer(queue).enqueue(1)
    (name,) = options
    with pytest.raises(InvalidRequest, match=f"{name} is"):
        await lane.consumer(queue).dequeue(**options)
    assert (await lane.admin.queue_metrics(queue)).pending == 1


@pytest.mark.parametrize(
    "duration", [timedelta(seconds=-5), timedelta(0), timedelta.max, 5], ids=str
)
async def test_lease_is_not_extended_into_the_past_or_beyond_the_last_date(
    lane: Connection, queue: str, duration: Any
) -> None:
    await lane.producer(queue).enqueue(1)
    consumer = lane.consumer(queue)
    message = await consumer.dequeue()
    assert message is not None
    with pytest.raises(InvalidRequest, match="duration is"):
        await consumer.extend(message, duration)
    assert await consumer.delete(message)


CALLS: list[Callable[[Consumer, Any], Awaitable[Any]]] = [
    lambda consumer, item: consumer.delete(item),
    lambda consumer, item: consumer.delete_many([item]),
    lambda consumer, item: consumer.archive(item),
    lambda consumer, item: consumer.archive_many([item]),
    lambda consumer, item: consumer.release(item),
    lambda consumer, item: consumer.fail(item, "no"),
    lambda consumer, item: consumer.extend(item, SECOND),
]
NAMES = ["delete", "delete_many", "archive", "archive_many", "release", "fail", "extend"]


@pytest.mark.parametrize("call", CALLS, ids=NAMES)
async def test_invalid_id_differs_from_a_message_without_a_lease(
    lane: Connection, queue: str, call: Callable[[Consumer, Any], Awaitable[Any]]
) -> None:
    await lane.producer(queue).enqueue(1)
    consumer = lane.consumer(queue)
    message = await consumer.dequeue()
    assert message is not None
    with pytest.raises(InvalidId, match="'zzz' is not a message id"):
        await call(consumer, "zzz")
    for wrong in (12, None, message.id.seq, (1, 2, 3)):
        with pytest.raises(InvalidRequest, match="is not a message"):
            await call(consumer, wrong)
    # A text is understood as the id that it is.
    result = await call(consumer, str(message.id))
    assert result not in (False, [False], Outcome.LOST)


@pytest.mark.parametrize("call", CALLS, ids=NAMES)
async def test_message_of_another_queue_or_group_is_refused(
    lane: Connection, queue: str, call: Callable[[Consumer, Any], Awaitable[Any]]
) -> None:
    other = f"{queue}-other"
    with pytest.raises(QueueNotFound):
        await lane.admin.get_queue(other)
    await lane.admin.create_queue(other)
    await lane.admin.create_group(queue, "audit")
    await lane.producer(queue).enqueue(1)
    consumer = lane.consumer(queue)
    message = await consumer.dequeue()
    assert message is not None
    for wrong in (lane.consumer(other), lane.consumer(queue, group="audit")):
        with pytest.raises(InvalidRequest, match=f'belongs to queue "{queue}", group "default"'):
            await call(wrong, message)
    assert await consumer.delete(message)
    await lane.admin.delete_queue(other)


async def test_single_message_is_refused_as_a_list(lane: Connection, queue: str) -> None:
    await lane.producer(queue).enqueue(1)
    consumer = lane.consumer(queue)
    message = await consumer.dequeue()
    assert message is not None
    with pytest.raises(InvalidRequest, match="is one message: use a list"):
        await consumer.delete_many(message)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="reason is 5"):
        await consumer.fail(message, 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="delay is 5"):
        await consumer.release(message, delay=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match=r"n is 1\.5"):
        await consumer.dequeue_many(1.5)  # type: ignore[arg-type]


async def test_ack_and_nack_are_delete_and_fail(lane: Connection, queue: str) -> None:
    consumer = lane.consumer(queue)
    await lane.producer(queue).batch_enqueue(range(4))
    first, second, third, fourth = await consumer.dequeue_many(4)
    assert await consumer.ack(first)
    assert not await consumer.ack(first)
    assert await consumer.delete(second)
    assert await consumer.nack(third, "no", dead=True) is Outcome.DEAD
    assert await consumer.fail(fourth, "no", dead=True) is Outcome.DEAD
    assert await consumer.nack(fourth) is Outcome.LOST
    assert {item.error for item in await lane.admin.dlq_list(queue)} == {"no"}


async def test_many_are_settled_in_order_and_each_once(lane: Connection, queue: str) -> None:
    consumer, other = lane.consumer(queue), lane.consumer(queue)
    await lane.producer(queue).batch_enqueue(range(7))
    mine, strange = await consumer.dequeue_many(6), (await other.dequeue_many(1))[0]
    assert await consumer.ack_many([mine[0], strange.id, mine[0]]) == [True, False, True]
    assert await consumer.release_many([mine[1], strange.id, mine[2]]) == [True, False, True]
    assert await consumer.nack_many([mine[3], strange.id, mine[4], mine[3]], "no", dead=True) == [
        Outcome.DEAD,
        Outcome.LOST,
        Outcome.DEAD,
        Outcome.DEAD,
    ]
    assert await consumer.release_many([mine[5]], delay=timedelta(hours=1)) == [True]
    assert await consumer.release_many([]) == []
    assert await consumer.nack_many([]) == []
    assert consumer.in_flight == []
    again = await consumer.dequeue_many(10)
    assert [(item.payload, item.attempt) for item in again] == [(1, 1), (2, 1)]
    assert (await lane.admin.queue_metrics(queue)).dead == 2
