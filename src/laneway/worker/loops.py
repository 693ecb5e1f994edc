"""The event loop of a worker program: what its handlers do neither ends it nor keeps it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

logger = logging.getLogger(__name__)

# How long what the program left behind has to end, in seconds.
PATIENCE = 1.0


def run_program(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the work on a loop of its own until it is done.

    asyncio.run would end with the first task that raises SystemExit, whosever it is, and would wait
    for those that do not let themselves be cancelled.
    """
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise InvalidRequest("an event loop runs in this thread already: await the app's `work`")
    loop = _make_loop()
    try:
        asyncio.set_event_loop(loop)
        task = loop.create_task(work(), name="laneway worker")
        while True:
            try:
                return loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as error:
                if task.done():
                    raise
                # Whoever awaits that task gets it too: the handler, whose message has failed.
                logger.warning("a task raised %s; the worker goes on", type(error).__name__)
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
    """Cancel what is left and give it a moment."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        _, stubborn = loop.run_until_complete(asyncio.wait(left, timeout=PATIENCE))
        if stubborn:
            logger.warning("%d tasks do not let themselves be cancelled", len(stubborn))
    loop.run_until_complete(loop.shutdown_asyncgens())
