"""Tasks that move all that waits in one queue to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


class MoveTask(NamedTuple):
    """target None: each message goes to where it came from. rate: messages a second, None: any."""

    task_id: UUID
    status: str
    target: str | None
    rate: int | None
    moved: int
    total: int
    reason: str | None
    started_at: datetime
