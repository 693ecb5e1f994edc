"""Which rows can become messages, and how they are staged."""

from __future__ import annotations

import base64
import json
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    DayTimeIntervalType,
    MapType,
    NumericType,
    StringType,
    StructType,
)

from laneway.lake.errors import WriteRefused

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

STAGED = pa.schema(
    {
        "attempt": pa.string(),
        "place": pa.int64(),
        "partition": pa.string(),
        "priority": pa.int32(),
        "delay": pa.float64(),
        "key": pa.string(),
        "headers": pa.string(),
        "body": pa.string(),
    }
)

_TEXT = (StringType,)
_JSON = (StringType, StructType, MapType, ArrayType)
_KINDS: dict[str, tuple[type[DataType], ...]] = {
    "partition": _TEXT,
    "priority": (NumericType,),
    "delay": (NumericType, DayTimeIntervalType),
    "key": _TEXT,
    "headers": (StringType, StructType, MapType),
    "body": _JSON,
}
_SECOND = 1_000_000


def check_columns(schema: StructType) -> None:
    """Refuse a DataFrame that cannot be written, before anything is."""
    if "body" not in schema.names:
        raise WriteRefused(f"there is no column body: there are {', '.join(schema.names)}")
    for column in schema.fields:
        kinds = _KINDS.get(column.name)
        if kinds is None:
            raise WriteRefused(
                f"a message has no column {column.name!r}: drop it, or put it into the body."
                f" Columns are {', '.join(_KINDS)}"
            )
        if not isinstance(column.dataType, kinds):
            raise WriteRefused(
                f"the column {column.name} cannot be {column.dataType.simpleString()}"
            )


def convert(batch: pa.RecordBatch, *, attempt: str, first: int) -> pa.RecordBatch:
    """Return the rows as they are staged, numbered from `first`."""
    columns = []
    for column in STAGED:
        match column.name:
            case "attempt":
                values = pa.repeat(attempt, batch.num_rows)
            case "place":
                values = pa.array(range(first, first + batch.num_rows), pa.int64())
            case name if name not in batch.schema.names:
                values = pa.nulls(batch.num_rows, column.type)
            case "body" | "headers" as name:
                values = _write_json(batch.column(name))
            case "delay":
                values = _measure(batch.column("delay"))
            case name:
                values = pc.cast(batch.column(name), column.type)
        columns.append(values)
    return pa.RecordBatch.from_arrays(columns, schema=STAGED)


def _write_json(values: pa.Array) -> pa.Array:
    """Write as JSON what is not a text: a text is JSON already."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return pc.cast(values, pa.string())
    rows = values.to_pylist(maps_as_pydicts="strict")
    return pa.array(
        [None if row is None else json.dumps(row, default=_write_value) for row in rows],
        pa.string(),
    )


def _write_value(value: Any) -> Any:
    match value:
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return float(value)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return str(value)


def _measure(values: pa.Array) -> pa.Array:
    if pa.types.is_duration(values.type):
        micros = pc.cast(pc.cast(values, pa.duration("us")), pa.int64())
        return pc.divide(pc.cast(micros, pa.float64()), float(_SECOND))
    return pc.cast(values, pa.float64())
