"""Where functions run that would block the loop: threads, or processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import queue
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import connection, resource_tracker
from typing import TYPE_CHECKING, Any, Protocol

from laneway.worker.failures import Failure, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laneway.worker.handlers import Executor


# What ends a worker: sent to its whole group, by Ctrl-C in a terminal or by systemd.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class WorkerCrashed(Exception):
    """The process that ran a handler ended."""


class Pool(Protocol):
    async def run(self, function: Callable[[Any], Any], work: Any) -> Any:
        """Return what the function returns; a caller that is cancelled does not wait for it."""

    def close(self) -> None:
        """Take nothing more, and wait for nothing."""


def make_pool(executor: Executor, size: int) -> Pool | None:
    match executor:
        case "loop":
            return None
        case "thread":
            return ThreadPool(size)
        case "process":
            return ProcessPool(size)


class ThreadPool:
    """Threads that do not keep a program from ending, however long a function takes.

    One whose function is given up on is left to itself, and another takes its place.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._threads = 0
        self._work: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()

    async def run(self, function: Callable[[Any], Any], work: Any) -> Any:
        call = _Call(function, work)
        self._work.put(call)
        if self._threads < self._size:
            self._threads += 1
            threading.Thread(target=self._serve, name="laneway handler", daemon=True).start()
        try:
            return await call.answer
        except asyncio.CancelledError:
            if call.give_up():
                self._threads -= 1
            raise

    def close(self) -> None:
        for _ in range(self._threads):
            self._work.put(None)

    def _serve(self) -> None:
        while (call := self._work.get()) is not None and call.make():
            pass


class _Call:
    """One call of a function: begun by a thread, unless its waiter has gone before."""

    def __init__(self, function: Callable[[Any], Any], work: Any) -> None:
        self._function = function
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._runs = False
        self._left = threading.Event()
        self.answer: asyncio.Future[Any] = self._loop.create_future()

    def make(self) -> bool:
        """Run the function; return whether its thread still has its place."""
        with self._lock:
            if self._left.is_set():
                return True
            self._runs = True
        result, failure = None, None
        try:
            result = self._function(self._work)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the waiter is told
            failure = _wrap_stop(error)
        with self._lock:
            self._runs = False
            if self._left.is_set():
                return False
        try:
            self._loop.call_soon_threadsafe(self._finish, result, failure)
        except RuntimeError:
            # The loop has closed meanwhile: nobody waits.
            return False
        return True

    def give_up(self) -> bool:
        """Wait no more; return whether a thread is left behind."""
        with self._lock:
            self._left.set()
            return self._runs

    def _finish(self, result: Any, error: BaseException | None) -> None:
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(result)
        else:
            self.answer.set_exception(error)


class ProcessPool:
    """Processes with one function each at a time: one that is given up on is killed."""

    def __init__(self, size: int) -> None:
        self._free: list[ProcessPoolExecutor] = []
        self._busy: set[ProcessPoolExecutor] = set()
        self._size = size

    async def run(self, function: Callable[[Any], Any], work: Any) -> Any:
        call = partial(_call, function, work)
        executor = self._free.pop() if self._free else _make_process()
        self._busy.add(executor)
        try:
            with _hold_signals():
                # It may have to start the process.
                answered = asyncio.get_running_loop().run_in_executor(executor, call)
            answer = await answered
        except BrokenProcessPool as error:
            _kill(executor)
            raise WorkerCrashed("the process that ran the handler ended") from error
        except asyncio.CancelledError:
            _kill(executor)
            raise
        except BaseException:
            self._free.append(executor)
            raise
        else:
            self._free.append(executor)
        finally:
            self._busy.discard(executor)
        if isinstance(answer, Failure):
            raise unpack(answer)
        return pickle.loads(answer)  # noqa: S301 - of our own process

    def close(self) -> None:
        for executor in (*self._free, *self._busy):
            _kill(executor)
        self._free.clear()


def _call(function: Callable[[Any], Any], work: Any) -> bytes | Failure:
    """Run a function in a process of its own; what it returns or raises goes back as it can be read."""
    try:
        return pickle.dumps(function(work))
    except BaseException as error:  # noqa: BLE001 - whatever it is, the waiter is told
        return pack(_wrap_stop(error))


def _make_process() -> ProcessPoolExecutor:
    # Not forked: the program has threads and connections that a child must not share.
    return ProcessPoolExecutor(
        max_workers=1,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin_process,
    )


@contextmanager
def _hold_signals() -> Iterator[None]:
    """Have a process start with signals held up: it is not ready for them before it has begun."""
    # Else it would be started within, and let them through.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_process() -> None:
    """Leave it to the worker when this process ends; where that is gone, end at once."""
    for number in _SIGNALS:
        # Not SIG_IGN, which programs that a handler starts would inherit.
        signal.signal(number, _ignore)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    threading.Thread(target=_end_with_parent, name="laneway parent", daemon=True).start()


def _ignore(*_: object) -> None:
    pass


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _kill(executor: ProcessPoolExecutor) -> None:
    processes = dict(executor._processes or {})  # noqa: SLF001 - before 3.14 there is no other way
    for process in processes.values():
        process.kill()
    executor.shutdown(wait=False, cancel_futures=True)


def _wrap_stop(error: BaseException) -> BaseException:
    """Return an error that a future can hold."""
    return (
        RuntimeError("the handler raised StopIteration")
        if isinstance(error, StopIteration)
        else error
    )
