"""The broker's calls that redrive dead letters.

A queue's settings may name another queue for its dead letters. Maintenance moves them there, and
`redrive_by_policy` does so at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.messages import Status
from laneway.domain.queues import DEFAULT_GROUP
from laneway.engine.procedures import dead_letters as procedures
from laneway.engine.procedures.maintenance import read_clock

if TYPE_CHECKING:
    from laneway.domain.dead_letters import DeadLetterFilter, FailureGroup
    from laneway.domain.messages import StoredMessage
    from laneway.engine.core import Core
    from laneway.engine.messages import Messages, Target

REDRIVE_BATCH = 1000
# More than a group has.
MOST = 2**62


class DeadLetters:
    def __init__(self, core: Core, messages: Messages) -> None:
        self._core = core
        self._messages = messages

    async def redrive(
        self, queue: str, *, limit: int | None = None, group: str = DEFAULT_GROUP
    ) -> int:
        """Redrive dead letters, oldest first, with attempts counted from zero; return how many."""
        found_queue, found = await self._core.catalog.find_group(queue, group)
        async with self._core.pool.lend() as connection:
            replayed = await procedures.replay(connection, group_id=found.group_id, limit=limit)
        self._core.wakeups.wake(found_queue.queue_id, delayed=True)
        return replayed

    async def list_failures(
        self, queue: str, *, limit: int = 100, group: str = DEFAULT_GROUP
    ) -> list[FailureGroup]:
        """Return the dead letters by kind of failure, the most frequent first."""
        _, found = await self._core.catalog.find_group(queue, group)
        async with self._core.pool.lend() as connection:
            return await procedures.list_failure_groups(
                connection, group_id=found.group_id, limit=limit
            )

    async def browse_matching(
        self,
        queue: str,
        wanted: DeadLetterFilter,
        *,
        limit: int = 100,
        group: str = DEFAULT_GROUP,
    ) -> list[StoredMessage]:
        """Return the dead letters that match, oldest failure first."""
        if wanted.ids is not None:
            ids = list(wanted.ids)[:limit]
        else:
            _, found = await self._core.catalog.find_group(queue, group)
            async with self._core.pool.lend() as connection:
                ids = await procedures.find_dead_letters(
                    connection, group_id=found.group_id, wanted=wanted, limit=limit
                )
        messages = await self._messages.find(queue, ids, group=group)
        return [item for item in messages if item is not None and item.status == Status.DEAD]

    async def redrive_matching(
        self,
        queue: str,
        wanted: DeadLetterFilter,
        *,
        limit: int | None = None,
        group: str = DEFAULT_GROUP,
    ) -> int:
        """Redrive the dead letters that match, oldest failure first; return how many."""
        return await self._move_matching(queue, wanted, Status.QUEUED, limit=limit, group=group)

    async def purge_matching(
        self,
        queue: str,
        wanted: DeadLetterFilter,
        *,
        limit: int | None = None,
        group: str = DEFAULT_GROUP,
    ) -> int:
        """Delete the dead letters that match, oldest failure first; return how many."""
        return await self._move_matching(queue, wanted, "deleted", limit=limit, group=group)

    async def _move_matching(
        self, queue: str, wanted: DeadLetterFilter, target: Target, *, limit: int | None, group: str
    ) -> int:
        """Move dead letters in batches. Those that die meanwhile are not moved."""
        left = MOST if limit is None else limit
        _, found = await self._core.catalog.find_group(queue, group)
        waiting = None if wanted.ids is None else list(wanted.ids)[:left]
        total = 0
        async with self._core.pool.lend() as connection:
            now = await read_clock(connection)
        until = now if wanted.until is None else min(wanted.until, now)
        wanted = wanted._replace(until=until)
        while left > 0:
            size = min(left, REDRIVE_BATCH)
            if waiting is not None:
                ids, waiting = waiting[:size], waiting[size:]
            else:
                async with self._core.pool.lend() as connection:
                    ids = await procedures.find_dead_letters(
                        connection, group_id=found.group_id, wanted=wanted, limit=size
                    )
            moved = await self._messages.move(
                queue, ids, source=Status.DEAD, target=target, group=group
            )
            total += len(moved)
            left -= len(ids)
            if not ids or (waiting is None and not moved):
                break
        return total

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
