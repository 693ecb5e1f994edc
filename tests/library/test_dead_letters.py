"""Dead letters by id, filter and kind of failure, on both transports."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from laneway import DeadLetterFilter
from laneway.domain.errors import InvalidRequest
from laneway.domain.messages import Nack

if TYPE_CHECKING:
    import laneway
    from tests.library.shell import Shell

REASONS = [
    "KeyError: 'a'",
    "KeyError: 'b'",
    "timed out after 3 s",
    "KeyError: 'c'",
    "timed out after 17 s",
]
KEY_ERROR, TIMEOUT = "KeyError: <text>", "timed out after <n> s"


@pytest.fixture
async def ids(lane: laneway.Connection, queue: str) -> list[str]:
    """Return the ids of dead letters, one of each reason, in this order."""
    await lane.admin.update_queue(queue, {"max_attempts": 1})
    made = []
    for number, reason in enumerate(REASONS):
        await lane.producer(queue).enqueue({"n": number}, partition=f"p{number % 2}")
        message = await lane.consumer(queue).dequeue()
        assert message is not None
        await lane.backend.nack([Nack(*message.receipt, reason=reason)])
        made.append(str(message.id))
    return made


async def test_dead_letters_are_grouped_by_kind_of_failure(
    lane: laneway.Connection, queue: str, ids: list[str]
) -> None:
    groups = await lane.admin.dlq_groups(queue)
    assert [(item.signature, item.messages, item.reason) for item in groups] == [
        (KEY_ERROR, 3, REASONS[3]),
        (TIMEOUT, 2, REASONS[4]),
    ]
    assert groups[0].first_at < groups[1].first_at < groups[0].last_at < groups[1].last_at
    assert len(await lane.admin.dlq_groups(queue, limit=1)) == 1
    assert len(ids) == len(REASONS)


async def test_dead_letters_are_filtered(
    lane: laneway.Connection, queue: str, ids: list[str]
) -> None:
    future = datetime.now(UTC) + timedelta(hours=1)
    for where, expected in (
        (DeadLetterFilter(signature=TIMEOUT), [2, 4]),
        (DeadLetterFilter(search="KEYERROR"), [0, 1, 3]),
        (DeadLetterFilter(search='"n":3'), [3]),
        (DeadLetterFilter(partition="p1"), [1, 3]),
        (DeadLetterFilter(partition="p1", signature=TIMEOUT), []),
        (DeadLetterFilter(since=future), []),
        (DeadLetterFilter(until=future), [0, 1, 2, 3, 4]),
        (DeadLetterFilter(ids=[ids[4], "1-1-999"]), [4]),  # type: ignore[list-item]
    ):
        found = await lane.admin.dlq_list(queue, where)
        assert [str(item.id) for item in found] == [ids[number] for number in expected], where


async def test_matching_dead_letters_are_redriven(
    lane: laneway.Connection, queue: str, ids: list[str]
) -> None:
    where = DeadLetterFilter(signature=KEY_ERROR)
    assert await lane.admin.dlq_redrive(queue, where, limit=2) == 2
    messages = await lane.consumer(queue).dequeue_many(10)
    assert {str(item.id) for item in messages} == {ids[0], ids[1]}
    assert {item.attempt for item in messages} == {1}
    assert await lane.admin.dlq_redrive(queue, DeadLetterFilter(ids=[ids[2], ids[2]])) == 1  # type: ignore[list-item]
    assert await lane.admin.dlq_redrive(queue, DeadLetterFilter(ids=[ids[2]])) == 0  # type: ignore[list-item]
    assert await lane.admin.dlq_redrive(queue) == 2


async def test_matching_dead_letters_are_deleted(
    lane: laneway.Connection, queue: str, ids: list[str]
) -> None:
    assert await lane.admin.dlq_purge(queue, DeadLetterFilter(signature=TIMEOUT)) == 2
    assert await lane.admin.dlq_purge(queue, DeadLetterFilter(ids=[ids[0]])) == 1  # type: ignore[list-item]
    assert await lane.admin.dlq_purge(queue) == 2
    assert (await lane.admin.queue_metrics(queue)).dead == 0


async def test_invalid_filters_are_refused(lane: laneway.Connection, queue: str) -> None:
    refused: tuple[object, ...] = (
        DeadLetterFilter(ids="1-1-1"),  # type: ignore[arg-type]
        DeadLetterFilter(ids=["x"]),  # type: ignore[list-item]
        DeadLetterFilter(signature=5),  # type: ignore[arg-type]
        DeadLetterFilter(since=datetime(2026, 1, 1)),  # noqa: DTZ001 - that is what is wrong
        {"ids": []},
    )
    for wrong in refused:
        with pytest.raises(InvalidRequest):
            await lane.admin.dlq_redrive(queue, wrong)  # type: ignore[arg-type]


async def test_commands_find_dead_letters(shell: Shell, queue: str, ids: list[str]) -> None:
    groups = shell.json("dlq", "groups", queue)
    assert [(item["signature"], item["messages"]) for item in groups] == [
        (KEY_ERROR, 3),
        (TIMEOUT, 2),
    ]
    listed = shell.json("dlq", "list", queue, "--signature", TIMEOUT)
    assert [item["id"] for item in listed] == [ids[2], ids[4]]
    assert shell.json("dlq", "list", queue, "--since", "2001-01-01", "--until", "2001-01-02") == []
    redriven = shell.run("dlq", "redrive", queue, "--id", ids[0])
    assert redriven.stdout == "1 dead letter redriven\n"
    assert shell.run("dlq", "redrive", queue, "--search", "keyerror").stdout == (
        "2 dead letters redriven\n"
    )
    assert shell.run("dlq", "redrive", queue, "--id", "x").returncode == 2
    both = shell.run("dlq", "purge", queue, "--id", ids[2], "--signature", TIMEOUT, "--yes")
    assert (both.returncode, shell.json("queue", "metrics", queue)["dead"]) == (2, 2)
    assert shell.run("dlq", "purge", queue, "--signature", TIMEOUT, "--yes").stdout == (
        "2 dead letters deleted\n"
    )
    assert shell.json("queue", "dlq", "redrive", queue) == {"redriven": 0}
