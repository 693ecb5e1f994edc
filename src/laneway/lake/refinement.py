"""Update silver, gold and findings from landed data, recomputing only the days that changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from laneway.lake.pipelines.anomalies import find_anomalies
from laneway.lake.pipelines.baseline import DEFAULTS as BASELINE
from laneway.lake.pipelines.baseline import find_unusual
from laneway.lake.pipelines.bronze import find_touched
from laneway.lake.pipelines.gold import find_opening, make_consumers, make_traffic
from laneway.lake.pipelines.silver import SWEEPING, make_silver

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from laneway.lake.store import File, Table
    from laneway.lake.tables import Lake


@dataclass(frozen=True, slots=True)
class Change:
    """Queues whose rows changed, and the first day that did."""

    queues: frozenset[str]
    first_day: str

    @property
    def since(self) -> datetime:
        return datetime.fromisoformat(self.first_day).replace(tzinfo=UTC)

    def covers(self, file: File) -> bool:
        return file.queue in self.queues and file.day >= self.first_day

    def follows(self, file: File) -> bool:
        return file.queue in self.queues and file.day < self.first_day


def refine_silver(lake: Lake) -> int:
    """Recompute the days of new messages and of messages with new events; return how many days."""
    seen = _Seen(lake.silver, messages=lake.messages, events=lake.events)
    parts = {(file.day, file.queue) for file in seen.new("messages")}
    fresh = seen.new("events")
    if fresh:
        paths = {file.path for file in fresh}
        events = lake.events.read(lambda file: file.path in paths)
        for row in find_touched(events, lake.extents.read()).collect():
            parts.add((row.day, row.queue))
        # A purge or seek names no messages: it may concern any of its queue.
        sweeps = events.where(F.col("kind").isin(*SWEEPING)).select("queue").distinct().collect()
        swept = {row.queue for row in sweeps}
        parts |= {
            (file.day, file.queue) for file in lake.messages.load().files if file.queue in swept
        }
    if not parts:
        lake.silver.note(seen.state)
        return 0
    first = min(day for day, _ in parts)
    silver = make_silver(
        lake.messages.read(lambda file: (file.day, file.queue) in parts),
        lake.events.read(lambda file: file.day >= first),
    )
    lake.silver.replace(silver, seen.state, drop=lambda file: (file.day, file.queue) in parts)
    return len({day for day, _ in parts})


def refine_gold(lake: Lake) -> None:
    """Recompute traffic and consumers from the first changed day on."""
    seen = _Seen(lake.traffic, silver=lake.silver, events=lake.events)
    change = _find_change([*seen.new("silver"), *seen.new("events")])
    if change is None:
        lake.traffic.note(seen.state)
    else:
        before = lake.traffic.read(change.follows)
        rows = make_traffic(*_read_gold(lake, change), find_opening(before), since=change.since)
        lake.traffic.replace(rows.coalesce(2), seen.state, drop=change.covers)

    seen = _Seen(lake.consumers, silver=lake.silver, events=lake.events)
    change = _find_change([*seen.new("silver"), *seen.new("events")])
    if change is None:
        lake.consumers.note(seen.state)
    else:
        rows = make_consumers(*_read_gold(lake, change), since=change.since)
        lake.consumers.replace(rows.coalesce(2), seen.state, drop=change.covers)


def refine_anomalies(lake: Lake, now: datetime) -> int:
    """Find anomalies again from the first changed day on; return how many there are."""
    seen = _Seen(lake.anomalies, events=lake.events, messages=lake.messages, traffic=lake.traffic)
    fresh = [file for name in ("events", "messages", "traffic") for file in seen.new(name)]
    change = _find_change(fresh)
    if change is None:
        lake.anomalies.note(seen.state)
        return 0
    # A burst may have begun on the day before.
    eve = (change.since - timedelta(days=1)).date().isoformat()
    events = lake.events.read(lambda file: file.queue in change.queues and file.day >= eve)
    touched = find_touched(events, lake.extents.read()).collect()
    parts = {(row.day, row.queue) for row in touched}
    messages = lake.messages.read(
        lambda file: (file.day, file.queue) in parts or change.covers(file)
    )
    found = find_anomalies(messages, events).where(F.col("at") >= F.lit(change.since))
    weeks = (change.since - timedelta(weeks=BASELINE.weeks)).date().isoformat()
    hours = lake.traffic.read(lambda file: file.queue in change.queues and file.day >= weeks)
    hour = now.replace(minute=0, second=0, microsecond=0)
    found = found.unionByName(find_unusual(hours, until=hour, since=change.since))
    record = lake.anomalies.replace(found.coalesce(1), seen.state, drop=change.covers)
    return sum(file.rows for file in record.files if change.covers(file))


def _read_gold(lake: Lake, change: Change) -> tuple[DataFrame, DataFrame]:
    """Return events, and silver rows of whole queues: a message may be settled days after its push."""
    silver = lake.silver.read(lambda file: file.queue in change.queues)
    return silver, lake.events.read(change.covers)


def compact(lake: Lake) -> int:
    """Merge small files, as far as the tables derived from them are up to date."""
    silver = lake.silver.load().state
    found = lake.anomalies.load().state
    done = {
        "messages": min(silver.get("messages", 0), found.get("messages", 0)),
        "events": min(
            silver.get("events", 0),
            found.get("events", 0),
            lake.traffic.load().state.get("events", 0),
            lake.consumers.load().state.get("events", 0),
        ),
        "extents": lake.extents.load().version,
    }
    return (
        lake.messages.compact(landed_until=done["messages"])
        + lake.events.compact(landed_until=done["events"])
        + lake.extents.compact(landed_until=done["extents"])
    )


class _Seen:
    """The versions of the tables that a table was derived from."""

    def __init__(self, table: Table, **sources: Table) -> None:
        before = table.load().state
        records = {name: source.load() for name, source in sources.items()}
        self.state: dict[str, Any] = {
            **before,
            **{name: record.version for name, record in records.items()},
        }
        self._new = {
            name: [file for file in record.files if file.landed > before.get(name, 0)]
            for name, record in records.items()
        }

    def new(self, name: str) -> list[File]:
        return self._new[name]


def _find_change(files: Iterable[File]) -> Change | None:
    met = list(files)
    if not met:
        return None
    return Change(frozenset(file.queue for file in met), min(file.day for file in met))
