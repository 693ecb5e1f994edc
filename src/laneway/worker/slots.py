"""One place where a handler runs, and what it handles: looked at by the guard's thread too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from laneway.library.messages import Message


class Slot:
    """messages: what its handler runs with now. lost: their locks ended under the handler.

    given_up: the worker stops without waiting for it.
    """

    __slots__ = ("given_up", "lost", "messages", "task")

    def __init__(self) -> None:
        self.messages: Sequence[Message] = ()
        self.lost = False
        self.given_up = False
        self.task: asyncio.Task[None] | None = None

    def recover(self) -> None:
        """Forget what cancelled the handler: the task goes on with others."""
        self.lost = False
        while self.task is not None and self.task.uncancel():
            pass

    def lose(self, messages: Sequence[Message]) -> None:
        """End a handler whose messages are no longer its own; called on the loop."""
        if self.messages is messages and self.task is not None:
            self.lost = True
            self.task.cancel()
