"""The broker's calls about move tasks: all ready messages of a queue, moved to another at a limited rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures import moves as procedures

if TYPE_CHECKING:
    from uuid import UUID

    from laneway.domain.moves import MoveTask
    from laneway.engine.core import Core


class Moves:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def start(self, source: str, *, target: str | None, rate: int | None) -> UUID | None:
        """Start to move all ready messages of a queue; return None if a task for it is running."""
        async with self._core.pool.lend() as connection:
            return await procedures.start_move(connection, source=source, target=target, rate=rate)

    async def cancel(self, task: UUID, *, queue_id: int) -> int | None:
        """Cancel a queue's running task; return how many messages it moved, None without one."""
        async with self._core.pool.lend() as connection:
            return await procedures.cancel_move(connection, task, queue_id=queue_id)

    async def list_all(self, source: str, *, limit: int) -> list[MoveTask]:
        """Return a queue's tasks, the newest first."""
        async with self._core.pool.lend() as connection:
            return await procedures.list_moves(connection, source=source, limit=limit)
