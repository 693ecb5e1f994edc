"""The event loop of a worker program; handlers can neither end it nor keep it from ending."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import InvalidRequest
from laneway.domain.loops import ignore_lost_connections

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

logger = logging.getLogger(__name__)

# How long the remaining tasks have to end at exit, in seconds.
PATIENCE = 1.0


def run_program(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the work on a new event loop until it is done.

    asyncio.run would end as soon as any task raises SystemExit, and would wait for tasks that ignore
    their cancellation.
    """
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise InvalidRequest(
            "an event loop is already running in this thread: await the app's `work` instead of `run`"
        )
    loop = _make_loop()
    try:
        asyncio.set_event_loop(loop)
        ignore_lost_connections(loop)
        task = loop.create_task(work(), name="laneway worker")
        while True:
            try:
                return loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as error:
                if task.done():
                    raise
                # The handler that awaits the task gets the error too, and its message fails.
                logger.warning("a task raised %s; the worker continues", type(error).__name__)
    finally:
        with suppress(SystemExit, KeyboardInterrupt):
            _leave(loop)
        asyncio.set_event_loop(None)
        loop.close()


def _make_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415 - not on every system
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _leave(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the remaining tasks and wait briefly for them to end."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        _, stubborn = loop.run_until_complete(asyncio.wait(left, timeout=PATIENCE))
        if stubborn:
            logger.warning("%d tasks ignored their cancellation and were abandoned", len(stubborn))
    loop.run_until_complete(loop.shutdown_asyncgens())
