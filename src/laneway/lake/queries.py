"""Run SQL queries on the lake's tables."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from laneway.domain.escapes import escape
from laneway.lake.errors import OptionInvalid
from laneway.lake.translation import shorten, translating_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import Row

    from laneway.lake.tables import Lake

_WIDTH = 200


@translating_spark()
def ask_lake(spark: SparkSession, lake: Lake, query: str, *, form: str, limit: int) -> str:
    """Return the result as a table, as CSV with a header, or as JSON lines."""
    if form not in _FORMS:
        raise OptionInvalid(f"invalid format {form!r}: use {', '.join(_FORMS)}")
    for table in lake:
        table.read().createOrReplaceTempView(table.name)
    try:
        # In parentheses, Spark accepts queries only: no statement that changes tables or settings.
        frame = spark.sql(f"({query.rstrip().rstrip(';')}\n)")
        rows = frame.limit(limit).collect()
    except ParseException as error:
        raise OptionInvalid(
            f"the query failed: {shorten(str(error))} (queries only: select, with, values)"
        ) from error
    except AnalysisException as error:
        raise OptionInvalid(f"the query failed: {shorten(str(error))}") from error
    return _FORMS[form](frame, rows)


def _write_table(frame: DataFrame, rows: Sequence[Row]) -> str:
    grid = Grid()
    for name in frame.columns:
        grid.add_column(_show(name))
    for row in rows:
        grid.add_row(*(_show("" if value is None else value) for value in row))
    text = io.StringIO()
    Console(file=text, width=_WIDTH).print(grid)
    return text.getvalue().rstrip()


def _show(value: Any) -> Text:
    """Return the text without markup or terminal control characters."""
    return Text(escape(str(value)))


def _write_csv(frame: DataFrame, rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(frame.columns)
    writer.writerows(rows)
    return text.getvalue().rstrip()


def _write_json(_: DataFrame, rows: Sequence[Row]) -> str:
    return "\n".join(json.dumps(row.asDict(recursive=True), default=str) for row in rows)


_FORMS = {"table": _write_table, "csv": _write_csv, "json": _write_json}
