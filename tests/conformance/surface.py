"""What every surface of the broker can do, in the words of the glossary."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class Capability(StrEnum):
    """A behaviour that not every surface has. A surface that lacks one says why."""

    ORDERED_GROUPS = "consumers process a partition one at a time, in strict order"
    PRIORITY = "messages have a priority"
    MESSAGE_DELAY = "a delay is set for one message"
    QUEUE_DELAY = "a delay is set for every message of a queue"
    DEDUP = "a repeated dedup key enqueues nothing"
    EXCLUSIVE_TOKENS = "only the newest lease token of a message settles it"
    NACK_DELAY = "a nack says when the message is ready again"
    BACKOFF = "a queue delays messages after a nack"
    DEAD_LETTER_AT_ONCE = "a nack dead-letters a message that has attempts left"
    DEAD_LETTER_REASON = "a dead letter keeps the reason of the last nack"
    REDRIVE = "dead letters are redriven"
    RELEASE = "a message is put back without counting an attempt"
    PURGE = "a queue is emptied"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """Options of a queue under test. None: what the surface chooses by itself."""

    ordered: bool = False
    lease: timedelta = timedelta(seconds=30)
    max_attempts: int = 3
    backoff: timedelta = timedelta(0)
    delay: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A claimed message. receipt: what the surface settles it by."""

    id: str
    body: str
    attempt: int
    receipt: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """reason: None on surfaces without DEAD_LETTER_REASON."""

    body: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    ready: int
    in_flight: int


class Surface(Protocol):
    """One queue, as the clients of one surface use it.

    A call that needs a capability which the surface lacks is never made: the tests of that
    capability are not collected for it.
    """

    lacks: ClassVar[Mapping[Capability, str]]
    queue: str

    async def create_queue(self, options: QueueOptions) -> None: ...

    async def enqueue(
        self,
        body: str,
        *,
        partition: str = "p",
        priority: int = 0,
        delay: timedelta | None = None,
        dedup_key: str | None = None,
    ) -> str:
        """Return the message's id; of a duplicate, the first message's."""

    async def claim(self, n: int = 10) -> list[Received]:
        """Return up to n messages that are ready, without waiting."""

    async def ack(self, message: Received) -> bool:
        """Return whether the lease was still valid."""

    async def nack(
        self,
        message: Received,
        *,
        reason: str = "broken",
        delay: timedelta | None = None,
        dead: bool = False,
    ) -> bool:
        """Return whether the lease was still valid."""

    async def release(self, message: Received) -> bool:
        """Return whether the lease was still valid."""

    async def extend(self, message: Received, lease: timedelta) -> bool:
        """Return whether the lease was still valid."""

    async def dead_letters(self) -> list[DeadLetter]: ...

    async def redrive(self) -> None: ...

    async def purge(self) -> None: ...

    async def counts(self) -> Counts: ...
