"""Long waits of requests, which end early when the client goes, its key does, or the server stops."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Any


class Reason(Enum):
    """Why a wait ended early."""

    LEFT = "the client went away"
    REVOKED = "the caller is not let in any more"
    STOPPING = "the server stops"


class Wait:
    """The wait of the task it is made in; ended early, the task is cancelled for that reason."""

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
        """Take the cancellation back."""
        if self.reason is not None:
            self._task.uncancel()

    def _end(self, reason: Reason) -> None:
        if self.reason is None:
            self.reason = reason
            self._task.cancel()
