"""Partitions with too many messages in flight: who they are, by claims, acks and counts."""

from __future__ import annotations

import asyncio
from time import monotonic
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from laneway.domain.errors import Unavailable
from laneway.engine.noisy_partitions import AGE, NoisyPartitions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.messages import Delivery
    from laneway.domain.queues import Queue

GROUP = 7
QUEUE = cast(
    "Queue", SimpleNamespace(name="q", groups={"default": SimpleNamespace(group_id=GROUP)})
)


def deliver(partition: str, count: int, *, lane: int = 1) -> list[Delivery]:
    each = SimpleNamespace(partition=partition, lane=lane)
    return cast("list[Delivery]", [each] * count)


class Counted:
    """A database that counts."""

    def __init__(self) -> None:
        self.rows: Sequence[tuple[str, int]] = ()
        self.fails = False
        self.calls = 0
        self.open = asyncio.Event()
        self.open.set()

    async def count(self, _queue: str) -> Sequence[tuple[str, int]]:
        self.calls += 1
        await self.open.wait()
        if self.fails:
            raise Unavailable("no")
        return self.rows


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def noisy(counted: Counted) -> NoisyPartitions:
    return NoisyPartitions(counted.count)


async def test_group_without_partitions_is_not_watched(
    noisy: NoisyPartitions, counted: Counted
) -> None:
    noisy.note_claimed(QUEUE, deliver("", 100))
    noisy.note_settled(QUEUE, [1] * 50)
    await noisy.refresh(QUEUE)
    assert noisy.find(GROUP) is None
    assert counted.calls == 0


@pytest.mark.parametrize(
    ("own", "others", "yields"),
    [(29, 0, False), (30, 0, True), (30, 269, True), (30, 270, False), (300, 2699, True)],
)
def test_partition_yields_from_30_messages_and_a_tenth_on(
    noisy: NoisyPartitions, own: int, others: int, *, yields: bool
) -> None:
    noisy.note_claimed(QUEUE, deliver("a", own))
    noisy.note_claimed(QUEUE, deliver("", others, lane=2))
    assert noisy.find(GROUP) == (["a"] if yields else None)


def test_settled_messages_count_no_more(noisy: NoisyPartitions) -> None:
    noisy.note_claimed(QUEUE, deliver("a", 31))
    noisy.note_settled(QUEUE, [1])
    assert noisy.find(GROUP) == ["a"]
    noisy.note_settled(QUEUE, [1, 99])
    assert noisy.find(GROUP) is None
    noisy.note_settled(QUEUE, [1] * 40)
    noisy.note_claimed(QUEUE, deliver("a", 30))
    assert noisy.find(GROUP) == ["a"]


async def test_count_of_the_database_replaces_what_was_noted(
    noisy: NoisyPartitions, counted: Counted
) -> None:
    noisy.note_claimed(QUEUE, deliver("a", 40))
    counted.rows = [("", 10), ("a", 5), ("b", 50)]
    await noisy.refresh(QUEUE)
    assert noisy.find(GROUP) == ["b"]
    # The count is new.
    await noisy.refresh(QUEUE)
    assert counted.calls == 1


async def test_only_one_call_counts(noisy: NoisyPartitions, counted: Counted) -> None:
    noisy.note_claimed(QUEUE, deliver("a", 40))
    counted.open.clear()
    first = asyncio.create_task(noisy.refresh(QUEUE))
    while not counted.calls:
        await asyncio.sleep(0)
    await noisy.refresh(QUEUE)
    counted.open.set()
    await first
    assert counted.calls == 1


@pytest.mark.parametrize("cancelled", [False, True])
async def test_count_that_failed_is_repeated_later(
    noisy: NoisyPartitions, counted: Counted, monkeypatch: pytest.MonkeyPatch, *, cancelled: bool
) -> None:
    noisy.note_claimed(QUEUE, deliver("a", 40))
    if cancelled:
        counted.open.clear()
        first = asyncio.create_task(noisy.refresh(QUEUE))
        while not counted.calls:
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        counted.open.set()
    else:
        counted.fails = True
        await noisy.refresh(QUEUE)
        counted.fails = False
    assert noisy.find(GROUP) == ["a"]
    later = monotonic() + AGE + 1
    monkeypatch.setattr("laneway.engine.noisy_partitions.monotonic", lambda: later)
    await noisy.refresh(QUEUE)
    assert counted.calls == 2
    assert noisy.find(GROUP) is None
