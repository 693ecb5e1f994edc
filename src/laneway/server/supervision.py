"""Runs worker processes on the same sockets, restarts those that end, and stops them together."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from laneway.server.settings import ServerSettings

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from laneway.server.shared_counters import Sheet

logger = logging.getLogger(__name__)

# A worker that ended at once is restarted after this pause, so that a fault does not keep a core
# busy.
RESTART_PAUSE = timedelta(seconds=1)
# How long after its own deadline a worker is killed.
MARGIN = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a worker reads from its standard input, which process lists do not show."""

    dsn: str
    settings: ServerSettings
    listeners: tuple[int, ...]
    sheet: int
    worker: int


async def supervise(
    dsn: str,
    settings: ServerSettings,
    *,
    listeners: Sequence[socket.socket],
    sheet: Sheet,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Run the workers until SIGTERM or SIGINT, and restart those that end.

    ready is called once signals are handled; the sockets accept connections even before.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    ready()
    async with asyncio.TaskGroup() as group:
        group.create_task(_close_when(stopping, listeners), name="listeners")
        for worker in range(settings.workers):
            orders = Orders(
                dsn=dsn,
                settings=settings,
                listeners=tuple(listener.fileno() for listener in listeners),
                sheet=sheet.file.fileno(),
                worker=worker,
            )
            group.create_task(_keep(orders, stopping), name=f"worker {worker}")


async def _close_when(stopping: asyncio.Event, listeners: Sequence[socket.socket]) -> None:
    """Close the sockets once the workers are to stop: no process would answer new connections."""
    await stopping.wait()
    for listener in listeners:
        listener.close()


async def _keep(orders: Orders, stopping: asyncio.Event) -> None:
    while not stopping.is_set():
        process = await _start(orders)
        try:
            await _watch(process, stopping)
            if not stopping.is_set():
                logger.error(
                    "worker %d ended with %s, restarting it",
                    orders.worker,
                    process.returncode,
                )
                with suppress(TimeoutError):
                    async with asyncio.timeout(RESTART_PAUSE.total_seconds()):
                        await stopping.wait()
        finally:
            await _end(process, orders.settings.shutdown + MARGIN)


async def _start(orders: Orders) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "laneway.server.worker_process",
        stdin=asyncio.subprocess.PIPE,
        pass_fds=(*orders.listeners, orders.sheet),
        # A terminal's Ctrl-C reaches only the parent, which then stops the workers.
        start_new_session=True,
    )
    assert process.stdin is not None  # noqa: S101 - asked for a pipe above
    # The worker may have ended: then the pipe is closed, and its watcher restarts it.
    if not process.stdin.is_closing():
        with suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(msgspec.json.encode(orders) + b"\n")
            await process.stdin.drain()
    return process


async def _watch(process: asyncio.subprocess.Process, stopping: asyncio.Event) -> None:
    """Return when the worker has ended or is to stop."""
    tasks = [asyncio.ensure_future(process.wait()), asyncio.ensure_future(stopping.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def _end(process: asyncio.subprocess.Process, patience: timedelta) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(patience.total_seconds()):
            await process.wait()
    except TimeoutError:
        logger.warning("worker %d did not stop in time, killing it", process.pid)
        process.kill()
        await process.wait()
