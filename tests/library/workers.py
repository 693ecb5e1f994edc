"""Workers in the test's own loop and as programs, and states to wait for."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import laneway
from laneway import WorkerSettings
from tests.library.conftest import QUIET

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from datetime import datetime
    from pathlib import Path

    from laneway import Connection, Status
    from laneway.domain.messages import StoredMessage
    from laneway.domain.workers import WorkerState

QUICK = WorkerSettings(
    heartbeat=timedelta(milliseconds=50),
    timeout=timedelta(seconds=30),
    drain=timedelta(seconds=20),
)


def make_app(address: str, *, worker: WorkerSettings = QUICK) -> laneway.App:
    return laneway.App(address, settings=QUIET, worker=worker)


@asynccontextmanager
async def running(app: laneway.App) -> AsyncIterator[laneway.Worker]:
    """Run a worker of the app, and drain it at the end."""
    worker = app.worker()
    task = asyncio.create_task(worker.run())
    try:
        ready = asyncio.ensure_future(worker.running.wait())
        await asyncio.wait({ready, task}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if task.done():
            task.result()
        yield worker
    finally:
        worker.stop()
        async with asyncio.timeout(30):
            await task


async def until(look: Callable[[], Awaitable[Any]], *, within: float = 30) -> Any:
    """Return what `look` finds, once it finds something."""
    async with asyncio.timeout(within):
        while not (found := await look()):
            await asyncio.sleep(0.02)
        return found


@asynccontextmanager
async def program(
    source: str, *arguments: str, folder: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program of the text given, in a group of its own; killed at the end where it still runs."""
    file = folder / "program.py"
    file.write_text(source)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(file),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        # Its transport is closed here, not whenever the collector comes by.
        process._transport.close()  # type: ignore[attr-defined]


def reason(message: StoredMessage) -> str:
    """Return the summary of a message's last failure, without the traceback."""
    return str(message.error).partition("\n")[0]


async def settled(lane: Connection, queue: str, n: int) -> bool:
    return (await lane.admin.queue_metrics(queue)).acknowledged >= n


async def listed(lane: Connection, queue: str, status: Status, n: int) -> list[Any]:
    found = await lane.admin.messages(queue, status)
    return found if len(found) >= n else []


async def in_state(lane: Connection, worker_id: str, state: WorkerState) -> bool:
    return (await lane.admin.get_worker(worker_id)).state is state


async def beaten(lane: Connection, worker_id: str, since: datetime) -> bool:
    return (await lane.admin.get_worker(worker_id)).heartbeat_at > since


async def look(what: Callable[[], bool]) -> bool:
    return what()
