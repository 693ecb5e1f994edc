"""An event loop in a separate thread, on which synchronous code runs coroutines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from laneway.domain.errors import BrokerClosed, InternalError
from laneway.domain.loops import ignore_lost_connections

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

T = TypeVar("T")


# How long running calls may take to end after the connection was closed, in seconds.
_PATIENCE = 5.0

_without_loop = ContextVar("laneway_without_loop", default=False)


def is_without_loop() -> bool:
    """Return whether the code runs in the caller's thread, without an event loop to wait on."""
    return _without_loop.get()


class Portal:
    """Runs coroutines for any number of threads, until `close`."""

    def __init__(self) -> None:
        # Reentrant: garbage collection during a call may close an iterator, which is a call too.
        self._lock = threading.RLock()
        self._closed = False
        self._loop = asyncio.new_event_loop()
        ignore_lost_connections(self._loop)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="laneway loop", daemon=True
        )
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the coroutine's result; an interrupted caller cancels the coroutine."""
        with self._lock:
            self._require_open(work)
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call_here(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the caller's thread and return its result; it must not wait for the loop."""
        self._require_open(work)
        token = _without_loop.set(True)
        try:
            work.send(None)
        except StopIteration as done:
            answer: T = done.value
            return answer
        finally:
            _without_loop.reset(token)
            work.close()
        raise InternalError("a call that runs without an event loop waits for one: report this bug")

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
                # An iterator that was interrupted while waiting ends by itself.
                with suppress(BrokerClosed, RuntimeError):
                    self.call(items.aclose())

    def close(self) -> None:
        """End the loop, once the threads that wait for it have their results."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            last = asyncio.run_coroutine_threadsafe(_end_tasks(), self._loop)
        last.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _require_open(self, work: Coroutine[Any, Any, Any]) -> None:
        if self._closed:
            work.close()
            raise BrokerClosed("the connection is closed")


async def _end_tasks() -> None:
    """Wait for running calls, which end as their connection is closed; cancel the rest."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=_PATIENCE)
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=_PATIENCE)
