"""The broker's calls that show timers; `Streams.transact` sets and cancels them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import QueueNotFound
from laneway.domain.timers import Timer
from laneway.engine.procedures.timers import list_timers

if TYPE_CHECKING:
    from laneway.engine.core import Core


class Timers:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def find(self, queue: str, key: str) -> Timer | None:
        """Return a pending timer; None if there is none, or no such queue."""
        found = await self._list(queue, key=key, after=None, limit=1)
        return found[0] if found else None

    async def list_all(self, queue: str, *, after: str | None = None, limit: int) -> list[Timer]:
        """Return pending timers in byte order of their keys, those after a key."""
        return await self._list(queue, key=None, after=after, limit=limit)

    async def _list(
        self, queue: str, *, key: str | None, after: str | None, limit: int
    ) -> list[Timer]:
        try:
            found = await self._core.catalog.find(queue)
        except QueueNotFound:
            return []
        async with self._core.pool.lend() as connection:
            rows = await list_timers(
                connection, queue_id=found.queue_id, key=key, after=after, limit=limit
            )
        return [Timer._make(row) for row in rows]
