"""The tasks of one broker: each has an owner, and none outlives the broker."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

logger = logging.getLogger(__name__)


class Tasks:
    """Runs tasks until they end or `close` is called; logs those that fail."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=f"laneway {name}")
        self._running.add(task)
        task.add_done_callback(self._forget)
        return task

    async def join(self) -> None:
        """Return once all running tasks have ended."""
        while self._running:
            await asyncio.wait(self._running)

    async def close(self) -> None:
        """Cancel the running tasks and return once they have ended."""
        while self._running:
            for task in self._running:
                task.cancel()
            await asyncio.wait(self._running)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("task %r failed", task.get_name(), exc_info=error)
