"""The broker's calls about periodic jobs; `Workers.fire_schedule` fires them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures import schedules as procedures

if TYPE_CHECKING:
    from datetime import datetime

    from laneway.domain.ids import MessageId
    from laneway.domain.messages import OutgoingMessage
    from laneway.domain.schedules import ScheduleInfo
    from laneway.engine.core import Core


class Schedules:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def register(
        self,
        name: str,
        expression: str,
        *,
        queue: str,
        message: OutgoingMessage,
        timed: bool = False,
    ) -> None:
        """Store a job with its message. timed: the message is the job's name and the time."""
        async with self._core.pool.lend() as connection:
            await procedures.register_schedule(
                connection, name, expression, queue=queue, message=message, timed=timed
            )

    async def list_all(self, queue: str | None = None) -> list[ScheduleInfo]:
        async with self._core.pool.lend() as connection:
            return await procedures.list_schedules(connection, queue)

    async def pause(self, name: str, *, queue: str, paused: bool = True) -> datetime | None:
        """Pause a job, or resume it; return since when it is paused."""
        async with self._core.pool.lend() as connection:
            return await procedures.pause_schedule(connection, name, queue=queue, paused=paused)

    async def run(self, name: str, *, queue: str) -> MessageId:
        """Push a job's message now, whether or not it is paused; return its id."""
        found = await self._core.catalog.find(queue)
        async with self._core.pool.lend() as connection:
            message = await procedures.run_schedule(connection, name, queue=queue)
        self._core.traffic.pushed += 1
        self._core.wakeups.wake(found.queue_id)
        return message
