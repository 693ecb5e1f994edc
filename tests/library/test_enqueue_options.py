"""Options of one enqueue: when it is due, and for how long its dedup key is remembered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from laneway.domain.errors import InvalidRequest
from tests.library.workers import until

if TYPE_CHECKING:
    from laneway import Connection

HOUR = timedelta(hours=1)


async def test_message_enqueued_at_a_moment_is_delayed_until_then(
    lane: Connection, queue: str
) -> None:
    producer, consumer = lane.producer(queue), lane.consumer(queue)
    await producer.enqueue("later", at=datetime.now(UTC) + HOUR)
    await producer.enqueue("past", at=datetime.now(UTC) - HOUR)
    (message,) = await consumer.dequeue_many(10)
    assert message.payload == "past"
    (waiting,) = await lane.admin.messages(queue)
    assert waiting.available_at is not None
    assert timedelta(minutes=59) < waiting.available_at - datetime.now(UTC) <= HOUR


async def test_delay_and_moment_together_and_naive_moments_are_refused(
    lane: Connection, queue: str
) -> None:
    producer = lane.producer(queue)
    with pytest.raises(InvalidRequest, match="delay and at are both given"):
        await producer.enqueue(1, at=datetime.now(UTC), delay=HOUR)
    with pytest.raises(InvalidRequest, match="datetime with a time zone"):
        await producer.batch_enqueue([1], at=datetime.now())  # noqa: DTZ005 - what is refused


async def test_unique_job_is_enqueued_once_in_its_own_window(lane: Connection, queue: str) -> None:
    producer = lane.producer(queue)
    first = await producer.enqueue(1, dedup_key="invoice-7", dedup_window=HOUR)
    assert await producer.enqueue(2, dedup_key="invoice-7", dedup_window=HOUR) == first

    # The window belongs to the message that was enqueued.
    moment = timedelta(milliseconds=50)
    short = await producer.enqueue(3, dedup_key="invoice-8", dedup_window=moment)

    async def is_new() -> bool:
        return await producer.enqueue(4, dedup_key="invoice-8", dedup_window=moment) != short

    await until(is_new)
    assert await producer.enqueue(5, dedup_key="invoice-7") == first


async def test_window_without_a_key_and_empty_windows_are_refused(
    lane: Connection, queue: str
) -> None:
    producer = lane.producer(queue)
    with pytest.raises(InvalidRequest, match="without a dedup_key"):
        await producer.enqueue(1, dedup_window=HOUR)
    with pytest.raises(InvalidRequest, match="more than zero"):
        await producer.enqueue(1, dedup_key="a", dedup_window=timedelta(0))


async def test_dequeue_at_delivers_what_is_due_by_then(lane: Connection, queue: str) -> None:
    producer, consumer = lane.producer(queue), lane.consumer(queue)
    await producer.enqueue("tomorrow", delay=24 * HOUR)
    await producer.enqueue("soon", delay=HOUR)
    await producer.enqueue("now")
    soon = datetime.now(UTC) + 2 * HOUR
    found = await consumer.dequeue_at(soon, 10, lock_time=timedelta(minutes=1))
    assert [message.payload for message in found] == ["now", "soon"]
    assert await consumer.ack_many(found) == [True, True]
    assert await consumer.dequeue_at(soon, 10) == []


async def test_dequeue_at_delivers_a_message_that_waits_for_its_retry(
    lane: Connection, queue: str
) -> None:
    consumer = lane.consumer(queue)
    await lane.producer(queue).enqueue("again")
    message = await consumer.dequeue()
    assert message is not None
    await consumer.nack(message, delay=HOUR)
    assert await consumer.dequeue_at(datetime.now(UTC)) == []
    (again,) = await consumer.dequeue_at(datetime.now(UTC) + 2 * HOUR)
    assert again.attempt == 2
