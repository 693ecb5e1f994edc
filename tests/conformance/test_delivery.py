"""Delivery: every message reaches one consumer, unchanged, and an acked one never again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.surface import Counts, QueueOptions

if TYPE_CHECKING:
    from tests.conformance.surface import Surface


async def test_message_is_delivered_as_it_was_enqueued(surface: Surface) -> None:
    await surface.create_queue(QueueOptions())
    body = 'text with "quotes", \\ and ünïcödé \U0001f600'
    message_id = await surface.enqueue(body)
    [message] = await surface.claim()
    assert (message.id, message.body, message.attempt) == (message_id, body, 1)


async def test_acked_message_is_not_delivered_again(surface: Surface) -> None:
    await surface.create_queue(QueueOptions())
    bodies = ["a", "b", "c"]
    for body in bodies:
        await surface.enqueue(body)
    messages = await surface.claim()
    assert sorted(each.body for each in messages) == bodies
    assert [await surface.ack(each) for each in messages] == [True] * 3
    assert await surface.claim() == []
    assert await surface.counts() == Counts(ready=0, in_flight=0)


@pytest.mark.invariant(4)
async def test_message_in_flight_is_not_delivered_to_another_consumer(surface: Surface) -> None:
    await surface.create_queue(QueueOptions())
    for n in range(6):
        await surface.enqueue(str(n), partition=str(n))
    first, second = await surface.claim(3), await surface.claim(3)
    assert sorted(each.body for each in [*first, *second]) == list("012345")
    assert await surface.claim() == []


async def test_claim_returns_at_most_the_number_asked_for(surface: Surface) -> None:
    await surface.create_queue(QueueOptions())
    for n in range(3):
        await surface.enqueue(str(n))
    assert len(await surface.claim(2)) == 2


@pytest.mark.invariant(11)
async def test_counts_follow_a_message(surface: Surface) -> None:
    await surface.create_queue(QueueOptions())
    for n in range(3):
        await surface.enqueue(str(n))
    assert await surface.counts() == Counts(ready=3, in_flight=0)
    [message] = await surface.claim(1)
    assert await surface.counts() == Counts(ready=2, in_flight=1)
    await surface.ack(message)
    assert await surface.counts() == Counts(ready=2, in_flight=0)
