"""Timing of the readers of events: when to read again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

    from laneway.engine import Broker


class Pulse:
    """Waits until the events are to be read again: `soon` after new ones, else at the next wake-up.

    Without a wake-up, it waits for `patience` at most.
    """

    def __init__(self, broker: Broker, *, soon: timedelta, patience: timedelta) -> None:
        self._broker = broker
        self._soon = soon.total_seconds()
        self._patience = patience.total_seconds()
        self._woken = asyncio.Event()

    def __enter__(self) -> Self:
        self._end = self._broker.activity.watch(self._woken.set)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    async def rest(self, *, busy: bool) -> None:
        """Return when it is time. busy: the last read returned events."""
        if busy:
            await asyncio.sleep(self._soon)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                await self._woken.wait()
        self._woken.clear()
