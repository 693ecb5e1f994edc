"""The broker's calls about streams: leases over lanes, settling by key, transactions, places, traces."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

from laneway.domain.errors import GroupExists
from laneway.domain.ids import MessageId
from laneway.domain.messages import StoredMessage
from laneway.domain.queues import DEFAULT_GROUP
from laneway.domain.streams import (
    Fate,
    Place,
    Subscription,
    Swept,
    Trace,
    TraceName,
    Transacted,
    Verdict,
)
from laneway.engine.administration import Administration
from laneway.engine.columns import expand_places, squeeze, turn_messages
from laneway.engine.deliveries import deal
from laneway.engine.lane_queues import LanePlace
from laneway.engine.procedures import inspection, message_pages
from laneway.engine.procedures import streams as procedures
from laneway.engine.procedures.administration import encode_json
from laneway.engine.pumps.conflicts import persist

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import timedelta

    from laneway.domain.listings import MessageFilter
    from laneway.domain.messages import Handout, OutgoingMessage, Pushed, Status, Token
    from laneway.domain.queues import Counts, Group
    from laneway.domain.settings import QueueSettings, Start
    from laneway.domain.streams import Settlement
    from laneway.engine.lane_queues import Lanes

# How many lanes a sweep asks for in one call of the database, as laneway.widen_lease does.
_AT_ONCE = 16


class Streams(Administration):
    _lanes: Lanes

    async def subscribe(
        self, queue: str, name: str, *, start: Start = "all", ordered: bool | None = None
    ) -> Group:
        """Return the group, made now if it is new; where it once began goes before `start`."""
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
            return await self.create_group(
                queue, name, ordered=ordered, start=begins if since is None else since
            )
        except GroupExists:
            return (await self._core.catalog.find_group(queue, name))[1]

    async def note_own_group(self, queue: str) -> None:
        """Note that somebody reads by the queue's own group: until then it counts for nothing."""
        async with self._core.pool.lend() as connection:
            await procedures.subscribe(
                connection, queue=queue, name=DEFAULT_GROUP, start="all", since=None
            )

    def next_change(self) -> asyncio.Future[None]:
        """Return what is done when queues or groups may have changed, here or elsewhere."""
        return self._core.catalog.next_change()

    async def sweep(
        self,
        queue: str,
        group: str,
        first: Handout,
        *,
        want: int,
        lanes: int,
        lease: timedelta | None = None,
    ) -> Swept:
        """Add up to `want` messages of other lanes to what a consumer was just handed."""
        found_queue, found = await self._core.catalog.find_group(queue, group)
        async with self._core.pool.lend() as connection:
            rows = await persist(
                lambda: procedures.widen_lease(
                    connection,
                    group_id=found.group_id,
                    token=first.token,
                    lane=first.lane,
                    want=want,
                    lanes=lanes,
                    lease=lease,
                )
            )
        if not rows:
            return Swept(None, ())
        ordered = found_queue.settings.ordered
        for row in rows:
            place = LanePlace(found_queue.queue_id, row["partition"], ordered)
            self._lanes.learn(row["lane_id"], place)
        dealt = deal((row[1:] for row in rows), [want] * _AT_ONCE)
        return Swept(rows[0]["lease"], [handout for part in dealt for handout in part])

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        """Settle messages each on its own; those of a lease that fails one of them, not at all."""
        if not settlements:
            return []
        async with self._core.pool.lend() as connection:
            rows = await persist(lambda: procedures.settle_stream(connection, settlements))
        self._free(settlements)
        return [Verdict(Fate(outcome), released) for _, outcome, released in rows]

    async def transact_stream(
        self,
        settlements: Sequence[Settlement],
        pushes: Sequence[tuple[str, OutgoingMessage]],
        *,
        required: Sequence[Token] = (),
        guards: Mapping[str, int],
        new: Mapping[str, QueueSettings],
    ) -> Transacted:
        """Settle and push, all or nothing; LockLost where a lease is gone or one cannot be settled.

        guards and new: as for `push_within_limits`; Conflict where a queue is full.
        """
        columns = await self._address(pushes, guards, new)
        async with self._core.pool.lend() as connection:
            rows = await persist(
                lambda: procedures.transact_stream(
                    connection, required=required, settlements=settlements, pushes=columns
                )
            )
        self._free(settlements)
        self._announce(columns)
        return Transacted(
            [Verdict(Fate(row["outcome"]), row["released"]) for row in rows if not row["pushed"]],
            expand_places(
                (
                    row["idx"],
                    row["run"],
                    row["segment"],
                    row["lane_id"],
                    row["seq"],
                    row["duplicate"],
                )  # type: ignore[misc]
                for row in rows
                if row["pushed"]
            ),
        )

    async def extend_leases(
        self, leases: Sequence[Token], *, lasts: timedelta
    ) -> list[tuple[datetime | None, int]]:
        """Return each lease's new deadline, None where it is gone, and how many claims it covers."""
        async with self._core.pool.lend() as connection:
            rows = await procedures.extend_leases(connection, leases, [lasts] * len(leases))
        return [(until, renewed) for _, until, renewed in rows]

    async def push_within_limits(
        self,
        pushes: Sequence[tuple[str, OutgoingMessage]],
        *,
        guards: Mapping[str, int],
        new: Mapping[str, QueueSettings],
    ) -> list[Pushed | None]:
        """Return where the messages are, None where a queue had no room; all that fit, or nothing.

        new: queues that are made with it, or not if it fails. QueueChanged where a queue has other
        guards than those given, or is there though it is to be new.
        """
        columns = await self._address(pushes, guards, new)
        async with self._core.pool.lend() as connection:
            rows = await persist(lambda: procedures.push_within_limits(connection, columns))
        self._announce(columns)
        pushed: list[Pushed | None] = [None] * len(pushes)
        for row in rows:
            places = expand_places([row])
            pushed[row["idx"] : row["idx"] + len(places)] = places
        return pushed

    def forget_queues(self, names: Iterable[str]) -> None:
        """Ask for these queues anew when they are next needed."""
        for name in names:
            self._core.catalog.forget(name)

    async def list_places(
        self,
        queue: str,
        *,
        group: str | None = None,
        partition: str | None = None,
        limit: int = 1000,
    ) -> list[Place]:
        """Return where each group is in each partition."""
        found = await self._core.catalog.find(queue)
        async with self._core.pool.lend() as connection:
            rows = await procedures.list_stream_positions(
                connection,
                queue_id=found.queue_id,
                group=group,
                partition=partition,
                limit=limit,
            )
        return [Place._make(row) for row in rows]

    async def name_lanes(self, lanes: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Return the queue and partition of those lanes that exist."""
        async with self._core.pool.lend() as connection:
            rows = await inspection.find_lanes(connection, list(set(lanes)))
        return {lane: (queue, partition) for lane, _, queue, partition, _ in rows}

    async def find_message_by_key(
        self,
        lane: int,
        key: str,
        *,
        address: MessageId | None = None,
        group: str = DEFAULT_GROUP,
    ) -> StoredMessage | None:
        """Return the message that a client calls so, as the group sees it."""
        async with self._core.pool.lend() as connection:
            found = await procedures.find_message_by_key(
                connection,
                lane=lane,
                group=group,
                key=key,
                address=(address.segment, address.seq) if address else (None, None),
            )
            lanes = await inspection.find_lanes(connection, [lane]) if found else []
            if found is None or not lanes:
                return None
            _, seen_by = await self._core.catalog.find_group(lanes[0]["queue"], group)
            rows = await inspection.find_messages(
                connection,
                group_id=seen_by.group_id,
                ids=[MessageId(found["segment"], lane, found["seq"])],
            )
        return StoredMessage._make(rows[0]) if rows else None

    async def list_group(
        self,
        groups: Sequence[int],
        status: Status,
        wanted: MessageFilter,
        *,
        limit: int,
        offset: int = 0,
    ) -> list[StoredMessage]:
        """Return messages of one state as these groups see them, newest first."""
        async with self._core.pool.lend() as connection:
            return await message_pages.list_messages(
                connection,
                group_ids=list(groups),
                status=status,
                wanted=wanted,
                sort="created_at",
                descending=True,
                limit=limit,
                offset=offset,
            )

    async def count_group(
        self, groups: Sequence[int], status: Status, wanted: MessageFilter
    ) -> int:
        async with self._core.pool.lend() as connection:
            return await message_pages.count_messages(
                connection, group_ids=list(groups), status=status, wanted=wanted, most=10_000
            )

    async def count_groups(self, groups: Sequence[int]) -> list[Counts]:
        async with self._core.pool.lend() as connection:
            return await inspection.counts(connection, list(groups))

    async def count_partitions(self) -> dict[int, int]:
        """Return how many partitions each queue has."""
        async with self._core.pool.lend() as connection:
            return await procedures.count_partitions(connection)

    async def measure_streams(
        self, queue_ids: Sequence[int], *, since: datetime, until: datetime, step: timedelta
    ) -> list[tuple[datetime, int, int, int, int, int]]:
        """Return what happened in each step of time: pushed, claimed, acked, failed, dead."""
        async with self._core.pool.lend() as connection:
            rows = await procedures.stream_activity(
                connection, queue_ids=queue_ids, since=since, until=until, step=step
            )
        return [tuple(row) for row in rows]

    async def set_subscription(self, name: str, since: datetime) -> list[str]:
        """Have a group begin at a moment; return the queues that it reads already and moved in."""
        async with self._core.pool.lend() as connection:
            await procedures.set_subscription(connection, name=name, since=since)
        queues = [queue.name for queue in await self.list_queues() if name in queue.groups]
        for queue in queues:
            await self.seek(queue, since, group=name)
        return queues

    async def counting_groups(self) -> set[int]:
        """Return the groups whose backlog counts: not a stream's own that nobody ever read by."""
        async with self._core.pool.lend() as connection:
            return set(await procedures.counting_groups(connection))

    async def list_subscriptions(self) -> list[Subscription]:
        async with self._core.pool.lend() as connection:
            rows = await procedures.list_subscriptions(connection)
        return [Subscription._make(row) for row in rows]

    async def forget_subscription(self, name: str, *, queue_id: int | None = None) -> None:
        async with self._core.pool.lend() as connection:
            await procedures.forget_subscription(connection, name=name, queue_id=queue_id)

    async def record_trace(
        self,
        lane: int,
        key: str,
        *,
        group: str,
        event_type: str,
        names: Sequence[str],
        data: str,
    ) -> tuple[int, datetime]:
        """Note something about a message; return the note's number and time."""
        async with self._core.pool.lend() as connection:
            trace_id, at = await procedures.record_trace(
                connection,
                lane=lane,
                key=key,
                group=group,
                event_type=event_type,
                names=names,
                data=data,
            )
        return trace_id, at

    async def list_traces(
        self, lane: int, key: str, *, limit: int = 1000, offset: int = 0
    ) -> list[Trace]:
        async with self._core.pool.lend() as connection:
            rows = await procedures.list_traces(
                connection, lane=lane, key=key, limit=limit, offset=offset
            )
        return [Trace._make(row) for row in rows]

    async def list_traces_by_name(
        self,
        name: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Trace]:
        async with self._core.pool.lend() as connection:
            rows = await procedures.list_traces(
                connection, name=name, since=since, until=until, limit=limit, offset=offset
            )
        return [Trace._make(row) for row in rows]

    async def list_trace_names(self, *, limit: int = 100, offset: int = 0) -> list[TraceName]:
        async with self._core.pool.lend() as connection:
            rows = await procedures.list_trace_names(connection, limit=limit, offset=offset)
        return [TraceName._make(row) for row in rows]

    async def _address(
        self,
        pushes: Sequence[tuple[str, OutgoingMessage]],
        guards: Mapping[str, int],
        new: Mapping[str, QueueSettings],
    ) -> procedures.GuardedColumns:
        names = sorted(new)
        ids = {name: -number for number, name in enumerate(names, 1)}
        for name in {name for name, _ in pushes} - new.keys():
            ids[name] = (await self._core.catalog.find(name)).queue_id
        queues = [ids[name] for name, _ in pushes]
        expected = [guards[name] for name, _ in pushes]
        columns = turn_messages([message for _, message in pushes])
        return procedures.GuardedColumns(
            (squeeze(queues) or queues) if queues else (),
            columns.bodies,
            columns.partitions,
            columns.keys,
            columns.headers,
            squeeze(expected) if expected else None,
            names,
            [encode_json(asdict(new[name])) for name in names],
        )

    def _announce(self, pushed: procedures.GuardedColumns) -> None:
        if pushed.new:
            self._core.announce_change()
        for queue_id in set(pushed.queues):
            if queue_id > 0:
                # Some of it may be due later only.
                self._core.wakeups.wake(queue_id, delayed=True)

    def _free(self, settlements: Sequence[Settlement]) -> None:
        requeued = any(settlement.action != "ack" for settlement in settlements)
        self._lanes.free({settlement.lane for settlement in settlements}, requeued=requeued)
