"""The tasks of one broker: each has an owner, and none outlives it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

logger = logging.getLogger(__name__)


class Tasks:
    """Runs tasks until they end or `close` is called; one that fails is logged, the others go on."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=f"laneway {name}")
        self._running.add(task)
        task.add_done_callback(self._forget)
        return task

    async def join(self) -> None:
        """Return once all that runs has ended by itself."""
        while self._running:
            await asyncio.wait(self._running)

    async def close(self) -> None:
        """Cancel what runs and return once it has ended."""
        while self._running:
            for task in self._running:
                task.cancel()
            await asyncio.wait(self._running)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the task %r failed", task.get_name(), exc_info=error)
