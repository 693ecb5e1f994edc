"""Order: by priority, then by age; strictly within a partition of an ordered group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.surface import Capability, QueueOptions

if TYPE_CHECKING:
    from tests.conformance.surface import Received, Surface


@pytest.mark.needs(Capability.PRIORITY)
async def test_higher_priority_is_delivered_first_then_older(surface: Surface) -> None:
    await surface.create_queue(QueueOptions())
    for n, priority in enumerate((0, 5, 0, 9, 5)):
        await surface.enqueue(str(n), priority=priority)
    assert [each.body for each in await surface.claim(5)] == ["3", "1", "4", "0", "2"]


async def test_messages_of_a_partition_are_delivered_in_order(surface: Surface) -> None:
    await surface.create_queue(QueueOptions())
    for n in range(4):
        await surface.enqueue(str(n))
    assert [each.body for each in await surface.claim(3)] == ["0", "1", "2"]


@pytest.mark.invariant(5)
@pytest.mark.needs(Capability.ORDERED_GROUPS)
async def test_partition_in_flight_is_not_delivered_to_another_consumer(surface: Surface) -> None:
    await surface.create_queue(QueueOptions(ordered=True))
    for body in ("a1", "a2", "b1", "b2"):
        await surface.enqueue(body, partition=body[0])
    [first] = await surface.claim(1)
    [second] = await surface.claim(1)
    assert (first.body, second.body) == ("a1", "b1")
    assert await surface.claim() == []
    await surface.ack(first)
    assert [each.body for each in await surface.claim()] == ["a2"]


@pytest.mark.needs(Capability.ORDERED_GROUPS)
async def test_nacked_message_is_redelivered_before_those_behind_it(surface: Surface) -> None:
    await surface.create_queue(QueueOptions(ordered=True))
    for n in range(3):
        await surface.enqueue(str(n))
    [failed] = await surface.claim(1)
    await surface.nack(failed)
    assert await _process(surface) == [("0", 2), ("1", 1), ("2", 1)]


@pytest.mark.needs(Capability.ORDERED_GROUPS)
async def test_partition_continues_behind_a_dead_letter(surface: Surface) -> None:
    await surface.create_queue(QueueOptions(ordered=True, max_attempts=1))
    for n in range(2):
        await surface.enqueue(str(n))
    [failed] = await surface.claim(1)
    await surface.nack(failed)
    assert await _process(surface) == [("1", 1)]


async def _process(surface: Surface) -> list[tuple[str, int]]:
    """Ack all messages one by one, and return their bodies and attempts."""
    done: list[Received] = []
    while claimed := await surface.claim(1):
        assert await surface.ack(claimed[0])
        done += claimed
    return [(each.body, each.attempt) for each in done]
