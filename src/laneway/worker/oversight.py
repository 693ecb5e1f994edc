"""The background tasks of a worker; one that fails ends the worker with an error."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from laneway.worker.policies import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

logger = logging.getLogger(__name__)


class Overseer:
    """Starts and ends tasks on behalf of the task that created it; calls `report` when one fails."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._owner = asyncio.current_task()
        self._report = report
        self._running: set[asyncio.Task[None]] = set()

    @property
    def is_ending(self) -> bool:
        """Whether the owning task has ended or been cancelled, and all of its tasks with it."""
        return self._owner is None or self._owner.done() or self._owner.cancelling() > 0

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task. It may return; if it fails, or is cancelled other than by `end`, report it."""
        task = asyncio.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(self._notice)
        return task

    async def end(self, *tasks: asyncio.Task[Any] | None, patience: float | None = None) -> None:
        """Cancel tasks and wait for them, for `patience` seconds at most."""
        given = [task for task in tasks if task is not None]
        for task in given:
            task.remove_done_callback(self._notice)
            task.cancel()
        if given:
            done, _ = await asyncio.wait(given, timeout=patience)
            for task in done:
                if not task.cancelled() and (error := task.exception()) is not None:
                    logger.warning("%s failed while ending: %s", task.get_name(), describe(error))

    def abandon(self) -> None:
        """Cancel all running tasks without waiting for them."""
        for task in self._running:
            task.remove_done_callback(self._notice)
            task.cancel()

    def _notice(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() and self.is_ending:
            return
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            return
        reason = describe(error)
        logger.error("%s ended unexpectedly: %s", task.get_name(), reason, exc_info=error)
        self._report(f"{task.get_name()} ended unexpectedly: {reason}")
