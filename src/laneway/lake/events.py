"""Read events by ranges of transaction ids.

No lane's lock orders events, so only transactions older than the oldest one still running are read:
a long writer delays a reader and never robs it.
"""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from laneway.lake.database import open_database, quote
from laneway.lake.errors import DataLost, OptionInvalid
from laneway.lake.schemas import COLUMNS
from laneway.lake.throttle import Pace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from laneway.lake.database import Database
    from laneway.lake.options import Offset, Position, ReadOptions

XID = "xid"

_EXPRESSIONS = {name: f'e."{name}"' for name in COLUMNS["events"]} | {XID: "e.xid::text::bigint"}
# An event about several lanes or claims becomes one row for each.
_ROWS = "coalesce(cardinality(e.part_first), 1)"
_ROWS_SO_FAR = f"sum({_ROWS}) over (order by e.xid rows unbounded preceding)::bigint"
_HORIZON = "pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())"


class EventSlice(InputPartition):
    """The events of transactions from start to before end.

    rows: at least this many, if known. conditions: which queues they are about.
    """

    def __init__(self, start: int, end: int, *, rows: int, conditions: Sequence[str]) -> None:
        self.start = start
        self.end = end
        self.rows = rows
        self.conditions = tuple(conditions)


class EventSliceReader:
    """Plan slices on the driver and read them on executors."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, EventSlice):
            return
        schema = to_arrow_schema(self._schema, timezone="UTC")
        # Spark may ask for no columns, but a row needs at least one.
        names = self._schema.names or [XID]
        wanted = ", ".join(f'{_EXPRESSIONS[name]} as "{name}"' for name in names)
        where = [*_between(partition.start, partition.end), *partition.conditions]
        statement = f"select {wanted} from laneway.event_log e where {' and '.join(where)}"
        with open_database(self._options.dsn) as database:
            pace = Pace(database, partition.rows)
            pace.rest()
            for batch in database.stream(statement):
                columns = [pc.cast(batch.column(column.name), column.type) for column in schema]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
                pace.rest()
            self._check_kept(database, partition.start)

    def _plan(self, database: Database, start: int, end: int) -> list[EventSlice]:
        self._check_kept(database, start)
        size = self._options.rows_per_partition
        rows = database.fetch(
            f"select r.xid::text::bigint as xid from (select e.xid, {_ROWS} as rows, {_ROWS_SO_FAR} as place"
            f" from laneway.event e where {' and '.join(_between(start, end))}) r"
            f" where (r.place - r.rows) / {size} < r.place / {size} order by r.xid"
        )
        # Events of one transaction stay in one slice.
        bounds = sorted({start, end, *(row["xid"] for row in rows)})
        conditions = self._choose_queues(database)
        full = self._options.rows_per_partition
        return [
            EventSlice(low, high, rows=0 if high == end else full, conditions=conditions)
            for low, high in itertools.pairwise(bounds)
        ]

    def _check_kept(self, database: Database, start: int) -> None:
        if not self._options.fail_on_data_loss or start == 0:
            return
        found = database.fetch("select d.xid::text::bigint as xid from laneway.dropped_events d")
        if found[0]["xid"] >= start:
            raise DataLost(
                f"events of transactions {start} to {found[0]['xid']} were dropped before they were read."
                " Set failOnDataLoss to false to continue without them"
            )

    def _choose_queues(self, database: Database) -> list[str]:
        choice = self._options.choice
        if choice.queues is None:
            return []
        ids = [
            str(row["queue_id"])
            for row in database.fetch("select q.queue_id, q.name from laneway.queue q")
            if choice.covers_queue(row["name"])
        ]
        return [f"e.queue_id in ({', '.join(ids)})" if ids else "false"]

    def _resolve(self, database: Database, position: Position) -> int:
        """Return the transaction id before which all events precede a position."""
        match position:
            case "earliest":
                return 0
            case "latest":
                return find_horizon(database)
            case datetime():
                moment = quote(position.isoformat())
                found = database.fetch(
                    "select e.xid::text::bigint as xid from laneway.event e"
                    f" where e.at >= {moment}::timestamptz order by e.xid limit 1"
                )
                return int(found[0][XID]) if found else find_horizon(database)
            case _:
                return parse(position)


class EventReader(EventSliceReader, DataSourceReader):
    """A batch read from one position to another."""

    def partitions(self) -> Sequence[InputPartition]:
        with open_database(self._options.dsn) as database:
            start = self._resolve(database, self._options.starting)
            end = min(self._resolve(database, self._options.ending), find_horizon(database))
            return list(self._plan(database, start, end)) if start < end else []


class EventStreamReader(EventSliceReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read. An offset is the transaction id before which everything was read."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._target: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        with open_database(self._options.dsn) as database:
            return {XID: self._resolve(database, self._options.starting)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self.reportLatestOffset()[XID]

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        limit = self._options.limit
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        before = parse(start)
        with open_database(self._options.dsn) as database:
            end = find_horizon(database)
            if self._target is not None:
                end = min(end, self._target)
            rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            return {XID: find_end(database, before, end, rows)}

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        with open_database(self._options.dsn) as database:
            return {XID: find_horizon(database)}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        first, last = parse(start), parse(end)
        if first >= last:
            return []
        with open_database(self._options.dsn) as database:
            return self._plan(database, first, last)


def find_horizon(database: Database) -> int:
    """Return the oldest transaction id that may still write events."""
    return int(database.fetch(f"select {_HORIZON}::text::bigint as xid")[0][XID])


def find_end(database: Database, start: int, end: int, rows: int | None) -> int:
    """Return `end`, or the end of the last whole transaction within the row limit; `start` if none.

    An offset that moves without rows would make Spark run empty batches for ever.
    """
    where = " and ".join(_between(start, end))
    if rows is None:
        found = database.fetch(f"select 1 as one from laneway.event e where {where} limit 1")
        return end if found else start
    found = database.fetch(
        f"select r.xid::text::bigint as xid from (select e.xid, {_ROWS_SO_FAR} - {_ROWS} as before from"
        f" (select e.xid, e.part_first from laneway.event e where {where} order by e.xid limit {rows}) e) r"
        f" where r.before < {rows} order by r.xid desc limit 1"
    )
    return int(found[0][XID]) + 1 if found else start


def parse(offset: Offset) -> int:
    if set(offset) != {XID}:
        raise OptionInvalid(
            f'invalid offset of events: {offset}. Expected the form {{"xid": 4711}}'
        )
    return offset[XID]


def _between(start: int, end: int) -> list[str]:
    return [f"e.xid >= '{start}'::xid8", f"e.xid < '{end}'::xid8"]
