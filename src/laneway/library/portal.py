"""An event loop in a thread of its own, so that code without one can use what needs one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from laneway.domain.errors import BrokerClosed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

T = TypeVar("T")


class _LoopThread(threading.Thread):
    """The thread of a portal's loop."""


def is_in_portal() -> bool:
    """Tell whether this runs for code without an event loop."""
    return isinstance(threading.current_thread(), _LoopThread)


class Portal:
    """Runs coroutines for any number of threads, from its creation until `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = _LoopThread(target=self._loop.run_forever, name="laneway loop", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the coroutine does; a caller that is interrupted cancels it."""
        if self._loop.is_closed():
            work.close()
            raise BrokerClosed("the connection is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        async def step() -> T:
            return await anext(items)

        try:
            while True:
                yield self.call(step())
        except StopAsyncIteration:
            return
        finally:
            if isinstance(items, AsyncGenerator):
                # One that is interrupted while it waits ends by itself.
                with suppress(BrokerClosed, RuntimeError):
                    self.call(items.aclose())

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
