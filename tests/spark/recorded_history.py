"""A generated history of events, and the outcomes that are known without them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from laneway.lake.pipelines.bronze import make_events, make_messages
from laneway.lake.schemas import make_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession


@dataclass
class Fate:
    """What became of a message in a group, as the one knows who did it."""

    claims: list[datetime] = field(default_factory=list)
    releases: int = 0
    retries: int = 0
    outcome: str = "queued"
    settled_at: datetime | None = None
    consumer: str | None = None
    reason: str | None = None


class History:
    """Does things to messages at times of its own, and keeps both the events and the fates."""

    def __init__(self, seed: int = 1) -> None:
        self.random = random.Random(seed)  # noqa: S311 - the same past every time
        self.messages: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.fates: dict[tuple[int, int, str], Fate] = {}
        # By grain, time, queue, group, type, consumer (or None for all) and kind of event.
        self.counts: dict[tuple[Any, ...], int] = {}
        self._lanes: dict[tuple[str, str], int] = {}
        self._newest: dict[int, int] = {}
        self._xid = 100

    def push(
        self, at: datetime, queue: str, count: int = 1, partition: str = "", size: int = 10
    ) -> list[tuple[int, int]]:
        lane = self._lanes.setdefault((queue, partition), len(self._lanes) + 1)
        first = self._newest.get(lane, 0) + 1
        self._newest[lane] = first + count - 1
        for seq in range(first, first + count):
            self.messages.append(
                {
                    "id": f"2-{lane}-{seq}",
                    "queue": queue,
                    "partition": partition,
                    "priority": 0,
                    "segment": 2,
                    "lane": lane,
                    "seq": seq,
                    "created_at": at,
                    "max_attempts": 3,
                    "lease": 30.0,
                    "body": '"' + "x" * (size - 2) + '"',
                }
            )
        self.tell(at, "pushed", queue, [(lane, first, first + count - 1)])
        return [(lane, seq) for seq in range(first, first + count)]

    def claim(self, at: datetime, group: str, seqs: list[tuple[int, int]], consumer: str) -> None:
        for fate in self.find(group, seqs):
            fate.claims.append(at)
            fate.outcome, fate.consumer, fate.reason = "processing", consumer, None
        attempt = len(self.find(group, seqs)[0].claims)
        self.happen(at, "claimed", group, seqs, consumer=consumer, attempt=attempt)

    def settle(
        self, at: datetime, kind: str, group: str, seqs: list[tuple[int, int]], **more: Any
    ) -> None:
        """End a hand-out: acked, nacked, expired, released, dead or timed_out."""
        for fate in self.find(group, seqs):
            fate.retries += kind in {"nacked", "expired"}
            fate.releases += kind == "released"
            fate.outcome = {"acked": "acked", "dead": "dead", "timed_out": "dead"}.get(
                kind, "queued"
            )
            fate.settled_at = at if fate.outcome in {"acked", "dead"} else None
            fate.reason = more.get("reason")
        first = self.find(group, seqs)[0]
        more = {"since": first.claims[-1], "attempt": len(first.claims), **more}
        self.happen(at, kind, group, seqs, consumer=first.consumer, **more)

    def move(self, at: datetime, group: str, seqs: list[tuple[int, int]], to: str) -> None:
        for fate in self.find(group, seqs):
            fate.outcome = {"acknowledged": "acked", "queued": "queued"}[to]
            fate.settled_at = at if fate.outcome == "acked" else None
            fate.reason = None
        self.happen(at, "moved", group, seqs, detail=json.dumps({"from": "dead", "to": to}))

    def purge(self, at: datetime, group: str, queue: str) -> None:
        for _, fate in self.before(at, group, queue):
            if fate.outcome == "queued":
                fate.outcome, fate.settled_at = "removed", at
        detail = json.dumps({"status": "queued", "count": 5})
        self.tell(at, "cleared", queue, [], group=group, detail=detail)

    def delete_between(
        self, at: datetime, group: str, queue: str, first: datetime, last: datetime
    ) -> None:
        for message, fate in self.before(at, group, queue):
            if first <= message["created_at"] <= last and fate.outcome != "removed":
                fate.outcome, fate.settled_at = "removed", at
        detail = json.dumps({"from": f"{first}+00:00", "to": f"{last}+00:00", "count": 5})
        self.tell(at, "purged", queue, [], group=group, detail=detail)

    def seek(self, at: datetime, group: str, queue: str, to: str, **place: Any) -> None:
        """Go on from the place: what is before it is passed over, what is after comes again."""
        for message, fate in self.before(at, group, queue):
            if place.get("partition", message["partition"]) != message["partition"]:
                continue
            created = message["created_at"]
            passed = to == "latest"
            if to == "time":
                passed = created < place["time"]
            if to == "seq":
                passed = message["seq"] < place["seq"]
            if to == "earliest" and created < place["kept_since"]:
                continue
            if passed and fate.outcome in {"queued", "processing"}:
                fate.outcome, fate.settled_at = "skipped", at
            elif not passed and fate.outcome in {"acked", "skipped", "processing"}:
                fate.outcome, fate.settled_at = "queued", None
        detail = {name: f"{value}" for name, value in place.items()}
        for name in {"time", "kept_since"} & detail.keys():
            detail[name] += "+00:00"
        self.tell(at, "sought", queue, [], group=group, detail=json.dumps({"to": to, **detail}))

    def before(self, at: datetime, group: str, queue: str) -> Iterator[tuple[dict[str, Any], Fate]]:
        for message in self.messages:
            if message["queue"] == queue and message["created_at"] < at:
                (fate,) = self.find(group, [(message["lane"], message["seq"])])
                yield message, fate

    def find(self, group: str, seqs: list[tuple[int, int]]) -> list[Fate]:
        return [self.fates.setdefault((lane, seq, group), Fate()) for lane, seq in seqs]

    def happen(
        self, at: datetime, kind: str, group: str, seqs: list[tuple[int, int]], **more: Any
    ) -> None:
        lane = seqs[0][0]
        queue, partition = next(key for key, value in self._lanes.items() if value == lane)
        for grain in ("minute", "hour"):
            start = at.replace(second=0, microsecond=0)
            start = start if grain == "minute" else start.replace(minute=0)
            consumer = more.get("consumer")
            key = (grain, start, queue, group, partition, None)
            for each in {key, (*key[:5], consumer)}:
                self.counts[(*each, kind)] = self.counts.get((*each, kind), 0) + len(seqs)
        ranges = [(lane, min(seq for _, seq in seqs), max(seq for _, seq in seqs))]
        self.tell(at, kind, queue, ranges, group=group, **more)

    def tell(
        self,
        at: datetime,
        kind: str,
        queue: str,
        ranges: Sequence[tuple[int | None, int | None, int | None]],
        **more: Any,
    ) -> None:
        self._xid += 1
        partitions = {lane: key[1] for key, lane in self._lanes.items()}
        for lane, first, last in ranges or [(None, None, None)]:
            self.events.append(
                {
                    "event_id": len(self.events) + 1,
                    "xid": self._xid,
                    "at": at,
                    "kind": kind,
                    "queue": queue,
                    "partition": partitions.get(lane or 0),
                    "priority": None if lane is None else 0,
                    "segment": None if lane is None else 2,
                    "lane": lane,
                    "first_seq": first,
                    "last_seq": last,
                    **more,
                }
            )

    def frames(self, spark: SparkSession) -> tuple[DataFrame, DataFrame]:
        """Return messages and events as bronze has them, in no order."""
        events = list(self.events)
        self.random.shuffle(events)
        return (
            make_messages(_make(spark, "messages", self.messages)),
            make_events(_make(spark, "events", events)),
        )


def _make(spark: SparkSession, table: Any, rows: list[dict[str, Any]]) -> DataFrame:
    schema = make_schema(table)
    tuples = [tuple(row.get(name) for name in schema.names) for row in rows]
    return spark.createDataFrame(tuples, schema)


def make_days(seed: int = 1) -> History:
    """Return three days with retries, dead letters, moves, a purge, and what settles days later."""
    past = History(seed)
    start = datetime(2026, 3, 2, 9, 0, 0)  # noqa: DTZ001 - Spark's rows have none, and are UTC
    for number in range(60):
        at = start + timedelta(minutes=7 * number, seconds=past.random.random() * 50)
        queue = ("mail", "bills")[number % 2]
        many = past.push(at, queue, past.random.randint(1, 4), ("", "urgent")[number % 3 == 0])
        for group in ("default", "audit") if queue == "mail" else ("default",):
            _live(past, at, group, many)
    past.purge(start + timedelta(days=2, hours=5), "default", "bills")
    past.push(start + timedelta(days=2, hours=6), "bills", 2)
    return past


def _live(past: History, at: datetime, group: str, many: list[tuple[int, int]]) -> None:
    chance = past.random
    if chance.random() < 0.15:
        return  # nobody takes these
    consumer = chance.choice(["ada", "bob"])
    at += timedelta(seconds=chance.random() * 20)
    past.claim(at, group, many, consumer)
    for again in range(chance.choice([0, 0, 0, 1, 2])):
        at += timedelta(seconds=1 + chance.random() * 30)
        kind = chance.choice(["nacked", "expired", "released"])
        past.settle(at, kind, group, many, reason=f"no {again}")
        at += timedelta(seconds=chance.random() * 5)
        past.claim(at, group, many, chance.choice(["ada", "bob"]))
    at += timedelta(seconds=chance.random() * 9)
    if chance.random() < 0.2:
        at += timedelta(days=1)  # very late
    match chance.random():
        case draw if draw < 0.6:
            past.settle(at, "acked", group, many)
        case draw if draw < 0.85:
            past.settle(at, chance.choice(["dead", "timed_out"]), group, many, reason="over")
            if chance.random() < 0.5:
                at += timedelta(hours=1)
                past.move(at, group, many, chance.choice(["queued", "acknowledged"]))
        case _:
            return  # still held
