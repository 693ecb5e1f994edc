"""The columns of messages and events, in Spark and in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from laneway.lake.errors import OptionInvalid

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from laneway.lake.options import Table

_STRING = StringType()
_INT = IntegerType()
_LONG = LongType()
_TIME = TimestampType()

# max_attempts and lease (in seconds): the message's own, else its queue's.
# headers and body: the JSON text exactly as it was sent.
_MESSAGES: dict[str, DataType] = {
    "id": _STRING,
    "queue": _STRING,
    "partition": _STRING,
    "priority": _INT,
    "segment": _INT,
    "lane": _INT,
    "seq": _LONG,
    "created_at": _TIME,
    "deliver_at": _TIME,
    "key": _STRING,
    "max_attempts": _INT,
    "lease": DoubleType(),
    "headers": _STRING,
    "body": _STRING,
}
_EVENTS: dict[str, DataType] = {
    "event_id": _LONG,
    "xid": _LONG,
    "at": _TIME,
    "kind": _STRING,
    "queue": _STRING,
    "group": _STRING,
    "partition": _STRING,
    "priority": _INT,
    "segment": _INT,
    "lane": _INT,
    "first_seq": _LONG,
    "last_seq": _LONG,
    "attempt": _INT,
    "token": _STRING,
    "consumer": _STRING,
    "since": _TIME,
    "reason": _STRING,
    "detail": _STRING,
}
COLUMNS: dict[Table, dict[str, DataType]] = {"messages": _MESSAGES, "events": _EVENTS}


def make_schema(table: Table) -> StructType:
    return StructType([StructField(name, kind) for name, kind in COLUMNS[table].items()])


def check_schema(table: Table, schema: StructType) -> None:
    """Check the schema a program gives: any of the columns, with their types."""
    for column in schema.fields:
        expected = COLUMNS[table].get(column.name)
        if expected is None:
            raise OptionInvalid(
                f"{table} have no column {column.name!r}. The columns are {', '.join(COLUMNS[table])}"
            )
        if column.dataType != expected:
            raise OptionInvalid(
                f"the column {column.name} is {expected.simpleString()},"
                f" not {column.dataType.simpleString()}"
            )
