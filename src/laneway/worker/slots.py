"""Slots in which handlers run, with the messages they handle. The guard's thread reads them too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from laneway.library.messages import Message


class Slot:
    """Runs one handler call at a time. messages: what the handler is running with.

    lost: the leases ended while the handler was running. abandoned: the worker stops without waiting
    for the handler.
    """

    __slots__ = ("abandoned", "lost", "messages", "task")

    def __init__(self) -> None:
        self.messages: Sequence[Message] = ()
        self.lost = False
        self.abandoned = False
        self.task: asyncio.Task[None] | None = None

    def recover(self) -> None:
        """Undo the cancellation of the handler, so that the task continues with other messages."""
        self.lost = False
        while self.task is not None and self.task.uncancel():
            pass

    def lose(self, messages: Sequence[Message]) -> None:
        """Cancel the handler of messages whose leases ended. Call it on the worker's loop."""
        if self.messages is messages and self.task is not None:
            self.lost = True
            self.task.cancel()
