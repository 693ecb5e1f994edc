"""Background tasks that run as long as their owner, and restart after errors."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

Job: TypeAlias = "Callable[[], Awaitable[None]]"

logger = logging.getLogger(__name__)

RESTART_PAUSE = timedelta(seconds=1)


@asynccontextmanager
async def run_in_background(
    jobs: Mapping[str, Job], *, pause: timedelta = RESTART_PAUSE
) -> AsyncIterator[None]:
    """Run the named jobs until the block ends, then cancel them.

    If a job raises, the error is logged, and the job restarts after the pause.
    """
    tasks = [
        asyncio.create_task(keep_running(name, job, pause), name=name) for name, job in jobs.items()
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def keep_running(name: str, job: Job, pause: timedelta = RESTART_PAUSE) -> None:
    """Return when the job does; if it raises, log the error and restart it after the pause."""
    seconds = pause.total_seconds()
    while True:
        try:
            await job()
        except Exception:
            logger.exception("background task failed: %s. It restarts in %g s", name, seconds)
            await asyncio.sleep(seconds)
        else:
            return
