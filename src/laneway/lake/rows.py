"""Check rows that become messages, and convert them to the staged form."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
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

from laneway.domain.messages import (
    LARGEST_PRIORITY,
    LONGEST_DELAY,
    LONGEST_KEY,
    LONGEST_PARTITION,
)
from laneway.lake.errors import WriteRefused

if TYPE_CHECKING:
    from collections.abc import Callable

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
_SHOWN = 60

_write_exactly = msgspec.json.Encoder(decimal_format="number").encode


def check_columns(schema: StructType) -> None:
    """Check a DataFrame's columns before anything is written."""
    if "body" not in schema.names:
        raise WriteRefused(f"column body not found. The columns are {', '.join(schema.names)}")
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


def convert(batch: pa.RecordBatch, *, attempt: str, first: int, task: int) -> pa.RecordBatch:
    """Return the rows in staged form, numbered from `first`; raise for an invalid row."""
    columns = []
    try:
        for column in STAGED:
            match column.name:
                case "attempt":
                    values = pa.repeat(attempt, batch.num_rows)
                case "place":
                    values = pa.array(range(first, first + batch.num_rows), pa.int64())
                case name if name not in batch.schema.names:
                    values = pa.nulls(batch.num_rows, column.type)
                case name:
                    values = _CONVERTERS[name](batch.column(name))
            columns.append(values)
    except _RowRefused as error:
        raise WriteRefused(
            f"row {first + error.row + 1} of partition {task} cannot become a message: {error.problem}"
        ) from None
    return pa.RecordBatch.from_arrays(columns, schema=STAGED)


class _RowRefused(Exception):
    """row: its index in the batch, from 0."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(problem)
        self.row = row
        self.problem = problem


def _convert_partition(values: pa.Array) -> pa.Array:
    texts = pc.cast(values, pa.string())
    long = pc.greater(pc.utf8_length(texts), LONGEST_PARTITION)
    _refuse(long, texts, f"its partition is {{}}: at most {LONGEST_PARTITION} characters")
    return texts


def _convert_priority(values: pa.Array) -> pa.Array:
    numbers = pc.cast(values, pa.float64(), safe=False)
    whole = pc.equal(numbers, pc.floor(numbers))
    within = pc.and_(pc.greater_equal(numbers, 0), pc.less_equal(numbers, LARGEST_PRIORITY))
    wrong = pc.invert(pc.and_(whole, within))
    _refuse(
        wrong, values, f"its priority is {{}}: give a whole number from 0 to {LARGEST_PRIORITY}"
    )
    return pc.cast(numbers, pa.int32())


def _convert_delay(values: pa.Array) -> pa.Array:
    """Return seconds."""
    if pa.types.is_duration(values.type):
        micros = pc.cast(pc.cast(values, pa.duration("us")), pa.int64())
        seconds = pc.divide(pc.cast(micros, pa.float64()), float(_SECOND))
    else:
        seconds = pc.cast(values, pa.float64(), safe=False)
    longest = LONGEST_DELAY.total_seconds()
    within = pc.and_(pc.greater_equal(seconds, 0), pc.less_equal(seconds, longest))
    _refuse(pc.invert(within), values, f"its delay is {{}}: give 0 to {longest:.0f} seconds")
    return seconds


def _convert_key(values: pa.Array) -> pa.Array:
    texts = pc.cast(values, pa.string())
    length = pc.utf8_length(texts)
    wrong = pc.or_(pc.equal(length, 0), pc.greater(length, LONGEST_KEY))
    _refuse(wrong, texts, f"its key is {{}}: give 1 to {LONGEST_KEY} characters, or null for none")
    return texts


def _convert_headers(values: pa.Array) -> pa.Array:
    texts = _write_json(values, "headers")
    objects = pc.starts_with(pc.utf8_ltrim_whitespace(texts), "{")
    _refuse(pc.invert(objects), texts, "its headers are {}: give an object")
    return texts


def _convert_body(values: pa.Array) -> pa.Array:
    _refuse(pc.is_null(values), values, "its body is null: JSON's null is written 'null'")
    return _write_json(values, "body")


_CONVERTERS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "partition": _convert_partition,
    "priority": _convert_priority,
    "delay": _convert_delay,
    "key": _convert_key,
    "headers": _convert_headers,
    "body": _convert_body,
}


def _refuse(wrong: pa.Array, values: pa.Array, problem: str) -> None:
    """Raise for the first row marked wrong. Null marks count as right."""
    row = pc.index(wrong, True).as_py()
    if row < 0:
        return
    value = values[row].as_py()
    shown = repr(value) if isinstance(value, str) else str(value)
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}… ({len(str(value))} characters)"
    raise _RowRefused(row, problem.format(shown))


def _write_json(values: pa.Array, name: str) -> pa.Array:
    """Encode values as JSON. Strings are JSON already, and PostgreSQL checks them when staged."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return pc.cast(values, pa.string())
    write = _write_decimals if _holds_decimals(values.type) else _write_plainly
    texts: list[str | None] = []
    for number, row in enumerate(values.to_pylist(maps_as_pydicts="strict")):
        try:
            texts.append(None if row is None else write(row))
        except (TypeError, ValueError) as error:
            raise _RowRefused(number, f"its {name} is not JSON: {error}") from error
    return pa.array(texts, pa.string())


def _write_plainly(row: Any) -> str:
    return json.dumps(row, default=_write_value, allow_nan=False)


def _write_decimals(row: Any) -> str:
    """Encode as JSON with all digits of decimals, which Python's json module cannot do."""
    return _write_exactly(_simplify(row)).decode()


def _simplify(value: Any) -> Any:
    match value:
        case dict():
            return {key: _simplify(item) for key, item in value.items()}
        case list():
            return [_simplify(item) for item in value]
        case float() if not math.isfinite(value):
            raise ValueError(f"it has {value}")
        case str() | int() | float() | Decimal() | None:
            return value
        case _:
            return _write_value(value)


def _holds_decimals(kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return True
    if pa.types.is_map(kind):
        return _holds_decimals(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _holds_decimals(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_holds_decimals(field.type) for field in kind)
    return False


def _write_value(value: Any) -> Any:
    match value:
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return str(value)
