"""Tasks that move all ready messages of one queue to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


class MoveTask(NamedTuple):
    """A move task.

    target None: each message returns to its source queue. rate: messages a second, None: no limit.
    """

    task_id: UUID
    status: str
    target: str | None
    rate: int | None
    moved: int
    total: int
    reason: str | None
    started_at: datetime
