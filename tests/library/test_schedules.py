"""Periodic jobs are listed, run by hand, paused and resumed, on both transports."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import laneway
from laneway.domain.errors import InvalidRequest, QueueNotFound, ScheduleNotFound
from laneway.domain.messages import OutgoingMessage
from tests.library.conftest import QUIET
from tests.library.workers import running, until

if TYPE_CHECKING:
    from tests.library.shell import Shell


async def fire(lane: laneway.Connection, queue: str, ago: timedelta) -> bool:
    return await lane.backend.workers.fire_schedule(
        "tick", "* * * * *", datetime.now(UTC) - ago, queue=queue, message=OutgoingMessage('"t"')
    )


async def test_worker_registers_its_schedules(address: str, queue: str) -> None:
    app = laneway.App(address, settings=QUIET)
    # Never due while this test runs.
    app.schedule("leap", "0 0 29 2 *", queue=queue, payload={"n": 1}, partition="p", priority=3)
    app.schedule("plain", "0 0 29 2 *", queue=queue)
    async with running(app), laneway.connect(address, settings=QUIET) as lane:

        async def registered() -> bool:
            return len(await lane.admin.list_schedules(queue)) == 2

        await until(registered)
        (leap, plain) = await lane.admin.list_schedules(queue)
        assert leap == ("leap", queue, "0 0 29 2 *", None, None, None)
        message_id = await lane.admin.run_schedule("leap", queue=queue)
        message = await lane.consumer(queue).dequeue()
        assert message is not None
        assert message.id == message_id
        assert (message.payload, message.partition, message.priority) == ({"n": 1}, "p", 3)
        await lane.admin.run_schedule(plain.name, queue=queue)
        message = await lane.consumer(queue).dequeue()
        assert message is not None
        assert message.payload["schedule"] == "plain"
        datetime.fromisoformat(message.payload["due"])


async def test_paused_schedule_does_not_fire(lane: laneway.Connection, queue: str) -> None:
    admin = lane.admin
    assert await fire(lane, queue, timedelta(minutes=3)) is True
    since = await admin.pause_schedule("tick", queue=queue)
    assert since is not None
    assert await admin.pause_schedule("tick", queue=queue) == since
    assert await fire(lane, queue, timedelta(minutes=2)) is False
    (paused,) = await admin.list_schedules(queue)
    assert paused.paused_at == since
    await admin.run_schedule("tick", queue=queue)
    await admin.resume_schedule("tick", queue=queue)
    assert (await admin.list_schedules(queue))[0].paused_at is None
    assert await fire(lane, queue, timedelta(minutes=1)) is True
    assert (await admin.queue_metrics(queue)).pending == 3


async def test_registering_again_keeps_the_pause(lane: laneway.Connection, queue: str) -> None:
    schedules = lane.backend.schedules
    message = OutgoingMessage("1")
    await schedules.register("tick", "0 0 * * *", queue=queue, message=message)
    await lane.admin.pause_schedule("tick", queue=queue)
    await schedules.register("tick", "0 1 * * *", queue=queue, message=message)
    (found,) = await lane.admin.list_schedules(queue)
    assert found.expression == "0 1 * * *"
    assert found.paused_at is not None


async def test_unknown_schedule_is_refused(lane: laneway.Connection, queue: str) -> None:
    for call in (lane.admin.run_schedule, lane.admin.pause_schedule, lane.admin.resume_schedule):
        with pytest.raises(ScheduleNotFound, match="laneway schedule list"):
            await call("nothing", queue=queue)
        with pytest.raises(InvalidRequest):
            await call(5, queue=queue)  # type: ignore[arg-type]
    with pytest.raises(QueueNotFound):
        await lane.admin.list_schedules("nowhere")


async def test_schedule_commands(lane: laneway.Connection, shell: Shell, queue: str) -> None:
    name = f"job-of-{queue}"
    await lane.backend.schedules.register(
        name, "0 0 * * *", queue=queue, message=OutgoingMessage('"hello"')
    )
    (listed,) = shell.json("schedule", "list", "--queue", queue)
    assert (listed["name"], listed["fired_for"], listed["paused_at"]) == (name, None, None)
    assert shell.json("schedule", "pause", name)["paused_at"] is not None
    pushed = shell.json("schedule", "run", name)
    (taken,) = shell.json("dequeue", "--queue", queue, "--ack")
    assert (taken["id"], taken["payload"]) == (pushed["id"], "hello")
    resumed = shell.run("schedule", "resume", name, "--queue", queue)
    assert resumed.stdout == f"schedule {name} of queue {queue} resumed\n"
    missing = shell.run("schedule", "run", "nothing")
    assert missing.returncode == 3
    assert missing.stderr.startswith('laneway: schedule "nothing" not found: a worker registers')
    assert shell.run("schedule", "list", "--queue", "nowhere").returncode == 3
