"""The broker's calls that repeat a receive: the messages of an attempt, stored under its id."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from laneway.domain.ids import MessageId
from laneway.engine.procedures import receive_attempts as procedures

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from laneway.domain.messages import Delivery
    from laneway.engine.core import Core

# How long a receive can be repeated.
ATTEMPT_WINDOW = timedelta(minutes=5)


class ReceiveAttempts:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def note(
        self, queue: str, attempt: str, deliveries: Sequence[Delivery], *, received: int
    ) -> None:
        """Store the messages of a receive attempt, and its time in milliseconds of Unix time."""
        found = await self._core.catalog.find(queue)
        async with self._core.pool.lend() as connection:
            await procedures.store_receive_attempt(
                connection,
                queue_id=found.queue_id,
                attempt=attempt,
                places=[delivery[:4] for delivery in deliveries],
                window=ATTEMPT_WINDOW,
                received=received,
            )

    async def find(self, queue: str, attempt: str) -> list[tuple[UUID, MessageId, int]]:
        """Return the messages of a receive attempt, with tokens and time; nothing if unknown."""
        found = await self._core.catalog.find(queue)
        async with self._core.pool.lend() as connection:
            rows = await procedures.find_receive_attempt(
                connection, queue_id=found.queue_id, attempt=attempt
            )
        return [(token, MessageId(*place), received) for token, *place, received in rows]
