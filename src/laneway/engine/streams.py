"""The broker's calls for streams: leases over lanes, acks by dedup key, transactions, positions."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

from laneway.domain.errors import QueueNotFound
from laneway.domain.ids import MessageId
from laneway.domain.kv import KvRow
from laneway.domain.messages import StoredMessage
from laneway.domain.queues import DEFAULT_GROUP
from laneway.domain.streams import Fate, Place, Transacted, Verdict, WidenedLease
from laneway.domain.timers import TimerResult
from laneway.engine.columns import expand_places, squeeze, turn_messages
from laneway.engine.deliveries import count_messages as count_claimed
from laneway.engine.deliveries import distribute
from laneway.engine.lane_queues import LanePlace
from laneway.engine.procedures import streams as procedures
from laneway.engine.procedures.listings import count_messages, list_messages
from laneway.engine.procedures.messages import find_lanes, find_messages
from laneway.engine.procedures.queues import encode_json
from laneway.engine.procedures.statistics import count_by_state
from laneway.engine.procedures.timers import TimerColumns
from laneway.engine.pumps.conflicts import retry_conflicts

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from laneway.domain.kv import KvOperation
    from laneway.domain.listings import MessageFilter
    from laneway.domain.messages import ClaimedSpan, OutgoingMessage, Pushed, Status, Token
    from laneway.domain.queues import Counts
    from laneway.domain.settings import QueueSettings
    from laneway.domain.streams import Settlement
    from laneway.domain.timers import TimerOperation
    from laneway.engine.core import Core

# Lanes per database call of a sweep; laneway.widen_lease uses the same number.
_AT_ONCE = 16
# Maintenance looks for timers as often; one that is due sooner wakes it.
_SOON = timedelta(milliseconds=200)


class Streams:
    def __init__(self, core: Core, timers_due: asyncio.Event) -> None:
        self._core = core
        # Set for the maintenance leader, if it is in this process.
        self._timers_due = timers_due

    async def widen_lease(
        self,
        queue: str,
        group: str,
        first: ClaimedSpan,
        *,
        want: int,
        lanes: int,
        lease: timedelta | None = None,
    ) -> WidenedLease:
        """Add up to `want` messages of other lanes to the lease that a consumer just got."""
        found_queue, found = await self._core.catalog.find_group(queue, group)
        async with self._core.pool.lend() as connection:
            rows = await retry_conflicts(
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
            return WidenedLease(None, ())
        ordered = found_queue.settings.ordered
        for row in rows:
            place = LanePlace(found_queue.queue_id, row["partition"], ordered)
            self._core.lanes.learn(row["lane_id"], place)
        parts = distribute((row[1:] for row in rows), [want] * _AT_ONCE)
        spans = [span for part in parts for span in part]
        self._core.traffic.delivered += count_claimed(spans)
        return WidenedLease(rows[0]["lease"], spans)

    def commits_offsets(self, queue: str, group: str) -> bool | None:
        """Return whether an ack also acks the messages before it; None if it is not known.

        See laneway.settle_stream.
        """
        found = self._core.catalog.peek(queue)
        reader = found.groups.get(group) if found is not None else None
        if found is None or reader is None:
            return None
        return reader.ordered and not found.settings.individual_acks

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        """Settle messages one by one; a failure refuses all messages of the same lease."""
        if not settlements:
            return []
        async with self._core.pool.lend() as connection:
            rows = await retry_conflicts(lambda: procedures.settle_stream(connection, settlements))
        self._free(settlements)
        verdicts = [
            Verdict(Fate(outcome), released, implied) for _, outcome, released, implied in rows
        ]
        self._core.traffic.count_verdicts(verdicts)
        return verdicts

    async def transact(
        self,
        settlements: Sequence[Settlement],
        pushes: Sequence[tuple[str, OutgoingMessage]],
        *,
        required: Sequence[Token] = (),
        guards: Mapping[str, int],
        new: Mapping[str, QueueSettings],
        kv: Sequence[KvOperation] = (),
        timers: Sequence[TimerOperation] = (),
    ) -> Transacted:
        """Settle and push, all or nothing; LeaseLost if a message cannot be settled.

        guards and new: as for `push_within_limits`, also for the queues of timers; Conflict if a queue is
        full. kv: as for `KeyValues.apply`, before everything else.
        """
        columns = await self._address(pushes, guards, new)
        bundled = bool(kv or timers)
        if bundled:
            timer_columns = await self._address_timers(timers, guards, columns.new)
        async with self._core.pool.lend() as connection:
            if bundled:
                rows = await retry_conflicts(
                    lambda: procedures.transact_bundle(
                        connection,
                        kv=kv,
                        timers=timer_columns,
                        required=required,
                        settlements=settlements,
                        pushes=columns,
                    )
                )
            else:
                rows = await retry_conflicts(
                    lambda: procedures.transact_stream(
                        connection, required=required, settlements=settlements, pushes=columns
                    )
                )
        if any(each.delay is not None and each.delay < _SOON for each in timers):
            self._timers_due.set()
        messages = [row for row in rows if row["part"] == "message"] if bundled else rows
        self._free(settlements)
        self._announce(columns)
        verdicts = [
            Verdict(Fate(row["outcome"]), row["released"], row["implied"])
            for row in messages
            if not row["pushed"]
        ]
        self._core.traffic.count_verdicts(verdicts)
        self._core.traffic.pushed += len(pushes)
        return Transacted(
            verdicts,
            expand_places(
                (
                    row["idx"],
                    row["messages"],
                    row["segment"],
                    row["lane_id"],
                    row["seq"],
                    row["duplicate"],
                )  # type: ignore[misc]
                for row in messages
                if row["pushed"]
            ),
            [
                KvRow._make(row[name] for name in KvRow._fields)
                for row in (rows if kv else ())
                if row["part"] == "kv"
            ],
            [
                TimerResult._make(row[name] for name in TimerResult._fields)
                for row in (rows if timers else ())
                if row["part"] == "timer"
            ],
        )

    async def extend_leases(
        self, leases: Sequence[Token], *, duration: timedelta
    ) -> list[tuple[datetime | None, int]]:
        """Return each lease's new expiry time, None if it has ended, and its number of lanes."""
        async with self._core.pool.lend() as connection:
            rows = await procedures.extend_leases(connection, leases, [duration] * len(leases))
        return [(until, renewed) for _, until, renewed in rows]

    async def push_within_limits(
        self,
        pushes: Sequence[tuple[str, OutgoingMessage]],
        *,
        guards: Mapping[str, int],
        new: Mapping[str, QueueSettings],
    ) -> list[Pushed | None]:
        """Push what fits; return the messages' places, None where a queue was full.

        new: queues that are created in the same transaction. QueueChanged if a queue's guards are
        not those given, or if a queue in `new` exists already.
        """
        columns = await self._address(pushes, guards, new)
        async with self._core.pool.lend() as connection:
            rows = await retry_conflicts(lambda: procedures.push_within_limits(connection, columns))
        self._announce(columns)
        pushed: list[Pushed | None] = [None] * len(pushes)
        for row in rows:
            places = expand_places([row])
            pushed[row["idx"] : row["idx"] + len(places)] = places
        self._core.traffic.pushed += len(pushed) - pushed.count(None)
        return pushed

    async def list_positions(
        self,
        queue: str,
        *,
        group: str | None = None,
        partition: str | None = None,
        limit: int = 1000,
    ) -> list[Place]:
        """Return each group's position in each partition."""
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

    async def find_message(
        self,
        lane: int,
        key: str,
        *,
        address: MessageId | None = None,
        group: str = DEFAULT_GROUP,
    ) -> StoredMessage | None:
        """Return the message with this dedup key or address, as the group sees it."""
        async with self._core.pool.lend() as connection:
            found = await procedures.find_message_by_key(
                connection,
                lane=lane,
                group=group,
                key=key,
                address=(address.segment, address.seq) if address else (None, None),
            )
            lanes = await find_lanes(connection, [lane]) if found else []
            if found is None or not lanes:
                return None
            _, seen_by = await self._core.catalog.find_group(lanes[0]["queue"], group)
            rows = await find_messages(
                connection,
                group_id=seen_by.group_id,
                ids=[MessageId(found["segment"], lane, found["seq"])],
            )
        return StoredMessage(*rows[0]) if rows else None

    async def list_messages(
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
            return await list_messages(
                connection,
                group_ids=list(groups),
                status=status,
                wanted=wanted,
                sort="created_at",
                descending=True,
                limit=limit,
                offset=offset,
            )

    async def count_messages(
        self, groups: Sequence[int], status: Status, wanted: MessageFilter
    ) -> int:
        async with self._core.pool.lend() as connection:
            return await count_messages(
                connection, group_ids=list(groups), status=status, wanted=wanted, most=10_000
            )

    async def counts(self, groups: Sequence[int]) -> list[Counts]:
        async with self._core.pool.lend() as connection:
            return await count_by_state(connection, list(groups))

    async def count_partitions(self) -> dict[int, int]:
        """Return how many partitions each queue has."""
        async with self._core.pool.lend() as connection:
            return await procedures.count_partitions(connection)

    async def measure(
        self, queue_ids: Sequence[int], *, since: datetime, until: datetime, step: timedelta
    ) -> list[tuple[datetime, int, int, int, int, int]]:
        """Return the messages pushed, claimed, acked, failed and dead-lettered in each interval."""
        async with self._core.pool.lend() as connection:
            rows = await procedures.stream_activity(
                connection, queue_ids=queue_ids, since=since, until=until, step=step
            )
        return [tuple(row) for row in rows]

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
            columns.dedup_keys,
            columns.headers,
            squeeze(expected) if expected else None,
            names,
            [encode_json(asdict(new[name])) for name in names],
        )

    async def _address_timers(
        self, timers: Sequence[TimerOperation], guards: Mapping[str, int], new: Sequence[str]
    ) -> TimerColumns:
        ids: dict[str, int | None] = {name: -number for number, name in enumerate(new, 1)}
        for name in {timer.queue for timer in timers} - ids.keys():
            try:
                ids[name] = (await self._core.catalog.find(name)).queue_id
            except QueueNotFound:
                if name in guards:
                    raise
                ids[name] = None
        messages = [timer.message for timer in timers]
        return TimerColumns(
            [ids[timer.queue] for timer in timers],
            [timer.key for timer in timers],
            [timer.timer_id for timer in timers],
            [timer.delay for timer in timers],
            [message and message.partition for message in messages],
            [
                timer.dedup_key if message is None else message.dedup_key
                for timer, message in zip(timers, messages, strict=True)
            ],
            [message and message.headers for message in messages],
            [message and message.body for message in messages],
            [guards.get(timer.queue) for timer in timers],
        )

    def _announce(self, pushed: procedures.GuardedColumns) -> None:
        if pushed.new:
            self._core.announce_change()
        for queue_id in set(pushed.queues):
            if queue_id > 0:
                # Some messages may be delayed.
                self._core.wakeups.wake(queue_id, delayed=True)

    def _free(self, settlements: Sequence[Settlement]) -> None:
        requeued = any(settlement.action != "ack" for settlement in settlements)
        self._core.lanes.free({settlement.lane for settlement in settlements}, requeued=requeued)
