"""The broker's calls about queues that take others' dead letters, and about asking again.

A queue names the one for its dead letters in its options; what dies is put there by maintenance,
or at once with `redrive_by_policy`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from laneway.domain.ids import MessageId
from laneway.domain.queues import DEFAULT_GROUP
from laneway.engine.procedures import redrive as procedures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from laneway.domain.messages import Delivery
    from laneway.domain.moves import MoveTask
    from laneway.domain.settings import QueueChanges
    from laneway.engine.core import Core

# How long an attempt to receive can be repeated.
ATTEMPT_WINDOW = timedelta(minutes=5)
REDRIVE_BATCH = 1000


class Redrive:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def configure_queue(
        self,
        name: str,
        settings: QueueChanges,
        section: str,
        options: Mapping[str, Any],
        *,
        seen: datetime | None = None,
    ) -> None:
        """Change settings and one section of the options at once; a null takes an option away.

        seen: the queue's updated_at where the change rests on what was there then; TransientConflict
        says that it was changed since.
        """
        async with self._core.pool.lend() as connection:
            await procedures.configure_queue(
                connection, name, settings=settings, section=section, options=options, seen=seen
            )
        self._core.announce_change()

    async def redrive_by_policy(self, queue: str) -> int:
        """Put what is dead in a queue where its options say, or back; return how many were."""
        found = await self._core.catalog.find(queue)
        async with self._core.pool.lend() as connection:
            rows = await procedures.redrive_by_policy(
                connection, queue_id=found.queue_id, limit=REDRIVE_BATCH
            )
        for target, _ in rows:
            self._core.wakeups.wake(target)
        return sum(count for _, count in rows)

    async def start_move(self, source: str, *, target: str | None, rate: int | None) -> UUID | None:
        """Begin to move all that waits in a queue; return None where that is under way already."""
        async with self._core.pool.lend() as connection:
            return await procedures.start_move(connection, source=source, target=target, rate=rate)

    async def cancel_move(self, task: UUID, *, queue_id: int) -> int | None:
        """Return how many messages a queue's task moved, or None where none such is running."""
        async with self._core.pool.lend() as connection:
            return await procedures.cancel_move(connection, task, queue_id=queue_id)

    async def list_moves(self, source: str, *, limit: int) -> list[MoveTask]:
        """Return a queue's tasks, the newest first."""
        async with self._core.pool.lend() as connection:
            return await procedures.list_moves(connection, source=source, limit=limit)

    async def note_attempt(
        self, queue: str, attempt: str, deliveries: Sequence[Delivery], *, received: int
    ) -> None:
        """Remember what an attempt to receive got, and when, in milliseconds of Unix time."""
        found = await self._core.catalog.find(queue)
        async with self._core.pool.lend() as connection:
            await procedures.note_attempt(
                connection,
                queue_id=found.queue_id,
                attempt=attempt,
                places=[delivery[:4] for delivery in deliveries],
                window=ATTEMPT_WINDOW,
                received=received,
            )

    async def find_attempt(self, queue: str, attempt: str) -> list[tuple[UUID, MessageId, int]]:
        """Return what an attempt to receive got, with the tokens and when; nothing if unknown."""
        found = await self._core.catalog.find(queue)
        async with self._core.pool.lend() as connection:
            rows = await procedures.find_attempt(
                connection, queue_id=found.queue_id, attempt=attempt
            )
        return [(token, MessageId(*place), received) for token, *place, received in rows]

    async def note_queue_deleted(self, queue: str) -> None:
        async with self._core.pool.lend() as connection:
            await procedures.note_queue_deleted(connection, queue)

    async def was_queue_deleted(self, queue: str, *, within: timedelta) -> bool:
        """Tell whether a queue of that name was there lately and is not now."""
        async with self._core.pool.lend() as connection:
            return await procedures.was_queue_deleted(connection, queue, within=within)

    async def count_delayed(self, queue: str) -> int:
        """Return how many messages are not due yet, as far as they are easily found."""
        group_id = await self._find_group(queue)
        async with self._core.pool.lend() as connection:
            return await procedures.count_delayed(connection, group_id)

    async def count_in_flight(self, queue: str) -> int:
        group_id = await self._find_group(queue)
        async with self._core.pool.lend() as connection:
            return await procedures.count_in_flight(connection, group_id)

    async def find_first_claims(self, queue: str, ids: Sequence[MessageId]) -> dict[MessageId, int]:
        """Return when messages were first handed out, in milliseconds of Unix time."""
        group_id = await self._find_group(queue)
        async with self._core.pool.lend() as connection:
            rows = await procedures.first_claim_times(
                connection,
                group_id=group_id,
                lanes=[item.lane for item in ids],
                seqs=[item.seq for item in ids],
            )
        return {ids[position]: int(at.timestamp() * 1000) for position, at in rows}

    async def _find_group(self, queue: str) -> int:
        return (await self._core.catalog.find_group(queue, DEFAULT_GROUP))[1].group_id
