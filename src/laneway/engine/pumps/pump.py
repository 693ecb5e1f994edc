"""Collects submissions while calls are running and sends many of them in one call."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from laneway.domain.errors import (
    BrokerClosed,
    InternalError,
    LanewayError,
    Overloaded,
    Retryable,
    Unavailable,
)
from laneway.domain.loops import fail
from laneway.engine.pumps.conflicts import retry_conflicts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence

    from laneway.domain.settings import PumpSettings
    from laneway.engine.pool import Pool
    from laneway.engine.procedures.call import Connection
    from laneway.engine.tasks import Tasks

logger = logging.getLogger(__name__)

Load = TypeVar("Load")
Answer = TypeVar("Answer")

# A batch with fewer messages also takes submissions of other keys: that is cheaper than another call.
SMALL = 100


@dataclass(slots=True, eq=False)
class Submission(Generic[Load, Answer]):
    """What one caller submitted; it succeeds or fails as a whole."""

    load: Load
    count: int
    size: int
    answer: asyncio.Future[Answer] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Pump(Generic[Load, Answer]):
    """Sends submissions in batches with `send`, which returns their answers in order.

    Submissions of one key keep their order if `calls_per_key` is one. Without `mixed`, a call
    carries submissions of one key only.
    """

    def __init__(
        self,
        name: str,
        send: Callable[[Connection, Sequence[Load]], Awaitable[Sequence[Answer]]],
        *,
        pool: Pool,
        tasks: Tasks,
        settings: PumpSettings,
        calls_per_key: int | None = None,
        mixed: bool = True,
    ) -> None:
        self._name = name
        self._send = send
        self._pool = pool
        self._tasks = tasks
        self._settings = settings
        self._calls_per_key = calls_per_key or settings.concurrent_calls
        self._mixed = mixed
        self._pending: dict[Hashable, deque[Submission[Load, Answer]]] = {}
        # The number of running calls that carry submissions of each key; keys without one are missing.
        self._running_by_key: dict[Hashable, int] = {}
        self._running_calls = 0
        self._count = 0
        self._size = 0
        self._closed = False
        self._drained = asyncio.Event()
        self.calls = 0

    @property
    def waiting(self) -> tuple[int, int]:
        """Number of messages that are not answered yet, and their bytes."""
        return self._count, self._size

    async def submit(
        self, load: Load, *, count: int, size: int = 0, key: Hashable = None
    ) -> Answer:
        """Return the answer after the call that carried the submission is committed.

        If the caller is cancelled before its submission is sent, it is dropped; later, it is not.
        """
        self._require_room(count, size)
        submission: Submission[Load, Answer] = Submission(load, count, size)
        line = self._pending.get(key)
        if line is None:
            line = self._pending[key] = deque()
        line.append(submission)
        self._count += count
        self._size += size
        self._start_call()
        return await submission.answer

    async def drain(self) -> None:
        """Accept no more submissions, and return when all are answered."""
        self._closed = True
        if self._count or self._running_calls:
            await self._drained.wait()

    def abandon(self) -> None:
        """Fail the submissions that were not sent yet."""
        self._closed = True
        self._fail_pending(BrokerClosed(f"the broker closed before the {self._name} was sent"))

    def _require_room(self, count: int, size: int) -> None:
        if self._closed:
            raise BrokerClosed("the broker is closed")
        settings = self._settings
        if self._count and (
            self._count + count > settings.waiting_messages
            or self._size + size > settings.waiting_bytes
        ):
            raise Overloaded(
                f"too many messages wait for a {self._name}: {self._count} ({self._size} bytes): "
                f"retry in {settings.retry_after.total_seconds():g} s",
                retry_after=settings.retry_after,
            )

    def _start_call(self) -> None:
        if self._running_calls < self._settings.concurrent_calls and self._has_next_batch():
            self._running_calls += 1
            self._tasks.start(self._run(), name=self._name)

    def _has_next_batch(self) -> bool:
        if not self._running_by_key:
            return bool(self._pending)
        return any(self._running_by_key.get(key, 0) < self._calls_per_key for key in self._pending)

    async def _run(self) -> None:
        try:
            while self._has_next_batch():
                async with self._pool.lend(self._name) as connection:
                    await self._run_call(connection)
        except LanewayError as error:
            self._fail_pending(error)
        finally:
            self._running_calls -= 1
            if self._closed and not self._running_calls and not self._count:
                self._drained.set()

    async def _run_call(self, connection: Connection) -> None:
        keys, batch = self._next_batch()
        running = self._running_by_key
        for key in keys:
            running[key] = running.get(key, 0) + 1
        # Another call may carry what this one may not.
        self._start_call()
        try:
            if batch:
                await self._send_batch(connection, batch)
        except asyncio.CancelledError:
            error = Unavailable(
                f"the broker closed during the {self._name}: it may or may not have committed"
            )
            self._fail(batch, error)
            raise
        finally:
            for key in keys:
                running[key] -= 1
                if not running[key]:
                    del running[key]

    def _next_batch(self) -> tuple[list[Hashable], list[Submission[Load, Answer]]]:
        settings = self._settings
        keys: list[Hashable] = []
        batch: list[Submission[Load, Answer]] = []
        count = size = 0
        for key in list(self._pending):
            if self._running_by_key.get(key, 0) >= self._calls_per_key:
                continue
            line = self._pending[key]
            size_before = len(batch)
            while line:
                submission = line[0]
                if submission.answer.done():
                    self._forget(line.popleft())
                    continue
                if batch and (
                    count + submission.count > settings.flush_messages
                    or size + submission.size > settings.flush_bytes
                ):
                    break
                batch.append(line.popleft())
                count += submission.count
                size += submission.size
            if len(batch) > size_before:
                keys.append(key)
            if line:
                break
            del self._pending[key]
            if count >= SMALL or (batch and not self._mixed):
                break
        return keys, batch

    async def _send_batch(
        self, connection: Connection, batch: Sequence[Submission[Load, Answer]]
    ) -> None:
        try:
            answers = await self._try(connection, batch)
        except Retryable as error:
            self._fail(batch, error)
        except LanewayError as error:
            if len(batch) == 1:
                self._fail(batch, error)
                return
            # One submission is invalid, and nothing was committed: send each by itself, so that only that one fails.
            for submission in batch:
                await self._send_batch(connection, [submission])
        except Exception as error:
            logger.exception("the %s failed", self._name)
            self._fail(batch, InternalError(f"the {self._name} failed: {error!r}"))
        else:
            for submission, answer in zip(batch, answers, strict=True):
                self._forget(submission)
                if not submission.answer.done():
                    submission.answer.set_result(answer)

    async def _try(
        self, connection: Connection, batch: Sequence[Submission[Load, Answer]]
    ) -> Sequence[Answer]:
        loads = [submission.load for submission in batch]

        async def call() -> Sequence[Answer]:
            self.calls += 1
            return await self._send(connection, loads)

        return await retry_conflicts(call)

    def _fail(self, batch: Sequence[Submission[Load, Answer]], error: LanewayError) -> None:
        for submission in batch:
            self._forget(submission)
            if not submission.answer.done():
                fail(submission.answer, error.copy())

    def _fail_pending(self, error: LanewayError) -> None:
        pending, self._pending = self._pending, {}
        for line in pending.values():
            self._fail(line, error)

    def _forget(self, submission: Submission[Load, Answer]) -> None:
        self._count -= submission.count
        self._size -= submission.size
        submission.count = submission.size = 0
