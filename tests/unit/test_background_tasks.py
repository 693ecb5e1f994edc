"""Background tasks continue after unexpected errors, and end with their owner."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from laneway.domain.keys import ApiKey, Role, make_key
from laneway.server.authentication import Keyring
from laneway.server.background_tasks import run_in_background
from laneway.server.calls import Caller

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AT_ONCE = timedelta(0)


async def test_failed_task_is_logged_and_restarted(caplog: pytest.LogCaptureFixture) -> None:
    runs = 0
    ended = asyncio.Event()
    again = asyncio.Event()

    async def fail_once() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise RuntimeError("not foreseen")
        again.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with caplog.at_level(logging.ERROR, "laneway.server.background_tasks"):
        async with run_in_background({"the job": fail_once}, pause=AT_ONCE), asyncio.timeout(30):
            await again.wait()
    assert runs == 2
    assert ended.is_set()
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "the job" in record.getMessage()
    assert "not foreseen" in (record.exc_text or "")


async def test_finished_task_is_not_restarted() -> None:
    runs = 0

    async def finish() -> None:
        nonlocal runs
        runs += 1

    async with run_in_background({"the job": finish}, pause=AT_ONCE):
        for _ in range(5):
            await asyncio.sleep(0)
    assert runs == 1


async def test_error_of_the_block_is_raised_after_its_tasks_have_ended() -> None:
    tasks: list[asyncio.Task[None]] = []

    async def wait() -> None:
        tasks.append(asyncio.current_task())  # type: ignore[arg-type] # it runs in one
        await asyncio.Event().wait()

    async def fail() -> None:
        async with run_in_background({"the job": wait}):
            await asyncio.sleep(0)
            raise OSError("of the block")

    with pytest.raises(OSError, match="of the block"):
        await fail()
    assert tasks[0].cancelled()


async def test_revoked_key_is_noticed_after_a_failed_refresh(
    caplog: pytest.LogCaptureFixture,
) -> None:
    key = make_key()
    stored = ApiKey(key.key_id, "first", Role.WRITE, None, key.digest, NOW, None)
    looks = 0

    async def load() -> Sequence[ApiKey]:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise RuntimeError("not foreseen")
        return [stored if looks == 1 else stored._replace(revoked_at=NOW)]

    keyring = Keyring(secret=None, load=load, age=timedelta(milliseconds=1))
    caller = Caller(await keyring.identify(key.text.encode()), key.text.encode())
    ended = asyncio.Event()
    async with (
        asyncio.timeout(30),
        run_in_background({"API key refresh": keyring.follow}, pause=AT_ONCE),
    ):
        with keyring.watch(caller, ended.set):
            await ended.wait()
    assert "API key refresh" in caplog.text
