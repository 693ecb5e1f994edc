"""Failures: nacks, backoff, dead letters and redrive."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.conformance.surface import Capability, Counts, DeadLetter, QueueOptions

if TYPE_CHECKING:
    from tests.conformance.clock import Clock
    from tests.conformance.surface import Received, Surface

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


async def test_nacked_message_is_redelivered_and_the_attempt_counts(surface: Surface) -> None:
    await surface.create_queue(QueueOptions())
    message_id = await surface.enqueue("a")
    for attempt in (1, 2, 3):
        [message] = await surface.claim()
        assert (message.id, message.body, message.attempt) == (message_id, "a", attempt)
        assert await surface.nack(message)


@pytest.mark.needs(Capability.NACK_DELAY)
async def test_message_nacked_with_a_delay_is_redelivered_when_due(
    surface: Surface, clock: Clock
) -> None:
    await surface.create_queue(QueueOptions())
    await surface.enqueue("a")
    [message] = await surface.claim()
    assert await surface.nack(message, delay=MINUTE)
    assert await surface.claim() == []
    await clock.advance(surface.queue, MINUTE + SECOND)
    assert [each.attempt for each in await surface.claim()] == [2]


@pytest.mark.needs(Capability.BACKOFF)
async def test_backoff_of_the_queue_delays_a_nacked_message(surface: Surface, clock: Clock) -> None:
    await surface.create_queue(QueueOptions(backoff=MINUTE))
    await surface.enqueue("a")
    [message] = await surface.claim()
    assert await surface.nack(message)
    assert await surface.claim() == []
    # A tenth of it is random.
    await clock.advance(surface.queue, MINUTE * 1.1 + SECOND)
    assert [each.attempt for each in await surface.claim()] == [2]


@pytest.mark.invariant(7)
async def test_message_without_attempts_left_becomes_a_dead_letter(surface: Surface) -> None:
    await surface.create_queue(QueueOptions(max_attempts=2))
    await surface.enqueue("a")
    for attempt in (1, 2):
        [message] = await surface.claim()
        assert message.attempt == attempt
        assert await surface.nack(message)
    assert await surface.claim() == []
    assert [each.body for each in await surface.dead_letters()] == ["a"]
    assert await surface.counts() == Counts(ready=0, in_flight=0)


@pytest.mark.invariant(7)
async def test_expired_lease_counts_as_an_attempt(surface: Surface, clock: Clock) -> None:
    await surface.create_queue(QueueOptions(max_attempts=1))
    await surface.enqueue("a")
    await surface.claim()
    await clock.advance(surface.queue, MINUTE)
    assert await surface.claim() == []
    assert [each.body for each in await surface.dead_letters()] == ["a"]


@pytest.mark.needs(Capability.DEAD_LETTER_REASON)
async def test_dead_letter_keeps_the_reason_of_the_last_nack(surface: Surface) -> None:
    await surface.create_queue(QueueOptions(max_attempts=2))
    await surface.enqueue("a")
    for reason in ("first", "second"):
        [message] = await surface.claim()
        await surface.nack(message, reason=reason)
    assert await surface.dead_letters() == [DeadLetter(body="a", reason="second")]


@pytest.mark.needs(Capability.DEAD_LETTER_AT_ONCE)
async def test_nack_may_dead_letter_a_message_with_attempts_left(surface: Surface) -> None:
    await surface.create_queue(QueueOptions())
    await surface.enqueue("a")
    [message] = await surface.claim()
    assert await surface.nack(message, dead=True)
    assert await surface.claim() == []
    assert [each.body for each in await surface.dead_letters()] == ["a"]


@pytest.mark.needs(Capability.REDRIVE)
async def test_redriven_dead_letter_is_delivered_with_attempts_from_one(surface: Surface) -> None:
    await surface.create_queue(QueueOptions(max_attempts=1))
    await surface.enqueue("a")
    await surface.nack(await _claim_one(surface))
    assert len(await surface.dead_letters()) == 1
    await surface.redrive()
    again = await _claim_one(surface)
    assert (again.body, again.attempt) == ("a", 1)
    assert await surface.ack(again)
    assert await surface.dead_letters() == []


async def _claim_one(surface: Surface) -> Received:
    [message] = await surface.claim()
    return message
