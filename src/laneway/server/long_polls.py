"""Long waits of requests. They end early if the client disconnects, loses access, or the server stops."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Any


class Reason(Enum):
    """Why a wait ended early."""

    LEFT = "the client disconnected"
    REVOKED = "the caller's access ended"
    STOPPING = "the server stops"


class Wait:
    """The wait of the current task; ending it early cancels the task."""

    __slots__ = ("_task", "reason")

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] = asyncio.current_task()  # type: ignore[assignment] # in one
        self.reason: Reason | None = None

    def leave(self) -> None:
        self._end(Reason.LEFT)

    def revoke(self) -> None:
        self._end(Reason.REVOKED)

    def stop(self) -> None:
        self._end(Reason.STOPPING)

    @property
    def ended(self) -> bool:
        """Whether the wait was ended early, and nothing else has cancelled the task."""
        return self.reason is not None and self._task.cancelling() == 1

    def close(self) -> None:
        """End the wait; undo the cancellation if it was ended early."""
        if self.reason is not None:
            self._task.uncancel()

    def _end(self, reason: Reason) -> None:
        if self.reason is None:
            self.reason = reason
            self._task.cancel()
