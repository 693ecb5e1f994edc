"""The broker's calls about events, the activity log and anomalies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from laneway.domain.activity import (
    AnomalyDetails,
    Entries,
    Entry,
    EventBatch,
    FoundAnomaly,
    Snapshot,
)
from laneway.domain.ids import MessageId
from laneway.domain.statistics import QueueEvent, QueueEvents
from laneway.engine.procedures import activity as procedures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    import asyncpg

    from laneway.domain.activity import (
        ActivityFilter,
        Anomaly,
        AnomalyFilter,
        ConsumerCount,
        ConsumerStats,
        Event,
        Facts,
    )
    from laneway.domain.messages import Token
    from laneway.engine.core import Core
    from laneway.engine.procedures.call import Connection

# Above this many entries, a total is a lower bound.
MOST_COUNTED = 10_000
MOST_EVENTS = 1000

# Larger than any message: no size is reported.
NOT_LARGE = 2**31 - 1


class Activity:
    def __init__(self, core: Core) -> None:
        self._core = core

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` whenever there may be new events; return a function that ends this.

        It is called during every push, so it must be fast. Settlements by other processes are not
        announced: poll for them.
        """
        return self._core.wakeups.watch(callback)

    async def read_snapshot(self) -> Snapshot:
        """Return the place from which to follow new events."""
        async with self._core.pool.lend() as connection:
            return await procedures.read_snapshot(connection)

    async def find_place(self) -> Snapshot:
        """Return the place up to which `store_activity` has stored."""
        async with self._core.pool.lend() as connection:
            return await procedures.activity_place(connection)

    async def follow(self, seen: Snapshot, *, limit: int, large: int) -> EventBatch:
        """Return the events since `seen`, each exactly once, however late it commits.

        Returns at least `limit` events if there are more, so that transactions are not split.
        large: the size in bytes from which pushed messages are reported.
        """
        async with self._core.pool.lend() as connection:
            events, now = await procedures.follow_events(
                connection, seen=seen, limit=limit, large=large
            )
        fresh = {event.event_id for event in events if event.xid >= seen.xmax}
        if len(fresh) < limit:
            return EventBatch(events, now, more=False)
        return EventBatch(events, _stop_at(max(event.xid for event in events), now), more=True)

    async def follow_queue(self, queue: str, seen: Snapshot | None = None) -> QueueEvents:
        """Return the events of a queue since the last look; the first call only sets the place."""
        found = await self._core.catalog.find(queue)
        if seen is None:
            return QueueEvents([], await self.read_snapshot(), more=False)
        # Events of all queues are read, and those of other queues skipped.
        look = await self.follow(seen, limit=MOST_EVENTS, large=NOT_LARGE)
        shown = [_show(event) for event in look.events if event.queue_id == found.queue_id]
        return QueueEvents(shown, look.seen, look.more)

    async def store(
        self,
        seen: Snapshot,
        now: Snapshot,
        *,
        anomalies: Sequence[Anomaly],
        consumers: Sequence[ConsumerCount],
    ) -> bool:
        """Store what was found between two places; return False if another process has done so."""
        async with self._core.pool.lend() as connection:
            return await procedures.store_activity(
                connection,
                seen=seen,
                now=now,
                anomalies=_encode([_write_anomaly(anomaly) for anomaly in anomalies]),
                consumers=_encode([_write_count(count) for count in consumers]),
            )

    async def list_entries(
        self,
        wanted: ActivityFilter,
        *,
        limit: int = 100,
        offset: int = 0,
        largest_body: int = 0,
    ) -> Entries:
        """Return the activity log, newest first, one entry per message.

        Entries have the bodies of their messages, up to `largest_body` bytes each.
        """
        async with self._core.pool.lend() as connection:
            rows = await procedures.list_activity(
                connection, wanted=wanted, limit=limit, offset=offset, bound=MOST_COUNTED
            )
            total = rows[0]["total"]
            rows = [row for row in rows if row["xid"] is not None]
            entries = await _complete(connection, rows, largest_body)
        return Entries(entries, total)

    async def list_message_entries(
        self, message: MessageId, *, largest_body: int = 0
    ) -> list[Entry]:
        """Return the activity log of one message, oldest first; bodies as `list_entries`."""
        async with self._core.pool.lend() as connection:
            rows = await procedures.message_activity(connection, message)
            return await _complete(connection, rows, largest_body)

    async def list_anomalies(
        self,
        wanted: AnomalyFilter,
        *,
        sort: str = "at",
        descending: bool = True,
        limit: int = 100,
        largest_body: int = 0,
    ) -> list[FoundAnomaly]:
        async with self._core.pool.lend() as connection:
            rows = await procedures.list_anomalies(
                connection,
                wanted=wanted,
                sort=sort,
                descending=descending,
                limit=limit,
                bound=MOST_COUNTED,
            )
            facts = await _find_facts(connection, rows, largest=largest_body)
        found = []
        for row in rows:
            values = tuple(row)
            message = _read_id(row)
            known = message and facts.get(message)
            details = AnomalyDetails._make(values[9:])
            found.append(
                FoundAnomaly._make((*values[:5], message, row["consumer"], details, known))
            )
        return found

    async def count_anomalies(self, wanted: AnomalyFilter) -> list[tuple[str, str, int]]:
        """Return (type, severity, count) of the newest anomalies that match."""
        async with self._core.pool.lend() as connection:
            rows = await procedures.count_anomalies(connection, wanted=wanted, bound=MOST_COUNTED)
        return [(row[0], row[1], row[2]) for row in rows]

    async def find_facts(self, ids: Sequence[MessageId], *, largest: int = 0) -> list[Facts]:
        """Return what the log stores of messages, with bodies of up to `largest` bytes."""
        async with self._core.pool.lend() as connection:
            return await procedures.message_facts(connection, ids, largest=largest)

    async def list_consumers(
        self, queue_ids: Sequence[int] | None = None, *, consumer: str | None = None
    ) -> list[ConsumerStats]:
        async with self._core.pool.lend() as connection:
            return await procedures.list_consumers(
                connection, queue_ids=queue_ids, consumer=consumer
            )

    async def record_refusals(self, refusals: Sequence[tuple[MessageId, Token | None]]) -> None:
        """Record refused acks, with the tokens that were sent."""
        ids, tokens = zip(*refusals, strict=True)
        async with self._core.pool.lend() as connection:
            await procedures.record_event(connection, action="ack_refused", ids=ids, tokens=tokens)

    async def clear(self) -> None:
        async with self._core.pool.lend() as connection:
            await procedures.clear_activity(connection)

    async def sweep(self, *, limit: int) -> int:
        """Delete anomalies and consumer counts past retention; return how many."""
        async with self._core.pool.lend() as connection:
            return await procedures.sweep_activity(connection, limit=limit)

    async def set_event_retention(self, retention: timedelta) -> None:
        """Set how long events are kept, for the whole database."""
        async with self._core.pool.lend() as connection:
            await procedures.set_event_retention(connection, retention)


def _show(event: Event) -> QueueEvent:
    first = last = None
    if event.segment is not None and event.lane is not None:
        first, last = (
            None if seq is None else str(MessageId(event.segment, event.lane, seq))
            for seq in (event.first_seq, event.last_seq)
        )
    return QueueEvent(
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


def _stop_at(xid: int, now: Snapshot) -> Snapshot:
    """Return the snapshot after all that `now` shows up to a transaction."""
    running = tuple(each for each in now.running if each <= xid)
    return Snapshot(min(running, default=xid + 1), xid + 1, running)


async def _complete(
    connection: Connection, rows: Sequence[asyncpg.Record], largest_body: int
) -> list[Entry]:
    """Add data of the log and the detectors to entries."""
    facts = await _find_facts(connection, rows, largest=largest_body)
    anomalies: dict[int, list[asyncpg.Record]] = {}
    if rows:
        for anomaly in await procedures.find_anomalies(
            connection,
            xids=[row["xid"] for row in rows],
            event_ids=[row["event_id"] for row in rows],
        ):
            anomalies.setdefault(anomaly["event_id"], []).append(anomaly)
    entries = []
    for row in rows:
        message = _read_id(row)
        found = [
            AnomalyDetails._make(tuple(anomaly)[3:])
            for anomaly in anomalies.get(row["event_id"], ())
            if _covers(anomaly, row)
        ]
        values = tuple(row)
        known = message and facts.get(message)
        entries.append(Entry._make((*values[1:9], message, *values[12:], known, found)))
    return entries


async def _find_facts(
    connection: Connection, rows: Sequence[asyncpg.Record], *, largest: int
) -> dict[MessageId, Facts]:
    ids = list({message for row in rows if (message := _read_id(row)) is not None})
    if not ids:
        return {}
    found = await procedures.message_facts(connection, ids, largest=largest)
    return {facts.id: facts for facts in found}


def _read_id(row: asyncpg.Record) -> MessageId | None:
    if row["seq"] is None or row["message_segment"] is None:
        return None
    return MessageId(row["message_segment"], row["lane_id"], row["seq"])


def _covers(anomaly: asyncpg.Record, row: asyncpg.Record) -> bool:
    seq = row["seq"]
    if anomaly["seqs"] is None or seq is None:
        return True
    return anomaly["lane_id"] == row["lane_id"] and any(
        span.lower <= seq < span.upper for span in anomaly["seqs"]
    )


def _write_anomaly(anomaly: Anomaly) -> dict[str, object]:
    seqs = anomaly.seqs
    return {
        "xid": None if anomaly.xid is None else str(anomaly.xid),
        "event_id": anomaly.event_id,
        "at": anomaly.at,
        "type": anomaly.type,
        "severity": anomaly.severity,
        "description": anomaly.description,
        "threshold": anomaly.threshold,
        "actual": anomaly.actual,
        "kind": anomaly.kind,
        "queue_id": anomaly.queue_id,
        "queue_name": anomaly.queue,
        "message_segment": anomaly.segment,
        "lane_id": anomaly.lane,
        "seqs": None if seqs is None else "{" + ",".join(f"[{a},{b}]" for a, b in seqs) + "}",
        "consumer": anomaly.consumer,
    }


def _write_count(count: ConsumerCount) -> dict[str, object]:
    return {
        "queue_id": count.queue_id,
        "consumer": count.consumer,
        "taken": count.claimed,
        "last_at": count.last_at,
    }


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()
