"""Consumer groups and settings of queues, changed from the library and the command."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from laneway.domain.errors import GroupNotFound, InvalidRequest

if TYPE_CHECKING:
    import laneway
    from tests.library.shell import Shell


async def test_group_is_listed_repositioned_and_deleted(
    lane: laneway.Connection, queue: str
) -> None:
    admin = lane.admin
    await admin.create_group(queue, "reports")
    assert {item.name for item in await admin.list_groups(queue)} == {"default", "reports"}
    for number in range(3):
        await lane.producer(queue).enqueue(number)
    consumer = lane.consumer(queue, group="reports")
    assert len(await consumer.delete_many(await consumer.dequeue_many(3))) == 3
    start = datetime.now(UTC) - timedelta(hours=1)
    for place, left in (("earliest", 3), ("latest", 0), (start, 3), (3, 1)):
        assert await admin.seek(queue, place, group="reports") == 1  # type: ignore[arg-type]
        assert (await admin.queue_metrics(queue, group="reports")).pending == left, place
    assert (await admin.queue_metrics(queue)).pending == 3
    await admin.delete_group(queue, "reports")
    with pytest.raises(GroupNotFound):
        await admin.seek(queue, "latest", group="reports")


@pytest.mark.parametrize("wrong", ["newest", True, 0, 1.5, None, datetime(2026, 1, 1)])  # noqa: DTZ001
async def test_invalid_place_is_refused(
    lane: laneway.Connection, queue: str, wrong: object
) -> None:
    with pytest.raises(InvalidRequest):
        await lane.admin.seek(queue, wrong)  # type: ignore[arg-type]


def test_group_commands(shell: Shell, queue: str) -> None:
    assert shell.json("group", "create", queue, "reports") == {"queue": queue, "group": "reports"}
    assert shell.run("group", "create", queue, "reports").returncode == 4
    shell.run("enqueue", "1", "--queue", queue)
    assert shell.json("group", "seek", queue, "reports", "latest", "--yes") == {"lanes": 1}
    listed = {item["group"]: item["pending"] for item in shell.json("group", "list", queue)}
    assert listed == {"default": 1, "reports": 0}
    moved = shell.run("group", "seek", queue, "reports", "2026-01-31T12:00:00Z", "--yes")
    assert moved.stdout == f"group reports of queue {queue} moved in 1 lane\n"
    assert shell.run("group", "seek", queue, "reports", "yesterday", "--yes").returncode == 2
    assert shell.run("group", "delete", queue, "reports", "--yes").returncode == 0
    assert shell.run("group", "delete", queue, "reports", "--yes").returncode == 3
    assert shell.run("group", "delete", queue, "default", "--yes").returncode == 2


def test_queue_update_changes_what_it_names(shell: Shell, queue: str) -> None:
    changed = shell.json("queue", "update", queue, "--max-attempts", "7", "--lock-time", "1.5")
    assert changed == {"name": queue, "changed": ["lease", "max_attempts"]}
    shell.json("queue", "update", queue, "--description", "letters", "--no-durable-claims")
    shown = shell.json("queue", "get", queue)
    assert (shown["max_attempts"], shown["lease"], shown["description"]) == (7, 1.5, "letters")
    assert shown["durable_claims"] is False
    shell.json("queue", "update", queue, "--max-attempts", "0", "--description", "")
    shown = shell.json("queue", "get", queue)
    assert (shown["max_attempts"], shown["description"], shown["lease"]) == (None, None, 1.5)
    assert shell.run("queue", "update", queue).returncode == 2
    assert shell.run("queue", "update", "nowhere", "--delay", "1").returncode == 3
