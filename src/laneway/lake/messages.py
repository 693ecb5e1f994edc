"""Read messages from the log by spans of seqs, without claims or locks and without gaps.

A lane's seqs are dense and follow commit order, so what is visible up to a seq is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from laneway.lake.database import open_database
from laneway.lake.errors import DataLost
from laneway.lake.lanes import (
    Slice,
    check_complete,
    cut_spans,
    find_ends,
    find_spans,
    list_lanes,
    make_slices,
    parse,
    render,
    resolve,
    share_limit,
)
from laneway.lake.selection import EVERYTHING
from laneway.lake.throttle import Pace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from laneway.lake.database import Database
    from laneway.lake.lanes import Span
    from laneway.lake.options import Offset, ReadOptions

# Columns to select; the other columns are the same for the whole lane.
_EXPRESSIONS = {
    "seq": "m.seq",
    "created_at": "m.created_at",
    "deliver_at": "m.deliver_at",
    "key": "m.key",
    "max_attempts": "m.max_attempts::int",
    "lease": "extract(epoch from m.lease)::float8",
    "headers": "m.headers::text",
    "body": "m.body::text",
}


class SliceReader:
    """Read slices on an executor."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark passes an empty partition when there are none.
        if not isinstance(partition, Slice) or not partition.spans:
            return
        with open_database(self._options.dsn) as database:
            pace = Pace(database, sum(span.rows for span in partition.spans))
            pace.rest()
            for segment in sorted({span.segment for span in partition.spans}):
                spans = [span for span in partition.spans if span.segment == segment]
                for batch in self._read_segment(database, spans):
                    yield batch
                    pace.rest()

    def _read_segment(self, database: Database, spans: Sequence[Span]) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(self._schema, timezone="UTC")
        statement = write_statement(spans, self._schema.names)
        rows = 0
        for batch in database.stream(statement):
            rows += batch.num_rows
            yield _complete(batch, spans, schema)
        if self._options.fail_on_data_loss and rows != sum(span.rows for span in spans):
            self._check_kept(database, spans)

    def _check_kept(self, database: Database, spans: Sequence[Span]) -> None:
        """Raise DataLost if the log was trimmed during the read. A crash may leave gaps in unlogged queues."""
        kept = {lane.lane: lane.base for lane in list_lanes(database, EVERYTHING)}
        for span in spans:
            if kept.get(span.lane.lane, span.last) >= span.first:
                raise DataLost(
                    f'messages {span.first} to {span.last} of lane {span.lane.lane} of queue "{span.lane.queue}"'
                    " left the log during the read. Set failOnDataLoss to false to continue without"
                )


class MessageReader(SliceReader, DataSourceReader):
    """A batch read from one position to another."""

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with open_database(options.dsn) as database:
            lanes = list_lanes(database, options.choice)
            start = resolve(database, lanes, options.starting)
            spans = find_spans(database, lanes, start)
            named = {span.lane.lane: span.last for span in spans}
            end = named if options.ending == "latest" else resolve(database, lanes, options.ending)
            # Lanes of an offset that no longer exist have nothing to read.
            end = {lane.lane: end[lane.lane] for lane in lanes if lane.lane in end}
            cut = cut_spans(spans, start=start, end=end)
            if options.fail_on_data_loss:
                check_complete(cut, start=start, end=end)
        return list(make_slices(cut, options.rows_per_partition))


class MessageStreamReader(SliceReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read. An offset holds the last seq read of each lane; new lanes are added later."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._target: dict[int, int] | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        with open_database(self._options.dsn) as database:
            lanes = list_lanes(database, self._options.choice)
            return render(resolve(database, lanes, self._options.starting))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = parse(self.reportLatestOffset())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        limit = self._options.limit
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        before = parse(start)
        with open_database(self._options.dsn) as database:
            lanes = list_lanes(database, self._options.choice)
            ends = find_ends(database, lanes, before)
            known = {lane.lane for lane in lanes}
        if self._target is not None:
            ends = {
                lane: min(end, self._target[lane])
                for lane, end in ends.items()
                if lane in self._target
            }
        available = {
            lane: end - before.get(lane, 0)
            for lane, end in ends.items()
            if end > before.get(lane, 0)
        }
        if isinstance(limit, ReadMaxRows):
            available = share_limit(available, limit.max_rows)
        after = {lane: seq for lane, seq in before.items() if lane in known}
        for lane, rows in available.items():
            if rows:
                after[lane] = before.get(lane, 0) + rows
        return render(after)

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        with open_database(self._options.dsn) as database:
            lanes = list_lanes(database, self._options.choice)
            return render(resolve(database, lanes, "latest"))

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        first, last = parse(start), parse(end)
        with open_database(self._options.dsn) as database:
            lanes = [lane for lane in list_lanes(database, EVERYTHING) if lane.lane in last]
            spans = cut_spans(find_spans(database, lanes, first), start=first, end=last)
        if self._options.fail_on_data_loss:
            check_complete(spans, start=first, end=last)
        return make_slices(spans, self._options.rows_per_partition)


def write_statement(spans: Sequence[Span], columns: Sequence[str]) -> str:
    """Return one statement for any number of spans of one segment."""
    wanted = [f"{_EXPRESSIONS[name]} as {name}" for name in columns if name in _EXPRESSIONS]
    if "id" in columns and "seq" not in columns:
        wanted.append("m.seq as seq")
    segment = spans[0].segment
    if len(spans) == 1:
        span = spans[0]
        source = "laneway.message m"
        place = (
            f"m.segment = {segment} and m.lane_id = {span.lane.lane}"
            f" and m.seq between {span.first} and {span.last}"
        )
    else:
        values = ", ".join(f"({span.lane.lane}, {span.first}, {span.last})" for span in spans)
        # `offset 0` forces one index lookup per span, also for thousands of spans.
        source = (
            f"(values {values}) r (lane_id, first_seq, last_seq) cross join lateral"
            f" (select o.* from laneway.message o where o.segment = {segment}"
            " and o.lane_id = r.lane_id and o.seq between r.first_seq and r.last_seq offset 0) m"
        )
        place = "true"
    # Rows need a column to be counted.
    wanted.append("m.lane_id as lane")
    return f"select {', '.join(wanted)} from {source} where {place}"


def _complete(batch: pa.RecordBatch, spans: Sequence[Span], schema: pa.Schema) -> pa.RecordBatch:
    """Add the columns that are constant per lane, and cast all to Spark's types."""
    lanes = {span.lane.lane: span.lane for span in spans}
    ids = batch.column("lane")
    # The index in `lanes` of each row's lane.
    place = pc.index_in(ids, value_set=pa.array(list(lanes), pa.int32()))
    segment = spans[0].segment
    columns = []
    for column in schema:
        match column.name:
            case "id":
                text = [pc.cast(ids, pa.string()), pc.cast(batch.column("seq"), pa.string())]
                values = pc.binary_join_element_wise(str(segment), *text, "-")
            case "segment":
                values = pa.repeat(pa.scalar(segment, pa.int32()), batch.num_rows)
            case "lane":
                values = ids
            case "queue" | "partition" | "priority" as name:
                of_lane = pa.array([getattr(lane, name) for lane in lanes.values()], column.type)
                values = of_lane.take(place)
            case "max_attempts" | "lease" as name:
                of_lane = pa.array([getattr(lane, name) for lane in lanes.values()], column.type)
                values = pc.coalesce(pc.cast(batch.column(name), column.type), of_lane.take(place))
            case name:
                values = batch.column(name)
        columns.append(values if values.type == column.type else pc.cast(values, column.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
