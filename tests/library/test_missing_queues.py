"""Queues and groups that workers, workflows and `exist_ok` create where they are missing."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

import laneway
from laneway.domain.errors import GroupNotFound, QueueExists, QueueNotFound
from tests.library.conftest import QUIET
from tests.library.workers import QUICK, make_app, running, until
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from laneway import Connection, Message
    from tests.library.shell import Shell

LONG = timedelta(seconds=30)


def make_name() -> str:
    return f"new-{uuid4().hex[:8]}"


async def test_exist_ok_creates_a_queue_once_and_leaves_it_unchanged(lane: Connection) -> None:
    name = make_name()
    made = await lane.admin.create_queue(name, laneway.QueueSettings(max_attempts=7), exist_ok=True)
    assert made.settings.max_attempts == 7
    found = await lane.admin.create_queue(name, exist_ok=True)
    assert (found.queue_id, found.settings.max_attempts) == (made.queue_id, 7)
    with pytest.raises(QueueExists):
        await lane.admin.create_queue(name)


async def test_exist_ok_is_for_many_at_once(lane: Connection) -> None:
    name = make_name()
    made = await asyncio.gather(*(lane.admin.create_queue(name, exist_ok=True) for _ in range(10)))
    assert len({queue.queue_id for queue in made}) == 1


def test_command_creates_a_queue_unless_it_exists(shell: Shell) -> None:
    name = make_name()
    create = ("queue", "create", name, "--exist-ok")
    assert shell.run(*create).stdout == f"queue {name} created\n"
    assert shell.run(*create).stdout == f"queue {name} exists and is unchanged\n"
    assert shell.run("queue", "create", name).returncode == 4


async def test_worker_creates_the_queues_and_groups_of_its_handlers(
    lane: Connection, address: str
) -> None:
    app, name, seen = make_app(address), make_name(), []

    @app.handler(name)
    async def handle(message: Message) -> None:
        seen.append(message.payload)

    @app.handler(name, group="audit")
    async def audit(message: Message) -> None:
        seen.append(message.payload)

    async with running(app):
        await lane.producer(name).enqueue(1)
        await until(lambda: check(len(seen) == 2))
    assert (await lane.admin.get_queue(name)).settings == laneway.QueueSettings()
    assert {group.name for group in await lane.admin.list_groups(name)} == {"default", "audit"}


async def test_worker_creates_the_queues_of_its_schedules(lane: Connection, address: str) -> None:
    app, name = make_app(address), make_name()
    app.schedule(f"clean-{name}", "0 3 * * *", queue=name)
    async with running(app):
        await until(lambda: lane.admin.list_schedules(name))


async def test_run_starts_before_any_worker_ran(lane: Connection, address: str) -> None:
    app, name = make_app(address), make_name()

    @app.workflow(name=name, queue=name)
    async def double(number: int) -> int:
        return 2 * number

    run = await lane.start(name, 21, queue=name)
    assert (await lane.admin.get_queue(name)).settings.max_attempts is None
    async with running(app):
        assert await run.result(LONG) == 42


async def test_write_key_creates_no_queue(database: str) -> None:
    async with laneway.connect(database, settings=QUIET) as lane:
        await lane.admin.create_queue("mail")
        admin = await lane.admin.create_key("admin")
        key = await lane.admin.create_key("write")
    async with run_laneway(database) as server:
        async with laneway.connect(server.url, api_key=key.text) as lane:
            assert (await lane.admin.create_queue("mail", exist_ok=True)).name == "mail"
            with pytest.raises(QueueNotFound, match="laneway queue create letters"):
                await lane.admin.create_queue("letters", exist_ok=True)
            with pytest.raises(QueueNotFound, match="Start a worker"):
                await lane.start("flow")
        app = laneway.App(server.url, api_key=key.text, worker=QUICK)
        app.handler("mail", group="audit")(print)
        with pytest.raises(GroupNotFound, match="audit"):
            await app.worker().run()
        app.handler("letters")(print)
        with pytest.raises(QueueNotFound, match="laneway queue create letters"):
            await app.worker().run()
        async with laneway.connect(server.url, api_key=admin.text) as lane:
            assert [queue.name for queue in await lane.admin.list_queues()] == ["mail"]


async def check(what: object) -> object:
    return what
