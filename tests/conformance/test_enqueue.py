"""Enqueueing: delays and dedup keys; and purging what was enqueued."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.conformance.surface import Capability, Counts, QueueOptions

if TYPE_CHECKING:
    from tests.conformance.clock import Clock
    from tests.conformance.surface import Surface

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
# Longer than the dedup window of any surface.
DEDUP_WINDOW = timedelta(minutes=10)


@pytest.mark.needs(Capability.MESSAGE_DELAY)
async def test_delayed_message_is_delivered_when_due(surface: Surface, clock: Clock) -> None:
    await surface.create_queue(QueueOptions())
    await surface.enqueue("later", delay=MINUTE)
    await surface.enqueue("now")
    [message] = await surface.claim()
    assert message.body == "now"
    assert await surface.ack(message)
    await clock.advance(surface.queue, MINUTE / 2)
    assert await surface.claim() == []
    await clock.advance(surface.queue, MINUTE / 2 + SECOND)
    assert [(each.body, each.attempt) for each in await surface.claim()] == [("later", 1)]


@pytest.mark.needs(Capability.QUEUE_DELAY)
async def test_queue_may_delay_every_message(surface: Surface, clock: Clock) -> None:
    await surface.create_queue(QueueOptions(delay=MINUTE))
    await surface.enqueue("later")
    assert await surface.claim() == []
    await clock.advance(surface.queue, MINUTE + SECOND)
    assert [(each.body, each.attempt) for each in await surface.claim()] == [("later", 1)]


@pytest.mark.invariant(10)
@pytest.mark.needs(Capability.DEDUP)
async def test_repeated_dedup_key_enqueues_nothing(surface: Surface) -> None:
    await surface.create_queue(QueueOptions())
    first = await surface.enqueue("first", dedup_key="same")
    assert await surface.enqueue("second", dedup_key="same") == first
    assert await surface.enqueue("third", dedup_key="other") != first
    assert [each.body for each in await surface.claim()] == ["first", "third"]


@pytest.mark.needs(Capability.DEDUP)
async def test_dedup_key_outlives_its_message(surface: Surface) -> None:
    await surface.create_queue(QueueOptions())
    await surface.enqueue("first", dedup_key="same")
    [message] = await surface.claim()
    await surface.ack(message)
    await surface.enqueue("second", dedup_key="same")
    assert await surface.claim() == []


@pytest.mark.needs(Capability.DEDUP)
async def test_dedup_key_may_be_used_again_after_its_window(surface: Surface, clock: Clock) -> None:
    await surface.create_queue(QueueOptions())
    first = await surface.enqueue("first", dedup_key="same")
    await clock.advance(surface.queue, DEDUP_WINDOW + SECOND)
    assert await surface.enqueue("second", dedup_key="same") != first
    assert [each.body for each in await surface.claim()] == ["first", "second"]


@pytest.mark.needs(Capability.PURGE)
async def test_purge_removes_messages_that_are_ready_and_in_flight(surface: Surface) -> None:
    await surface.create_queue(QueueOptions())
    for n in range(3):
        await surface.enqueue(str(n))
    await surface.claim(1)
    await surface.purge()
    assert await surface.counts() == Counts(ready=0, in_flight=0)
    assert await surface.claim() == []
    await surface.enqueue("after")
    assert [each.body for each in await surface.claim()] == ["after"]
