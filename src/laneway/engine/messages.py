"""The broker's calls for manual operations on messages: find, move, edit, purge."""

from __future__ import annotations

from contextlib import suppress
from itertools import starmap
from typing import TYPE_CHECKING, Literal, TypeAlias

from laneway.domain.errors import NotFound
from laneway.domain.messages import Status, StoredMessage
from laneway.domain.queues import DEFAULT_GROUP
from laneway.engine.procedures import messages as procedures
from laneway.engine.procedures.queues import encode_json
from laneway.engine.steps import take_steps

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime, timedelta

    from laneway.domain.backend import LeasedMessage
    from laneway.domain.ids import MessageId
    from laneway.domain.messages import MessageChanges, Token
    from laneway.engine.core import Core
    from laneway.engine.procedures.call import Connection, Step

Target: TypeAlias = Status | Literal["deleted"]


class Messages:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def find(
        self, queue: str, ids: Sequence[MessageId], *, group: str = DEFAULT_GROUP
    ) -> list[StoredMessage | None]:
        """Return each message as the group sees it, None if it is not kept."""
        if not ids:
            return []
        _, found = await self._core.catalog.find_group(queue, group)
        async with self._core.pool.lend() as connection:
            rows = await procedures.find_messages(connection, group_id=found.group_id, ids=ids)
        kept = {message.id: message for message in starmap(StoredMessage, rows)}
        return [kept.get(message_id) for message_id in ids]

    async def locate(self, ids: Sequence[MessageId]) -> list[str | None]:
        """Return the queue that each message belongs to, None where its lane does not exist."""
        async with self._core.pool.lend() as connection:
            rows = await procedures.find_lanes(connection, list({item.lane for item in ids}))
        names = {lane: name for lane, _, name, _, _ in rows}
        return [names.get(item.lane) for item in ids]

    async def find_leases(
        self, queue: str, ids: Sequence[MessageId], *, group: str = DEFAULT_GROUP
    ) -> list[Token | None]:
        """Return the tokens of the messages' current leases, None without one."""
        if not ids:
            return []
        _, found = await self._core.catalog.find_group(queue, group)
        async with self._core.pool.lend() as connection:
            rows = await procedures.find_lease_tokens(connection, group_id=found.group_id, ids=ids)
        tokens: list[Token | None] = [None] * len(ids)
        for position, token in rows:
            tokens[position] = token
        return tokens

    async def move(
        self,
        queue: str,
        ids: Sequence[MessageId],
        *,
        source: Status,
        target: Target,
        group: str = DEFAULT_GROUP,
        reason: str | None = None,
        consumer: str | None = None,
        lease: timedelta | None = None,
    ) -> dict[MessageId, Token | None]:
        """Move messages between states, whether or not they are leased.

        Return those that were in `source` and moved, with the new token if the target is
        processing.
        """
        if not ids:
            return {}
        found_queue, found = await self._core.catalog.find_group(queue, group)
        async with self._core.pool.lend() as connection:
            rows = await procedures.move_messages(
                connection,
                group_id=found.group_id,
                ids=ids,
                source=source,
                target=target,
                reason=reason,
                consumer=consumer,
                lease=lease,
            )
        self._core.wakeups.wake(found_queue.queue_id, delayed=True)
        return {ids[position]: token for position, token in rows}

    async def delete(
        self, queue: str, ids: Sequence[MessageId], *, source: Status, group: str = DEFAULT_GROUP
    ) -> set[MessageId]:
        """Delete messages that are in `source`; return those that were deleted."""
        return set(await self.move(queue, ids, source=source, target="deleted", group=group))

    async def archive(
        self,
        queue: str,
        ids: Sequence[MessageId],
        *,
        source: Status,
        group: str = DEFAULT_GROUP,
        reason: str | None = None,
    ) -> set[MessageId]:
        """Keep messages that are in `source` beyond retention; return those that were kept."""
        moved = await self.move(
            queue, ids, source=source, target=Status.ARCHIVED, group=group, reason=reason
        )
        return set(moved)

    async def archive_leased(
        self, queue: str, holdings: Sequence[LeasedMessage], *, group: str = DEFAULT_GROUP
    ) -> list[int]:
        """Archive messages by their lease tokens; return the positions of those archived."""
        if not holdings:
            return []
        _, found = await self._core.catalog.find_group(queue, group)
        async with self._core.pool.lend() as connection:
            return await procedures.archive_many(
                connection, group_id=found.group_id, holdings=holdings
            )

    async def edit(
        self,
        queue: str,
        message: MessageId,
        changes: MessageChanges,
        *,
        source: Status,
        group: str = DEFAULT_GROUP,
    ) -> bool:
        """Change a message for a group; return whether it was in `source`."""
        plain = {
            name: value
            for name, value in changes.items()
            if value is None or name not in {"body", "headers"}
        }
        found_queue, found = await self._core.catalog.find_group(queue, group)
        async with self._core.pool.lend() as connection:
            changed = await procedures.edit_message(
                connection,
                group_id=found.group_id,
                message=message,
                source=source,
                changes=encode_json(plain),
                body=changes.get("body"),
                headers=changes.get("headers"),
            )
        self._core.wakeups.wake(found_queue.queue_id, delayed=True)
        return changed

    async def purge(
        self, queue: str, *, status: Status | None = None, group: str = DEFAULT_GROUP
    ) -> int:
        """Delete all messages of a state, or of any; return how many."""
        found_queue, found = await self._core.catalog.find_group(queue, group)

        async def purge(connection: Connection, done: Step) -> Step:
            return await procedures.purge(
                connection, group_id=found.group_id, status=status, done=done
            )

        purged = await take_steps(self._core.pool, purge)
        self._core.wakeups.wake(found_queue.queue_id)
        return purged

    async def hasten(self, queue: str, until: datetime, *, group: str = DEFAULT_GROUP) -> int:
        """Make messages ready that are delayed until this moment at most; return how many."""
        found_queue, found = await self._core.catalog.find_group(queue, group)
        async with self._core.pool.lend() as connection:
            hastened = await procedures.hasten(connection, group_id=found.group_id, until=until)
        self._core.wakeups.wake(found_queue.queue_id, delayed=True)
        return hastened

    async def purge_each(
        self, queues: Sequence[str] | None = None, *, status: Status | None = None
    ) -> int:
        """Delete all messages of a state, or of any, queue by queue; None: of every queue."""

        async def purge(queue: str) -> int:
            return await self.purge(queue, status=status)

        return await self._sum_up(queues, purge)

    async def delete_between(
        self, queues: Sequence[str] | None, since: datetime, until: datetime
    ) -> int:
        """Delete messages pushed in this time range, in any state; None: of every queue."""

        async def delete(queue: str) -> int:
            _, found = await self._core.catalog.find_group(queue, DEFAULT_GROUP)

            async def step(connection: Connection, done: Step) -> Step:
                return await procedures.delete_between(
                    connection, group_id=found.group_id, since=since, until=until, done=done
                )

            return await take_steps(self._core.pool, step)

        return await self._sum_up(queues, delete)

    async def name_lanes(self, lanes: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Return the queue and partition of each lane that exists."""
        async with self._core.pool.lend() as connection:
            rows = await procedures.find_lanes(connection, list(set(lanes)))
        return {lane: (queue, partition) for lane, _, queue, partition, _ in rows}

    async def find_first_claims(self, queue: str, ids: Sequence[MessageId]) -> dict[MessageId, int]:
        """Return when messages were first delivered, in milliseconds of Unix time."""
        group_id = await self._core.find_default_group(queue)
        async with self._core.pool.lend() as connection:
            rows = await procedures.first_claim_times(
                connection,
                group_id=group_id,
                lanes=[item.lane for item in ids],
                seqs=[item.seq for item in ids],
            )
        return {ids[position]: int(at.timestamp() * 1000) for position, at in rows}

    async def _sum_up(
        self, queues: Sequence[str] | None, call: Callable[[str], Awaitable[int]]
    ) -> int:
        if queues is not None:
            return sum([await call(name) for name in queues])
        total = 0
        for queue in await self._core.choose_queues(None):
            # With all queues, ignore those that were deleted meanwhile.
            with suppress(NotFound):
                total += await call(queue.name)
        return total
