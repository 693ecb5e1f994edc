"""The lanes of a read: their extents, and their division into Spark partitions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from laneway.lake.database import format_array, quote
from laneway.lake.errors import DataLost, OptionInvalid, QueueMissing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from laneway.lake.database import Database
    from laneway.lake.options import Offset, Position
    from laneway.lake.selection import Choice


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane and its queue's settings. base: messages up to this seq are no longer kept."""

    lane: int
    queue: str
    partition: str
    priority: int
    base: int
    logged: bool
    max_attempts: int | None
    lease: float


@dataclass(frozen=True, slots=True)
class Span:
    """Messages first to last of a lane, all in one segment."""

    lane: Lane
    segment: int
    first: int
    last: int

    @property
    def rows(self) -> int:
        return self.last - self.first + 1


class Slice(InputPartition):
    """The spans that one task reads."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = tuple(spans)


def list_lanes(database: Database, choice: Choice) -> list[Lane]:
    """Return the chosen lanes; raise QueueMissing for a queue named without a pattern."""
    names = [row["name"] for row in database.fetch("select q.name from laneway.queue q")]
    missing = choice.list_missing(names)
    if missing:
        raise QueueMissing(
            f"queue {missing[0]!r} not found. Existing queues: {', '.join(names) or 'none'}"
        )
    chosen = [name for name in names if choice.covers_queue(name)]
    if not chosen:
        return []
    rows = database.fetch(
        "select l.lane_id as lane, q.name as queue, l.partition, l.priority::int as priority, l.base,"
        " q.kind <> 'unlogged' as logged, q.max_attempts::int as max_attempts,"
        " extract(epoch from q.lease)::float8 as lease"
        " from laneway.lane l join laneway.queue q on q.queue_id = l.queue_id"
        f" where q.name = any ({format_array(chosen, 'text')}) order by l.lane_id"
    )
    lanes = [Lane(**row) for row in rows]
    return [lane for lane in lanes if choice.covers_lane(lane.partition, lane.priority)]


def find_spans(database: Database, lanes: Iterable[Lane], after: Mapping[int, int]) -> list[Span]:
    """Return the spans in the log after the given seqs, or after the lane's base, in order."""
    known = {lane.lane: lane for lane in lanes}
    if not known:
        return []
    ids = format_array(list(known), "int")
    seqs = format_array([after.get(lane, 0) for lane in known], "bigint")
    rows = database.fetch(
        "select e.lane_id, e.segment, e.first_seq, e.last_seq"
        f" from laneway.log_extent({ids}, {seqs}) e order by e.lane_id, e.first_seq"
    )
    return [
        Span(known[row["lane_id"]], row["segment"], row["first_seq"], row["last_seq"])
        for row in rows
    ]


def find_ends(
    database: Database, lanes: Iterable[Lane], after: Mapping[int, int]
) -> dict[int, int]:
    """Return the newest seq of each lane that has unread messages."""
    ends: dict[int, int] = {}
    for span in find_spans(database, lanes, after):
        ends[span.lane.lane] = max(ends.get(span.lane.lane, 0), span.last)
    return ends


def resolve(database: Database, lanes: Sequence[Lane], position: Position) -> dict[int, int]:
    """Return for each lane the last seq before a position; lanes not in the position start at 0."""
    match position:
        case "earliest":
            return {lane.lane: lane.base for lane in lanes}
        case "latest":
            return {lane.lane: lane.base for lane in lanes} | find_ends(database, lanes, {})
        case datetime():
            moment = quote(position.isoformat())
            if not lanes:
                return {}
            ids = format_array([lane.lane for lane in lanes], "int")
            logged = format_array([lane.logged for lane in lanes], "boolean")
            rows = database.fetch(
                f"select u.lane, laneway.seq_before(u.lane, u.logged, {moment}::timestamptz) as seq"
                f" from unnest({ids}, {logged}) u (lane, logged)"
            )
            return {row["lane"]: row["seq"] for row in rows}
        case _:
            _check_known(database, position)
            return parse(position)


def _check_known(database: Database, offset: Offset) -> None:
    """Raise for a lane that never existed; an offset may name one that was deleted."""
    rows = database.fetch(
        "select coalesce(pg_sequence_last_value("
        "pg_get_serial_sequence('laneway.lane', 'lane_id')::regclass), 0) as newest"
    )
    unknown = [lane for lane in offset if int(lane) > rows[0]["newest"]]
    if unknown:
        raise OptionInvalid(
            f"invalid offset: lane {unknown[0]} never existed; the newest lane is {rows[0]['newest']}"
        )


def cut_spans(
    spans: Iterable[Span], *, start: Mapping[int, int], end: Mapping[int, int]
) -> list[Span]:
    """Return the parts of the spans after `start`, up to and including `end`."""
    cut = []
    for span in spans:
        first = max(span.first, start.get(span.lane.lane, 0) + 1)
        last = min(span.last, end.get(span.lane.lane, 0))
        if first <= last:
            cut.append(Span(span.lane, span.segment, first, last))
    return cut


def check_complete(
    spans: Iterable[Span], *, start: Mapping[int, int], end: Mapping[int, int]
) -> None:
    """Raise DataLost if messages between two offsets have left the log."""
    found: dict[int, int] = {}
    lanes: dict[int, Lane] = {}
    for span in spans:
        found[span.lane.lane] = found.get(span.lane.lane, 0) + span.rows
        lanes[span.lane.lane] = span.lane
    for lane, last in end.items():
        missing = last - start.get(lane, 0) - found.get(lane, 0)
        if missing > 0:
            name = f' of queue "{lanes[lane].queue}"' if lane in lanes else ""
            raise DataLost(
                f"{missing} messages of lane {lane}{name} after seq {start.get(lane, 0)} left the log"
                " before they were read. Set failOnDataLoss to false to continue without them"
            )


def make_slices(spans: Iterable[Span], rows_per_partition: int) -> list[Slice]:
    """Split long spans and group short ones, so that tasks have similar sizes."""
    slices: list[Slice] = []
    gathered: list[Span] = []
    rows = 0
    for span in spans:
        first = span.first
        while first <= span.last:
            last = min(span.last, first + rows_per_partition - rows - 1)
            gathered.append(Span(span.lane, span.segment, first, last))
            rows += last - first + 1
            first = last + 1
            if rows >= rows_per_partition:
                slices.append(Slice(gathered))
                gathered, rows = [], 0
    if gathered:
        slices.append(Slice(gathered))
    return slices


def share_limit(available: Mapping[int, int], limit: int) -> dict[int, int]:
    """Divide a limit among lanes in proportion to their unread messages, and use all of it."""
    total = sum(available.values())
    if total <= limit:
        return dict(available)
    shares = {lane: limit * rows // total for lane, rows in available.items()}
    left = limit - sum(shares.values())
    for lane, rows in available.items():
        if left == 0:
            break
        if shares[lane] < rows:
            shares[lane] += 1
            left -= 1
    return shares


def parse(offset: Offset) -> dict[int, int]:
    return {int(lane): seq for lane, seq in offset.items()}


def render(places: Mapping[int, int]) -> Offset:
    return {str(lane): places[lane] for lane in sorted(places)}
