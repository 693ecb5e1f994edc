"""The broker's calls about consumer groups."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from laneway.domain.errors import InvalidSetting
from laneway.domain.queues import DEFAULT_GROUP
from laneway.engine.procedures import groups as procedures
from laneway.engine.procedures.call import Step
from laneway.engine.pumps.conflicts import retry_conflicts
from laneway.engine.steps import take_steps

if TYPE_CHECKING:
    from laneway.domain.queues import Group
    from laneway.domain.settings import Place, Start, Target
    from laneway.engine.core import Core
    from laneway.engine.procedures.call import Connection


class Groups:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def create(
        self, queue: str, name: str, *, ordered: bool | None = None, start: Start = "all"
    ) -> Group:
        """Create a group that reads the whole queue; ordered None: as the queue is."""
        since = start if isinstance(start, datetime) else None
        async with self._core.pool.lend() as connection:
            group_id = await procedures.create_group(
                connection,
                queue=queue,
                name=name,
                ordered=ordered,
                start="time" if isinstance(start, datetime) else start,
                since=since,
            )
        await self._mark_readers_idle(group_id)
        self._core.announce_change()
        return (await self._core.catalog.find_group(queue, name))[1]

    async def delete(self, queue: str, name: str) -> None:
        found, _ = await self._core.catalog.find_group(queue, name)
        async with self._core.pool.lend() as connection:
            await retry_conflicts(
                lambda: procedures.delete_group(connection, queue=queue, name=name)
            )
        self._core.announce_change()
        self._core.wakeups.wake(found.queue_id)

    async def list_all(self, queue: str) -> list[Group]:
        return list((await self._core.reload_queue(queue)).groups.values())

    async def seek(
        self, queue: str, to: Place, *, group: str = DEFAULT_GROUP, partition: str | None = None
    ) -> int:
        """Reposition a group, or its part in one partition; return how many lanes moved."""
        if isinstance(to, bool):
            raise InvalidSetting(
                "a group can seek to earliest, latest, a time or a sequence number"
            )
        target, time, seq = _aim(to)
        return await self.seek_to(
            queue, target, time=time, seq=seq, group=group, partition=partition
        )

    async def seek_to(
        self,
        queue: str,
        target: Target,
        *,
        time: datetime | None = None,
        seq: int | None = None,
        group: str = DEFAULT_GROUP,
        partition: str | None = None,
    ) -> int:
        """Reposition a group: to the earliest or latest message, to `time`, or to `seq`."""
        found_queue, found = await self._core.catalog.find_group(queue, group)

        async def move(connection: Connection, done: Step) -> Step:
            return await procedures.seek(
                connection,
                group_id=found.group_id,
                to=target,
                time=time,
                seq=seq,
                partition=partition,
                done=done,
            )

        moved = await take_steps(self._core.pool, move)
        self._core.wakeups.wake(found_queue.queue_id, delayed=True)
        return moved

    async def _mark_readers_idle(self, group_id: int) -> None:
        """Mark the readers of a new group idle in lanes that have nothing for it."""

        async def rest(connection: Connection, done: Step) -> Step:
            return Step(
                0, await procedures.mark_readers_idle(connection, group_id, after=done.after)
            )

        await take_steps(self._core.pool, rest)


def _aim(to: Place) -> tuple[Target, datetime | None, int | None]:
    match to:
        case datetime():
            return "time", to, None
        case int():
            return "seq", None, to
        case _:
            return to, None, None
