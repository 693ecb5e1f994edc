"""The broker's calls that return counts and rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.queues import DEFAULT_GROUP
from laneway.engine.procedures import statistics as procedures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.listings import PayloadSizes
    from laneway.domain.queues import Counts
    from laneway.domain.statistics import QueueMetrics, SystemStats
    from laneway.engine.core import Core


class Statistics:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def counts(self, queue: str | None = None, *, group: str = DEFAULT_GROUP) -> list[Counts]:
        """Return the counts of one group, or of every group of every queue."""
        group_ids = None
        if queue is not None:
            group_ids = [(await self._core.catalog.find_group(queue, group))[1].group_id]
        async with self._core.pool.lend() as connection:
            return await procedures.count_by_state(connection, group_ids)

    async def metrics(
        self, queue: str | None = None, *, group: str = DEFAULT_GROUP
    ) -> list[QueueMetrics]:
        """Return the metrics of a group, or of each queue that has the group, by name."""
        if queue is not None:
            # Raise an error that names what does not exist.
            await self._core.catalog.find_group(queue, group)
        async with self._core.pool.lend() as connection:
            return await procedures.metrics(connection, queue, group)

    async def system(self) -> SystemStats:
        async with self._core.pool.lend() as connection:
            return await procedures.system_stats(connection)

    async def sample_sizes(self, queues: Sequence[str] | None) -> PayloadSizes:
        """Return the sizes of bodies, from a sample of about a thousand of the newest messages."""
        chosen = [queue.queue_id for queue in await self._core.choose_queues(queues)]
        async with self._core.pool.lend() as connection:
            return await procedures.payload_sizes(connection, queue_ids=chosen)

    async def count_delayed(self, queue: str) -> int:
        """Return how many messages are not due yet, as far as that can be counted fast."""
        group_id = await self._core.find_default_group(queue)
        async with self._core.pool.lend() as connection:
            return await procedures.count_delayed(connection, group_id)

    async def count_in_flight(self, queue: str) -> int:
        group_id = await self._core.find_default_group(queue)
        async with self._core.pool.lend() as connection:
            return await procedures.count_in_flight(connection, group_id)

    async def count_in_flight_by_partition(self, queue: str) -> list[tuple[str, int]]:
        group_id = await self._core.find_default_group(queue)
        async with self._core.pool.lend() as connection:
            return await procedures.count_in_flight_by_partition(connection, group_id)
