"""Answers to questions in SQL about the lake's tables."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from laneway.domain.escapes import escape
from laneway.lake.errors import LakeBroken, OptionInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import Row

    from laneway.lake.tables import Lake

_WIDTH = 200


def ask_lake(spark: SparkSession, lake: Lake, query: str, *, form: str, limit: int) -> str:
    """Return the answer as a table, as CSV with a head, or as one JSON object a line."""
    if form not in {"table", "csv", "json"}:
        raise OptionInvalid(f"the format is {form!r}: say table, csv or json")
    for table in lake:
        table.read().createOrReplaceTempView(table.name)
    try:
        frame = spark.sql(query)
        rows = frame.limit(limit).collect()
    except PySparkException as error:
        text = str(error).strip().split("\n", 1)[0]
        if (error.getCondition() or "").startswith("FAILED_READ_FILE"):
            raise LakeBroken(f"a file of the lake is corrupt: {text}; restore it") from error
        raise OptionInvalid(f"the query cannot be answered: {text}") from error
    return _FORMS[form](frame, rows)


def _write_table(frame: DataFrame, rows: Sequence[Row]) -> str:
    grid = Grid()
    for name in frame.columns:
        grid.add_column(name)
    for row in rows:
        # As text: what is in a message is no markup, and commands no terminal.
        grid.add_row(*(Text("" if value is None else escape(str(value))) for value in row))
    text = io.StringIO()
    Console(file=text, width=_WIDTH).print(grid)
    return text.getvalue().rstrip()


def _write_csv(frame: DataFrame, rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(frame.columns)
    writer.writerows(rows)
    return text.getvalue().rstrip()


def _write_json(_: DataFrame, rows: Sequence[Row]) -> str:
    return "\n".join(json.dumps(row.asDict(recursive=True), default=str) for row in rows)


_FORMS = {"table": _write_table, "csv": _write_csv, "json": _write_json}
