"""The broker's calls that a person makes: the schema, numbers, lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import LanewayError, Misconfigured
from laneway.domain.ids import MessageId
from laneway.domain.listings import MessageFilter
from laneway.domain.queues import DEFAULT_GROUP
from laneway.domain.statistics import Happening, Watched
from laneway.engine.activity import Activity
from laneway.engine.procedures import activity, inspection, message_pages
from laneway.engine.procedures import statistics as procedures
from laneway.engine.sqlstates import translate
from laneway.sql.migrate import install, verify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.activity import Event, Snapshot
    from laneway.domain.backend import Holding
    from laneway.domain.messages import Status, StoredMessage
    from laneway.domain.statistics import QueueMetrics, SystemStats
    from laneway.engine.core import Core

MOST_EVENTS = 1000

# No message is that large: sizes do not matter here.
NOT_LARGE = 2**31 - 1


class Overview:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def install(self) -> int:
        """Bring the schema to the version of this Laneway; return that."""
        async with self._core.pool.lend() as connection:
            try:
                report = await install(connection)
            except LanewayError:
                raise
            except Exception as error:
                raise translate(error) from error
        self._core.announce_change()
        return report.version

    async def verify(self) -> list[str]:
        """Return what differs from the schema as shipped, and what points to nothing."""
        async with self._core.pool.lend() as connection:
            try:
                problems = [f"{item.subject} {item.message}" for item in await verify(connection)]
            except LanewayError:
                raise
            except Exception as error:
                raise translate(error) from error
            try:
                orphans = await procedures.orphans(connection)
            except Misconfigured:
                if not problems:
                    raise
                # Something that it looks at is missing, as was told above.
                orphans = []
        problems += [
            f"table {table} has {rows} rows that point to nothing" for table, rows in orphans
        ]
        return problems

    async def metrics(
        self, queue: str | None = None, *, group: str = DEFAULT_GROUP
    ) -> list[QueueMetrics]:
        """Return how a group of a queue stands, or of each queue that has one, by name."""
        if queue is not None:
            # Whichever does not exist is told by its name.
            await self._core.catalog.find_group(queue, group)
        async with self._core.pool.lend() as connection:
            return await procedures.metrics(connection, queue, group)

    async def system_stats(self) -> SystemStats:
        async with self._core.pool.lend() as connection:
            return await procedures.system_stats(connection)

    async def follow_queue(self, queue: str, seen: Snapshot | None = None) -> Watched:
        """Return what happened in a queue since the last look; the first only marks the place."""
        found = await self._core.catalog.find(queue)
        if seen is None:
            async with self._core.pool.lend() as connection:
                return Watched([], await activity.read_snapshot(connection), more=False)
        # Everything that happened is looked at, and what happened elsewhere passed over.
        look = await Activity(self._core).follow(seen, limit=MOST_EVENTS, large=NOT_LARGE)
        shown = [_show(event) for event in look.events if event.queue_id == found.queue_id]
        return Watched(shown, look.seen, look.more)

    async def browse(
        self,
        queue: str,
        status: Status,
        *,
        limit: int = 100,
        offset: int = 0,
        group: str = DEFAULT_GROUP,
    ) -> list[StoredMessage]:
        """Return messages of one state, newest first."""
        _, found = await self._core.catalog.find_group(queue, group)
        async with self._core.pool.lend() as connection:
            return await message_pages.list_messages(
                connection,
                group_ids=[found.group_id],
                status=status,
                wanted=MessageFilter(),
                sort="created_at",
                descending=True,
                limit=limit,
                offset=offset,
            )

    async def archive_held(
        self, queue: str, holdings: Sequence[Holding], *, group: str = DEFAULT_GROUP
    ) -> list[int]:
        """Archive messages that their tokens hold; return the positions of those that were."""
        if not holdings:
            return []
        _, found = await self._core.catalog.find_group(queue, group)
        async with self._core.pool.lend() as connection:
            return await inspection.archive_many(
                connection, group_id=found.group_id, holdings=holdings
            )


def _show(event: Event) -> Happening:
    first = last = None
    if event.segment is not None and event.lane is not None:
        first, last = (
            None if seq is None else str(MessageId(event.segment, event.lane, seq))
            for seq in (event.first_seq, event.last_seq)
        )
    return Happening(
        event.at,
        event.kind,
        event.group,
        event.partition,
        event.messages,
        first,
        last,
        event.attempt,
        event.consumer,
        event.reason,
    )
