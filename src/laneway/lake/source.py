"""The data source that Spark finds under the name "laneway"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from laneway.lake.errors import WriteRefused
from laneway.lake.events import EventReader, EventStreamReader
from laneway.lake.messages import MessageReader, MessageStreamReader
from laneway.lake.options import parse_read_options, parse_write_options, read_table
from laneway.lake.rows import check_columns
from laneway.lake.schemas import check_schema, make_schema
from laneway.lake.sink import BatchWriter, StreamWriter, check_goal

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class LanewaySource(DataSource):
    """`spark.read.format("laneway")`, and the same for streams and for writing.

    Readers have no `pushFilters`: Spark keeps what one query pushes down for the next query of the
    same DataFrame, and that one would miss rows. Options choose what is read.
    """

    @classmethod
    def name(cls) -> str:
        return "laneway"

    def schema(self) -> StructType:
        return make_schema(read_table(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse_read_options(self.options, streaming=False)
        check_schema(options.table, schema)
        reader = EventReader if options.table == "events" else MessageReader
        return reader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        options = parse_read_options(self.options, streaming=True)
        check_schema(options.table, schema)
        reader = EventStreamReader if options.table == "events" else MessageStreamReader
        return reader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        if overwrite:
            raise WriteRefused("a queue cannot be overwritten: write with mode append")
        options = parse_write_options(self.options)
        check_columns(schema)
        check_goal(options)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 - Spark's signature
        if overwrite:
            raise WriteRefused("a queue cannot be overwritten: write with output mode append")
        options = parse_write_options(self.options)
        check_columns(schema)
        return StreamWriter(options)
