"""The state that the broker's parts share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from laneway.domain.queues import DEFAULT_GROUP
from laneway.engine.procedures.queues import list_queues

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.queues import Queue
    from laneway.engine.catalog import Catalog
    from laneway.engine.lane_queues import Lanes
    from laneway.engine.measurements import Traffic
    from laneway.engine.notifications import Notices
    from laneway.engine.pool import Pool
    from laneway.engine.wakeups import Wakeups


class Core(NamedTuple):
    pool: Pool
    catalog: Catalog
    wakeups: Wakeups
    notices: Notices
    lanes: Lanes
    traffic: Traffic

    def announce_change(self) -> None:
        """Drop cached queues and groups, in this process and the others."""
        self.catalog.forget()
        self.notices.tell_catalog()

    async def reload_queue(self, name: str) -> Queue:
        """Return the queue from the database, not from the cache."""
        self.catalog.forget(name)
        return await self.catalog.find(name)

    async def choose_queues(self, names: Sequence[str] | None) -> Sequence[Queue]:
        """Return the queues of these names, or all for None."""
        if names is not None:
            return [await self.catalog.find(name) for name in names]
        async with self.pool.lend() as connection:
            return await list_queues(connection)

    async def find_default_group(self, queue: str) -> int:
        """Return the id of a queue's default group."""
        return (await self.catalog.find_group(queue, DEFAULT_GROUP))[1].group_id
