"""The broker's calls that redrive dead letters.

A queue's settings may name another queue for its dead letters. Maintenance moves them there, and
`redrive_by_policy` does so at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.queues import DEFAULT_GROUP
from laneway.engine.procedures import dead_letters as procedures

if TYPE_CHECKING:
    from laneway.engine.core import Core

REDRIVE_BATCH = 1000


class DeadLetters:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def redrive(
        self, queue: str, *, limit: int | None = None, group: str = DEFAULT_GROUP
    ) -> int:
        """Redrive dead letters, oldest first, with attempts counted from zero; return how many."""
        found_queue, found = await self._core.catalog.find_group(queue, group)
        async with self._core.pool.lend() as connection:
            replayed = await procedures.replay(connection, group_id=found.group_id, limit=limit)
        self._core.wakeups.wake(found_queue.queue_id, delayed=True)
        return replayed

    async def redrive_by_policy(self, queue: str) -> int:
        """Move a queue's dead letters to its target queue, or redrive them; return how many."""
        found = await self._core.catalog.find(queue)
        async with self._core.pool.lend() as connection:
            rows = await procedures.redrive_by_policy(
                connection, queue_id=found.queue_id, limit=REDRIVE_BATCH
            )
        for target, _ in rows:
            self._core.wakeups.wake(target)
        return sum(count for _, count in rows)
