"""The broker's calls about where the groups of streams start."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from laneway.domain.errors import GroupExists
from laneway.domain.queues import DEFAULT_GROUP
from laneway.domain.streams import Subscription
from laneway.engine.procedures import subscriptions as procedures

if TYPE_CHECKING:
    from laneway.domain.queues import Group
    from laneway.domain.settings import Start
    from laneway.engine.core import Core
    from laneway.engine.groups import Groups


class Subscriptions:
    def __init__(self, core: Core, groups: Groups) -> None:
        self._core = core
        self._groups = groups

    async def subscribe(
        self, queue: str, name: str, *, start: Start = "all", ordered: bool | None = None
    ) -> Group:
        """Return the group, created if new; a start that was recorded before overrides `start`."""
        since = start if isinstance(start, datetime) else None
        async with self._core.pool.lend() as connection:
            begins, since = await procedures.subscribe(
                connection,
                queue=queue,
                name=name,
                start="time" if isinstance(start, datetime) else start,
                since=since,
            )
        try:
            return await self._groups.create(
                queue, name, ordered=ordered, start=begins if since is None else since
            )
        except GroupExists:
            return (await self._core.catalog.find_group(queue, name))[1]

    async def note_own_group(self, queue: str) -> None:
        """Record that the queue's own group is in use: until then it does not count."""
        async with self._core.pool.lend() as connection:
            await procedures.subscribe(
                connection, queue=queue, name=DEFAULT_GROUP, start="all", since=None
            )

    async def reposition(self, name: str, since: datetime) -> list[str]:
        """Seek a group to a time in all its queues, now and later; return those it was moved in."""
        async with self._core.pool.lend() as connection:
            await procedures.set_subscription(connection, name=name, since=since)
        queues = [
            queue.name for queue in await self._core.choose_queues(None) if name in queue.groups
        ]
        for queue in queues:
            await self._groups.seek(queue, since, group=name)
        return queues

    async def list_all(self) -> list[Subscription]:
        async with self._core.pool.lend() as connection:
            rows = await procedures.list_subscriptions(connection)
        return [Subscription._make(row) for row in rows]

    async def forget(self, name: str, *, queue_id: int | None = None) -> None:
        async with self._core.pool.lend() as connection:
            await procedures.forget_subscription(connection, name=name, queue_id=queue_id)

    async def list_counted_groups(self) -> set[int]:
        """Return the groups whose lag counts: without streams' own groups that were never used."""
        async with self._core.pool.lend() as connection:
            return set(await procedures.list_counted_groups(connection))
