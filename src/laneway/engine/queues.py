"""The broker's calls about queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laneway.domain.settings import QueueSettings
from laneway.engine.procedures import queues as procedures
from laneway.engine.pumps.conflicts import retry_conflicts

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from laneway.domain.queues import Queue
    from laneway.domain.settings import QueueChanges
    from laneway.engine.core import Core


class Queues:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def create(self, name: str, settings: QueueSettings | None = None) -> Queue:
        async with self._core.pool.lend() as connection:
            await procedures.create_queue(connection, name, settings or QueueSettings())
        self._core.announce_change()
        return await self.get(name)

    async def update(self, name: str, changes: QueueChanges) -> Queue:
        async with self._core.pool.lend() as connection:
            await procedures.update_queue(connection, name, changes)
        self._core.announce_change()
        return await self.get(name)

    async def configure(
        self,
        name: str,
        settings: QueueChanges,
        section: str,
        options: Mapping[str, Any],
        *,
        seen: datetime | None = None,
    ) -> None:
        """Change settings and one section of the options at once; null removes an option.

        seen: the queue's updated_at that the change is based on; TransientConflict if it has
        changed since.
        """
        async with self._core.pool.lend() as connection:
            await procedures.configure_queue(
                connection, name, settings=settings, section=section, options=options, seen=seen
            )
        self._core.announce_change()

    async def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a queue with everything in it; without force, only an empty queue."""
        queue = await self._core.catalog.find(name)
        async with self._core.pool.lend() as connection:
            await retry_conflicts(lambda: procedures.delete_queue(connection, name, force=force))
        self._core.announce_change()
        # Consumers that wait there get an error.
        self._core.wakeups.wake(queue.queue_id)

    async def rename(self, name: str, new_name: str) -> Queue:
        async with self._core.pool.lend() as connection:
            await procedures.rename_queue(connection, name, new_name)
        self._core.announce_change()
        return await self.get(new_name)

    async def get(self, name: str) -> Queue:
        """Return the queue from the database, not from the cache."""
        return await self._core.reload_queue(name)

    async def find(self, name: str) -> Queue:
        """Return the queue from the cache, at most a few seconds old."""
        return self._core.catalog.peek(name) or await self._core.catalog.find(name)

    def peek(self, name: str) -> Queue | None:
        """Return the queue if it is remembered, without a call of the database."""
        return self._core.catalog.peek(name)

    async def list_all(self) -> list[Queue]:
        async with self._core.pool.lend() as connection:
            return await procedures.list_queues(connection)

    def forget(self, names: Iterable[str]) -> None:
        """Drop these queues from the cache."""
        for name in names:
            self._core.catalog.forget(name)

    def next_change(self) -> asyncio.Future[None]:
        """Return a future that is done when queues or groups may have changed, in any process."""
        return self._core.catalog.next_change()

    async def forget_dedup_keys(self, name: str) -> None:
        """Have messages with dedup keys that were pushed before be new."""
        queue = await self._core.catalog.find(name)
        async with self._core.pool.lend() as connection:
            await procedures.forget_dedup_keys(connection, queue.queue_id)

    async def note_deleted(self, queue: str) -> None:
        """Record that a queue of this name was just deleted."""
        async with self._core.pool.lend() as connection:
            await procedures.record_queue_deletion(connection, queue)

    async def was_deleted(self, queue: str, *, within: timedelta) -> bool:
        """Return whether a queue of this name was deleted recently and does not exist now."""
        async with self._core.pool.lend() as connection:
            return await procedures.was_queue_deleted(connection, queue, within=within)

    async def list_partitions(self, queues: Sequence[str] | None) -> list[str]:
        """Return the names of the partitions, at most a thousand."""
        chosen = [queue.queue_id for queue in await self._core.choose_queues(queues)]
        async with self._core.pool.lend() as connection:
            return await procedures.list_partitions(connection, queue_ids=chosen)
