"""Leases: they end, they are extended and released, and only the newest token settles."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.conformance.surface import Capability, Counts, QueueOptions

if TYPE_CHECKING:
    from tests.conformance.clock import Clock
    from tests.conformance.surface import Surface

LEASE = timedelta(seconds=30)
SECOND = timedelta(seconds=1)


async def test_expired_lease_returns_message_to_queue(surface: Surface, clock: Clock) -> None:
    await surface.create_queue(QueueOptions(lease=LEASE))
    await surface.enqueue("a")
    [first] = await surface.claim()
    await clock.advance(surface.queue, LEASE / 2)
    assert await surface.claim() == []
    await clock.advance(surface.queue, LEASE)
    [again] = await surface.claim()
    assert (again.id, again.body, again.attempt) == (first.id, "a", 2)
    assert await surface.ack(again)


async def test_extended_lease_outlives_its_first_expiry(surface: Surface, clock: Clock) -> None:
    await surface.create_queue(QueueOptions(lease=LEASE))
    await surface.enqueue("a")
    [message] = await surface.claim()
    assert await surface.extend(message, 10 * LEASE)
    await clock.advance(surface.queue, 9 * LEASE)
    assert await surface.claim() == []
    assert await surface.ack(message)


async def test_lease_is_extended_from_now_on(surface: Surface, clock: Clock) -> None:
    await surface.create_queue(QueueOptions(lease=10 * LEASE))
    await surface.enqueue("a")
    [message] = await surface.claim()
    assert await surface.extend(message, LEASE)
    await clock.advance(surface.queue, LEASE + SECOND)
    assert [each.attempt for each in await surface.claim()] == [2]


@pytest.mark.invariant(6)
@pytest.mark.needs(Capability.EXCLUSIVE_TOKENS)
async def test_token_of_an_expired_lease_settles_nothing(surface: Surface, clock: Clock) -> None:
    await surface.create_queue(QueueOptions(lease=LEASE))
    await surface.enqueue("a")
    [late] = await surface.claim()
    await clock.advance(surface.queue, LEASE + SECOND)
    [message] = await surface.claim()
    assert not await surface.ack(late)
    assert not await surface.nack(late)
    assert not await surface.extend(late, LEASE)
    assert await surface.counts() == Counts(ready=0, in_flight=1)
    assert await surface.ack(message)


@pytest.mark.needs(Capability.EXCLUSIVE_TOKENS)
async def test_token_of_an_acked_message_settles_nothing(surface: Surface) -> None:
    await surface.create_queue(QueueOptions())
    await surface.enqueue("a")
    [message] = await surface.claim()
    assert await surface.ack(message)
    assert not await surface.nack(message)
    assert not await surface.extend(message, LEASE)
    assert await surface.claim() == []


@pytest.mark.needs(Capability.EXCLUSIVE_TOKENS)
async def test_token_of_a_nacked_message_settles_nothing(surface: Surface) -> None:
    await surface.create_queue(QueueOptions())
    await surface.enqueue("a")
    [message] = await surface.claim()
    assert await surface.nack(message)
    assert not await surface.ack(message)
    assert not await surface.nack(message)
    assert [each.attempt for each in await surface.claim()] == [2]


@pytest.mark.invariant(7)
@pytest.mark.needs(Capability.RELEASE)
async def test_released_message_is_redelivered_without_counting_an_attempt(
    surface: Surface,
) -> None:
    await surface.create_queue(QueueOptions(max_attempts=2))
    await surface.enqueue("a")
    for _ in range(3):
        [message] = await surface.claim()
        assert message.attempt == 1
        assert await surface.release(message)
        assert not await surface.release(message)
    assert await surface.counts() == Counts(ready=1, in_flight=0)
