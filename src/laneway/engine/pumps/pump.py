"""Gathers submissions while calls are under way and carries many of them in one call."""

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
from laneway.engine.pumps.conflicts import persist

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence

    from laneway.domain.settings import PumpSettings
    from laneway.engine.pool import Pool
    from laneway.engine.procedures.call import Connection
    from laneway.engine.tasks import Tasks

logger = logging.getLogger(__name__)

Load = TypeVar("Load")
Answer = TypeVar("Answer")

# Few enough messages that riding with another key's costs less than a call of their own.
SMALL = 100


@dataclass(slots=True, eq=False)
class Submission(Generic[Load, Answer]):
    """What one caller gave to the pump; it happens as a whole or not at all."""

    load: Load
    count: int
    size: int
    answer: asyncio.Future[Answer] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Pump(Generic[Load, Answer]):
    """Carries submissions with `carry`, which answers them in order.

    Submissions of one key keep their order as long as `flights_per_key` is one. Without `mixed`, a
    call carries submissions of one key only.
    """

    def __init__(
        self,
        name: str,
        carry: Callable[[Connection, Sequence[Load]], Awaitable[Sequence[Answer]]],
        *,
        pool: Pool,
        tasks: Tasks,
        settings: PumpSettings,
        flights_per_key: int | None = None,
        mixed: bool = True,
    ) -> None:
        self._name = name
        self._carry = carry
        self._pool = pool
        self._tasks = tasks
        self._settings = settings
        self._flights_per_key = flights_per_key or settings.flights
        self._mixed = mixed
        self._pending: dict[Hashable, deque[Submission[Load, Answer]]] = {}
        # How many flights carry something of a key; a key that none does is not in it.
        self._flying: dict[Hashable, int] = {}
        self._flights = 0
        self._count = 0
        self._size = 0
        self._closed = False
        self._drained = asyncio.Event()
        self.calls = 0

    @property
    def waiting(self) -> tuple[int, int]:
        """How many messages are not answered yet, and their bytes."""
        return self._count, self._size

    async def submit(
        self, load: Load, *, count: int, size: int = 0, key: Hashable = None
    ) -> Answer:
        """Return the answer once the call that carried the submission is committed.

        A caller that goes away before its submission boarded takes it back; later, it happens.
        """
        self._require_room(count, size)
        submission: Submission[Load, Answer] = Submission(load, count, size)
        line = self._pending.get(key)
        if line is None:
            line = self._pending[key] = deque()
        line.append(submission)
        self._count += count
        self._size += size
        self._launch()
        return await submission.answer

    async def drain(self) -> None:
        """Take nothing more and return once everything taken is answered."""
        self._closed = True
        if self._count or self._flights:
            await self._drained.wait()

    def abandon(self) -> None:
        """Fail what still waits for a call."""
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
                f"{self._count} messages ({self._size} bytes) wait for their {self._name} already: "
                f"call again in {settings.retry_after.total_seconds():g} s",
                retry_after=settings.retry_after,
            )

    def _launch(self) -> None:
        if self._flights < self._settings.flights and self._boardable():
            self._flights += 1
            self._tasks.start(self._fly(), name=self._name)

    def _boardable(self) -> bool:
        if not self._flying:
            return bool(self._pending)
        return any(self._flying.get(key, 0) < self._flights_per_key for key in self._pending)

    async def _fly(self) -> None:
        try:
            while self._boardable():
                async with self._pool.lend(self._name) as connection:
                    await self._fly_once(connection)
        except LanewayError as error:
            self._fail_pending(error)
        finally:
            self._flights -= 1
            if self._closed and not self._flights and not self._count:
                self._drained.set()

    async def _fly_once(self, connection: Connection) -> None:
        keys, batch = self._board()
        flying = self._flying
        for key in keys:
            flying[key] = flying.get(key, 0) + 1
        # Another flight may take what this one may not.
        self._launch()
        try:
            if batch:
                await self._serve(connection, batch)
        except asyncio.CancelledError:
            error = Unavailable(
                f"the broker closed during the {self._name}: it may or may not have happened"
            )
            self._fail(batch, error)
            raise
        finally:
            for key in keys:
                flying[key] -= 1
                if not flying[key]:
                    del flying[key]

    def _board(self) -> tuple[list[Hashable], list[Submission[Load, Answer]]]:
        settings = self._settings
        keys: list[Hashable] = []
        batch: list[Submission[Load, Answer]] = []
        count = size = 0
        for key in list(self._pending):
            if self._flying.get(key, 0) >= self._flights_per_key:
                continue
            line = self._pending[key]
            boarded = len(batch)
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
            if len(batch) > boarded:
                keys.append(key)
            if line:
                break
            del self._pending[key]
            if count >= SMALL or (batch and not self._mixed):
                break
        return keys, batch

    async def _serve(
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
            # One of them is at fault, and nothing happened: each on its own harms only itself.
            for submission in batch:
                await self._serve(connection, [submission])
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
            return await self._carry(connection, loads)

        return await persist(call)

    def _fail(self, batch: Sequence[Submission[Load, Answer]], error: LanewayError) -> None:
        for submission in batch:
            self._forget(submission)
            if not submission.answer.done():
                submission.answer.set_exception(error.copy())

    def _fail_pending(self, error: LanewayError) -> None:
        pending, self._pending = self._pending, {}
        for line in pending.values():
            self._fail(line, error)

    def _forget(self, submission: Submission[Load, Answer]) -> None:
        self._count -= submission.count
        self._size -= submission.size
        submission.count = submission.size = 0
