"""Every way in accepts the same priorities."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import laneway
from laneway.domain.errors import InvalidRequest
from laneway.domain.settings import EngineSettings
from tests.library.shell import Shell
from tests.protocol.servers import make_queue, run_laneway

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.library.conftest import Place

WORDS = "priority is {}: use 0 to {}, or raise max_priority_levels"


def read_limits(document: dict[str, dict[str, dict[str, dict[str, object]]]]) -> set[object]:
    schemas = document["components"]["schemas"]
    return {schemas[name]["properties"]["priority"]["maximum"] for name in ("NewMessage", "Edit")}  # type: ignore[index]


async def push(api: httpx.AsyncClient, priority: int) -> int:
    message = {"type": "t", "payload": 1, "priority": priority, "queue": "mail"}
    status = (await api.post("/queue/message", json=message)).status_code
    assert (await api.post("/queue/batch", json=[message])).status_code == status
    return status


async def test_priorities_go_to_nine(lane: laneway.Connection, queue: str) -> None:
    producer = lane.producer(queue)
    await producer.enqueue(1, priority=9)
    limits = {-1: "use 0 or more", 10: "use 0 to 9", 99: "use 0 to 9", 40_000: "use 0 to"}
    for wrong, words in limits.items():
        for call in (
            producer.enqueue(1, priority=wrong),
            producer.batch_enqueue([1], priority=wrong),
        ):
            with pytest.raises(InvalidRequest) as raised:
                await call
            assert "priority" in str(raised.value)
            assert words in str(raised.value)
    assert (await lane.admin.queue_metrics(queue)).total == 1


@pytest.mark.parametrize("wrong", ["10", "99"])
def test_command_refuses_the_same_priorities(shell: Shell, queue: str, wrong: str) -> None:
    done = shell.run("enqueue", "1", "--queue", queue, "--priority", wrong)
    assert (done.returncode, done.stderr) == (2, f"laneway: {WORDS.format(wrong, 9)}\n")
    assert shell.run("enqueue", "1", "--queue", queue, "--priority", "9").returncode == 0


@pytest.mark.parametrize("levels", [3, 200])
async def test_one_setting_limits_every_way_in(database: str, tmp_path: Path, levels: int) -> None:
    await make_queue(database, "mail")
    highest = levels - 1
    async with (
        run_laneway(database, LANEWAY_MAX_PRIORITY_LEVELS=str(levels)) as server,
        server.client() as api,
        laneway.connect(server.url) as lane,
    ):
        assert read_limits((await api.get("/doc")).json()) == {highest}
        assert await push(api, highest) == 201
        assert await push(api, levels) == 422
        producer = lane.producer("mail")
        await producer.enqueue(1, priority=highest)
        with pytest.raises(InvalidRequest, match=WORDS.format(levels, highest)):
            await producer.enqueue(1, priority=levels)
        shell = Shell(server.url, tmp_path)
        enqueue = ("enqueue", "1", "--queue", "mail", "--priority")
        assert (await asyncio.to_thread(shell.run, *enqueue, str(highest))).returncode == 0
        refused = await asyncio.to_thread(shell.run, *enqueue, str(levels))
        assert refused.stderr == f"laneway: {WORDS.format(levels, highest)}\n"
    direct = Shell(database, tmp_path)
    direct.variables["MAX_PRIORITY_LEVELS"] = str(levels)
    assert (await asyncio.to_thread(direct.run, *enqueue, str(highest))).returncode == 0
    refused = await asyncio.to_thread(direct.run, *enqueue, str(levels))
    assert refused.stderr == f"laneway: {WORDS.format(levels, highest)}\n"
    settings = EngineSettings(priority_levels=levels)
    async with laneway.connect(database, settings=settings) as lane:
        await lane.producer("mail").enqueue(1, priority=highest)
        with pytest.raises(InvalidRequest, match=WORDS.format(levels, highest)):
            await lane.producer("mail").enqueue(1, priority=levels)


def test_schedule_with_a_priority_beyond_the_limit_is_refused(place: Place) -> None:
    app = laneway.App(place.dsn)
    app.schedule("hourly", "0 * * * *", queue="mail", priority=10)
    with pytest.raises(InvalidRequest, match=WORDS.format(10, 9)):
        app.worker()
    wide = laneway.App(place.dsn, settings=EngineSettings(priority_levels=11))
    wide.schedule("hourly", "0 * * * *", queue="mail", priority=10)
    wide.worker()
