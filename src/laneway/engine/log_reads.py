"""The broker's calls that read the log by place: no lease, and no effect on any group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import QueueNotFound
from laneway.domain.reads import (
    ChangedPage,
    ChangedPartition,
    Changes,
    LogMessage,
    PartitionExtent,
)
from laneway.engine.procedures import reads as procedures
from laneway.engine.pumps.conflicts import retry_conflicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laneway.domain.reads import ChangedQuery, PartitionRead
    from laneway.engine.core import Core


class LogReads:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def read(
        self, reads: Sequence[PartitionRead], *, max_bytes: int
    ) -> list[PartitionExtent]:
        """Return messages of each partition, together at most max_bytes of bodies, but at least one."""
        ids = await self._find_ids(read.queue for read in reads)
        queues = [ids[read.queue] for read in reads]
        async with self._core.pool.lend() as connection:
            rows = await retry_conflicts(
                lambda: procedures.read_partitions(
                    connection,
                    queues=queues,
                    partitions=[read.partition for read in reads],
                    after=[read.after for read in reads],
                    max_bytes=[read.max_bytes for read in reads],
                    total=max_bytes,
                )
            )
        messages: list[list[LogMessage]] = [[] for _ in reads]
        extents: dict[int, tuple[int, int, int]] = {}
        for row in rows:
            idx, lane, segment = row["idx"], row["lane_id"], row["segment"]
            extents[idx] = (row["lanes"], row["base"] or 0, row["newest"] or 0)
            if segment is not None:
                messages[idx] += [
                    LogMessage(segment, lane, *columns)
                    for columns in zip(
                        row["seqs"],
                        row["created_at"],
                        row["keys"],
                        row["headers"],
                        row["bodies"],
                        strict=True,
                    )
                ]
        return [PartitionExtent(*extents[idx], found) for idx, found in enumerate(messages)]

    async def list_changed(self, queries: Sequence[ChangedQuery]) -> Changes:
        """Return the partitions of each queue that were pushed to since a time."""
        ids = await self._find_ids(query.queue for query in queries)
        known = [query for query in queries if ids[query.queue] is not None]
        async with self._core.pool.lend() as connection:
            first, *rows = await retry_conflicts(
                lambda: procedures.list_changed_partitions(
                    connection,
                    queues=[ids[query.queue] or 0 for query in known],
                    since=[query.since for query in known],
                    after=[query.after for query in known],
                    limits=[query.limit for query in known],
                )
            )
        pages: list[ChangedPage] = []
        found: list[ChangedPartition] = []
        for row in rows:
            if row["lane_id"] is not None:
                found.append(
                    ChangedPartition(
                        row["lane_id"],
                        row["partition"],
                        row["base"],
                        row["newest"],
                        row["pushed_at"],
                    )
                )
            else:
                pages.append(ChangedPage(found, row["next_lane"]))
                found = []
        ready = iter(pages)
        return Changes(
            [None if ids[query.queue] is None else next(ready) for query in queries],
            first["safe_time"],
        )

    async def _find_ids(self, names: Iterable[str]) -> dict[str, int | None]:
        ids: dict[str, int | None] = {}
        for name in set(names):
            try:
                ids[name] = (await self._core.catalog.find(name)).queue_id
            except QueueNotFound:
                ids[name] = None
        return ids
