"""The broker's calls that list many messages.

Queues are given by name; None means all. Lists show the states of the queues' default groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.listings import MessageFilter, Page
from laneway.domain.messages import Status
from laneway.domain.queues import DEFAULT_GROUP
from laneway.engine.procedures import listings as procedures

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from laneway.domain.ids import MessageId
    from laneway.domain.listings import Sort
    from laneway.domain.messages import StoredMessage
    from laneway.engine.core import Core

# Above this many, a filtered list's total is a lower bound.
MOST_COUNTED = 10_000
# By another column than created_at, only so many messages are sorted, as list_messages says.
MOST_SORTED = 10_000


class Listings:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def read_page(
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
        """Return messages of one state; sorted by other than created_at, only the newest 10,000."""
        group_ids = await self._find_groups(queues)
        async with self._core.pool.lend() as connection:
            found = await procedures.list_messages(
                connection,
                group_ids=group_ids,
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
                group_ids=group_ids,
                status=status,
                wanted=wanted,
                most=MOST_COUNTED,
            )
        # The count is later than the list: it is at least what the list shows.
        return Page(messages, max(total, offset + len(found) if found else 0), more)

    async def iterate(
        self,
        queues: Sequence[str] | None,
        status: Status,
        wanted: MessageFilter,
        *,
        sort: Sort = "created_at",
        descending: bool = True,
        chunk: int = 500,
    ) -> AsyncIterator[list[StoredMessage]]:
        """Yield all messages of one state, in batches that are read on demand.

        Sorted by other than created_at, the newest 10,000 come first, and the others follow by age.
        Between batches there is no open transaction. Messages that change meanwhile may or may not
        be included.
        """
        group_ids = await self._find_groups(queues)
        # A change of other messages moves the pages: what they repeat or miss is among these or not.
        sorted_before: set[MessageId] = set()
        for offset in range(0, 0 if sort == "created_at" else MOST_SORTED, chunk):
            async with self._core.pool.lend() as connection:
                found = await procedures.list_messages(
                    connection,
                    group_ids=group_ids,
                    status=status,
                    wanted=wanted,
                    sort=sort,
                    descending=descending,
                    limit=chunk,
                    offset=offset,
                )
            fresh = [message for message in found if message.id not in sorted_before]
            if fresh:
                yield fresh
            sorted_before.update(message.id for message in found)
            if len(found) < chunk:
                break
        # Each batch starts from the time of the last message before it. Messages already seen at that
        # time: many may share it.
        seen: set[MessageId] = set()
        while True:
            async with self._core.pool.lend() as connection:
                found = await procedures.list_messages(
                    connection,
                    group_ids=group_ids,
                    status=status,
                    wanted=wanted,
                    sort="created_at",
                    descending=descending,
                    limit=chunk + len(seen),
                    offset=0,
                )
            fresh = [
                message
                for message in found
                if message.id not in seen and message.id not in sorted_before
            ]
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
        """Return messages of any state pushed in this time range, newest first."""
        group_ids = await self._find_groups(queues)
        found: list[StoredMessage] = []
        async with self._core.pool.lend() as connection:
            for status in Status:
                found += await procedures.list_messages(
                    connection,
                    group_ids=group_ids,
                    status=status,
                    wanted=MessageFilter(since=since, until=until),
                    sort="created_at",
                    descending=True,
                    limit=limit,
                    offset=0,
                )
        found.sort(key=lambda message: (message.created_at, message.id), reverse=True)
        # A message whose state changed meanwhile may have been found twice.
        return list({message.id: message for message in found}.values())[:limit]

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
            return await procedures.list_messages(
                connection,
                group_ids=[found.group_id],
                status=status,
                wanted=MessageFilter(),
                sort="created_at",
                descending=True,
                limit=limit,
                offset=offset,
            )

    async def _find_groups(self, names: Sequence[str] | None) -> list[int]:
        """Return the ids of the default groups of the queues that have one."""
        queues = await self._core.choose_queues(names)
        return [
            queue.groups[DEFAULT_GROUP].group_id
            for queue in queues
            if DEFAULT_GROUP in queue.groups
        ]
