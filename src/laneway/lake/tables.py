"""The tables of a lake."""

from __future__ import annotations

from dataclasses import dataclass
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

from laneway.lake.errors import LakeMissing
from laneway.lake.location import find_folder
from laneway.lake.schemas import make_schema
from laneway.lake.store import Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType


_KINDS: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "timestamp": TimestampType(),
}


def _parse(columns: str) -> StructType:
    """Parse a list of columns. Spark's own parser needs a running session."""
    pairs = [column.split() for column in columns.split(", ")]
    return StructType([StructField(name, _KINDS[kind]) for name, kind in pairs])


_KEY = "day string, queue string, grain string, at timestamp, group string, type string"
_SCHEMAS = {
    "messages": make_schema("messages").add("bytes", IntegerType()).add("day", StringType()),
    "events": make_schema("events").add("day", StringType()),
    "extents": _parse("day string, queue string, lane int, first_seq bigint, last_seq bigint"),
    "silver": _parse(
        "day string, queue string, id string, group string, type string, priority int, lane int,"
        " seq bigint, enqueued_at timestamp, first_claimed_at timestamp, last_claimed_at timestamp,"
        " settled_at timestamp, wait double, work double, attempts int, retries int, outcome string,"
        " consumer string, reason string, bytes int, max_attempts int"
    ),
    "traffic": _parse(
        f"{_KEY}, enqueued bigint, claimed bigint, acked bigint, dead bigint, retried bigint,"
        " removed bigint, rate double, retry_rate double, dead_rate double, wait_p50 double,"
        " wait_p95 double, wait_p99 double, work_p50 double, work_p95 double, work_p99 double,"
        " backlog bigint"
    ),
    "consumers": _parse(
        f"{_KEY}, consumer string, claimed bigint, acked bigint, dead bigint, retried bigint,"
        " rate double, work_p50 double, work_p95 double, work_p99 double"
    ),
    "anomalies": _parse(
        "day string, queue string, at timestamp, until timestamp, type string, severity string,"
        " group string, consumer string, messages bigint, threshold double, actual double,"
        " score double, description string"
    ),
}


@dataclass(frozen=True, slots=True)
class Lake:
    """A lake in a directory that the driver and all executors can access."""

    folder: Path
    messages: Table
    events: Table
    extents: Table
    silver: Table
    traffic: Table
    consumers: Table
    anomalies: Table

    def __iter__(self) -> Iterator[Table]:
        return iter(getattr(self, name) for name in _SCHEMAS)


def check_lake(place: str | Path) -> None:
    """Raise LakeMissing if nothing was ever landed, e.g. because the directory is mistyped."""
    folder = find_folder(place)
    if not any(folder.glob("*/_record/[0-9]*.json")):
        raise LakeMissing(
            f"no lake found in {folder}. Check the directory, or create the lake with: laneway lake run"
        )


def open_lake(spark: SparkSession, place: str | Path) -> Lake:
    """place: a path or a file:// URL; raise OptionInvalid for any other."""
    folder = find_folder(place).resolve()
    tables = {name: Table(spark, folder / name, schema) for name, schema in _SCHEMAS.items()}
    return Lake(folder=folder, **tables)
