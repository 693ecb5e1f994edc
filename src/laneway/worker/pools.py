"""Pools of threads and processes for handlers that would block the event loop."""

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
from multiprocessing.context import SpawnContext
from typing import TYPE_CHECKING, Any, Protocol

from laneway.worker.failures import Failure, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.process import BaseProcess

    from laneway.worker.handlers import Executor


# The signals that stop a worker. Ctrl-C and systemd send them to its whole process group.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class WorkerCrashed(Exception):
    """The process that ran a handler ended."""


class Pool(Protocol):
    async def run(self, function: Callable[[Any], Any], work: Any) -> Any:
        """Return the function's result; a caller that is cancelled does not wait for it."""

    def close(self) -> None:
        """Accept no more calls, without waiting for the running ones."""


def make_pool(executor: Executor, size: int) -> Pool | None:
    match executor:
        case "loop":
            return None
        case "thread":
            return ThreadPool(size)
        case "process":
            return ProcessPool(size)


class ThreadPool:
    """Daemon threads, so a long function does not keep the program from ending.

    A thread whose caller gave up is abandoned, and another takes its place.
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
    """One call of a function. A thread starts it, unless its caller gave up before."""

    def __init__(self, function: Callable[[Any], Any], work: Any) -> None:
        self._function = function
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._running = False
        self._abandoned = threading.Event()
        self.answer: asyncio.Future[Any] = self._loop.create_future()

    def make(self) -> bool:
        """Run the function; return whether its thread still belongs to the pool."""
        with self._lock:
            if self._abandoned.is_set():
                return True
            self._running = True
        result, failure = None, None
        try:
            result = self._function(self._work)
        except BaseException as error:  # noqa: BLE001 - every error goes to the caller
            failure = _wrap_stop(error)
        with self._lock:
            self._running = False
            if self._abandoned.is_set():
                return False
        try:
            self._loop.call_soon_threadsafe(self._finish, result, failure)
        except RuntimeError:
            # The loop has been closed, so no caller is waiting.
            return False
        return True

    def give_up(self) -> bool:
        """Stop waiting; return whether a thread is still running the function."""
        with self._lock:
            self._abandoned.set()
            return self._running

    def _finish(self, result: Any, error: BaseException | None) -> None:
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(result)
        else:
            self.answer.set_exception(error)


class ProcessPool:
    """Processes that run one function at a time each; one that is given up on is killed."""

    def __init__(self, size: int) -> None:
        self._free: list[_HandlerProcess] = []
        self._busy: set[_HandlerProcess] = set()
        self._size = size

    async def run(self, function: Callable[[Any], Any], work: Any) -> Any:
        call = partial(_call, function, work)
        process = self._free.pop() if self._free else _HandlerProcess()
        self._busy.add(process)
        try:
            with _signals_blocked():
                # This call may start the process.
                answered = asyncio.get_running_loop().run_in_executor(process.executor, call)
            answer = await answered
        except BrokenProcessPool as error:
            process.kill()
            raise WorkerCrashed("the process that ran the handler ended") from error
        except asyncio.CancelledError:
            process.kill()
            raise
        except BaseException:
            self._free.append(process)
            raise
        else:
            self._free.append(process)
        finally:
            self._busy.discard(process)
        if isinstance(answer, Failure):
            raise unpack(answer)
        return pickle.loads(answer)  # noqa: S301 - from our own process

    def close(self) -> None:
        for process in (*self._free, *self._busy):
            process.kill()
        self._free.clear()


class _HandlerProcess:
    """An executor of one process, which starts with the first call and can be killed."""

    def __init__(self) -> None:
        # Not forked: the program has threads and connections that a child must not share.
        self._context = _SpawnContext()
        self.executor = ProcessPoolExecutor(
            max_workers=1, mp_context=self._context, initializer=_set_up_process
        )

    def kill(self) -> None:
        for process in self._context.processes:
            process.kill()
        self.executor.shutdown(wait=False, cancel_futures=True)


class _SpawnContext(SpawnContext):
    """Starts processes afresh and keeps them: before Python 3.14, executors do not expose theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.processes: list[BaseProcess] = []

    def Process(self, *arguments: Any, **options: Any) -> BaseProcess:  # type: ignore[override]  # noqa: N802 - multiprocessing's name
        process = super().Process(*arguments, **options)
        self.processes.append(process)
        return process


def _call(function: Callable[[Any], Any], work: Any) -> bytes | Failure:
    """Run a function in this handler process; return its pickled result, or its failure."""
    try:
        return pickle.dumps(function(work))
    except BaseException as error:  # noqa: BLE001 - every error goes to the caller
        return pack(_wrap_stop(error))


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block signals, so that a process started meanwhile gets them once it has its handlers."""
    # The resource tracker, if it is not running, would be started inside and unblock them.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _set_up_process() -> None:
    """Ignore the signals that stop workers; end this process when its worker is gone."""
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


def _wrap_stop(error: BaseException) -> BaseException:
    """Return the error, or for StopIteration, which futures refuse, a RuntimeError."""
    return (
        RuntimeError("the handler raised StopIteration")
        if isinstance(error, StopIteration)
        else error
    )
