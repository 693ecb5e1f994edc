"""The broker's calls that look at many messages: pages, whole lists, and what lists are about.

Queues are named; None means all there are. What is listed is what their own groups see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from laneway.domain.listings import MessageFilter, Page
from laneway.domain.messages import Status
from laneway.domain.queues import DEFAULT_GROUP
from laneway.engine.procedures import message_pages as procedures
from laneway.engine.procedures.administration import list_queues

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from laneway.domain.ids import MessageId
    from laneway.domain.listings import PayloadSizes, Sort
    from laneway.domain.messages import StoredMessage
    from laneway.domain.queues import Queue
    from laneway.engine.core import Core

# Beyond so many, a filtered list's total is "at least".
MOST_COUNTED = 10_000


class _Chosen(NamedTuple):
    queue_ids: list[int]
    group_ids: list[int]


class Listing:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def list_page(
        self,
        queues: Sequence[str] | None,
        status: Status,
        wanted: MessageFilter,
        *,
        sort: Sort = "created_at",
        descending: bool = True,
        limit: int = 100,
        offset: int = 0,
    ) -> Page:
        """Return messages of one state; by anything but created_at, the newest 10,000 are sorted."""
        chosen = await self._choose(queues)
        async with self._core.pool.lend() as connection:
            found = await procedures.list_messages(
                connection,
                group_ids=chosen.group_ids,
                status=status,
                wanted=wanted,
                sort=sort,
                descending=descending,
                limit=limit + 1,
                offset=offset,
            )
            messages, more = found[:limit], len(found) > limit
            if wanted != MessageFilter() and not more and (messages or not offset):
                return Page(messages, offset + len(messages), more=False)
            total = await procedures.count_messages(
                connection,
                group_ids=chosen.group_ids,
                status=status,
                wanted=wanted,
                most=MOST_COUNTED,
            )
        # Counted a moment later than listed: what is shown is there in any case.
        return Page(messages, max(total, offset + len(found) if found else 0), more)

    async def iterate(
        self,
        queues: Sequence[str] | None,
        status: Status,
        wanted: MessageFilter,
        *,
        descending: bool = True,
        chunk: int = 500,
    ) -> AsyncIterator[list[StoredMessage]]:
        """Yield all messages of one state by age, in parts, each read when it is asked for.

        Nothing is held between the parts, however long a reader takes: each goes on from the time
        of the last message before it. What changes meanwhile may or may not be seen.
        """
        chosen = await self._choose(queues)
        # Those already seen of the moment to go on from: many messages may share one.
        seen: set[MessageId] = set()
        while True:
            async with self._core.pool.lend() as connection:
                found = await procedures.list_messages(
                    connection,
                    group_ids=chosen.group_ids,
                    status=status,
                    wanted=wanted,
                    sort="created_at",
                    descending=descending,
                    limit=chunk + len(seen),
                    offset=0,
                )
            fresh = [message for message in found if message.id not in seen]
            if fresh:
                yield fresh
            if len(found) < chunk + len(seen):
                return
            last = found[-1].created_at
            seen = {message.id for message in found if message.created_at == last}
            wanted = wanted._replace(until=last) if descending else wanted._replace(since=last)

    async def list_between(
        self, queues: Sequence[str] | None, since: datetime, until: datetime, *, limit: int
    ) -> list[StoredMessage]:
        """Return messages of any state that were pushed in that time, newest first."""
        chosen = await self._choose(queues)
        found: list[StoredMessage] = []
        async with self._core.pool.lend() as connection:
            for status in Status:
                found += await procedures.list_messages(
                    connection,
                    group_ids=chosen.group_ids,
                    status=status,
                    wanted=MessageFilter(since=since, until=until),
                    sort="created_at",
                    descending=True,
                    limit=limit,
                    offset=0,
                )
        found.sort(key=lambda message: (message.created_at, message.id), reverse=True)
        # One that moved on while the states were read may have been found twice.
        return list({message.id: message for message in found}.values())[:limit]

    async def list_partitions(self, queues: Sequence[str] | None) -> list[str]:
        """Return the partitions' names, a thousand at the most."""
        chosen = await self._choose(queues)
        async with self._core.pool.lend() as connection:
            return await procedures.list_partitions(connection, queue_ids=chosen.queue_ids)

    async def sample_sizes(self, queues: Sequence[str] | None) -> PayloadSizes:
        """Return how large bodies are, by about a thousand of the newest messages."""
        chosen = await self._choose(queues)
        async with self._core.pool.lend() as connection:
            return await procedures.payload_sizes(connection, queue_ids=chosen.queue_ids)

    async def _choose(self, names: Sequence[str] | None) -> _Chosen:
        if names is None:
            async with self._core.pool.lend() as connection:
                queues: Sequence[Queue] = await list_queues(connection)
        else:
            queues = [await self._core.catalog.find(name) for name in names]
        return _Chosen(
            [queue.queue_id for queue in queues],
            [
                queue.groups[DEFAULT_GROUP].group_id
                for queue in queues
                if DEFAULT_GROUP in queue.groups
            ],
        )
