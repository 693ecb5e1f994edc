"""Run statements through ADBC, which fetches results as Arrow by COPY.

The driver's own functions are used and not its DB-API, which imports pandas: every task and every
plan is made in a process of its own, and would pay for that with a second.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import adbc_driver_manager as adbc
import adbc_driver_postgresql
import pyarrow as pa

from laneway.lake.errors import DatabaseFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

# The application name in pg_stat_activity.
NAME = "laneway lake"

_USE_COPY = "adbc.postgresql.use_copy"
_NO_SCHEMA = {"3F000", "42P01", "42883", "42703"}


class Database:
    """One connection; its changes are rolled back unless committed."""

    def __init__(self, connection: adbc.AdbcConnection) -> None:
        self._connection = connection

    def fetch(self, statement: str, *, copy: bool = True) -> list[dict[str, Any]]:
        """Return rows. Without COPY, an error carries its SQLSTATE."""
        batches = list(self.stream(statement, copy=copy))
        return [row for batch in batches for row in batch.to_pylist()]

    def stream(self, statement: str, *, copy: bool = True) -> Iterator[pa.RecordBatch]:
        """Yield batches as they arrive, without keeping them."""
        with translating(), closing(adbc.AdbcStatement(self._connection)) as prepared:
            if not copy:
                prepared.set_options(**{_USE_COPY: "false"})
            prepared.set_sql_query(statement)
            handle, _ = prepared.execute_query()
            with pa.RecordBatchReader.from_stream(handle) as reader:
                yield from reader

    def execute(self, statement: str) -> None:
        with translating(), closing(adbc.AdbcStatement(self._connection)) as prepared:
            prepared.set_sql_query(statement)
            prepared.execute_update()

    def ingest(self, table: str, rows: pa.RecordBatchReader) -> int:
        """Append rows to one of our tables by COPY and return how many."""
        with translating(), closing(adbc.AdbcStatement(self._connection)) as prepared:
            options = {
                adbc.INGEST_OPTION_TARGET_TABLE: table,
                adbc.INGEST_OPTION_MODE: adbc.INGEST_OPTION_MODE_APPEND,
                adbc.StatementOptions.INGEST_TARGET_DB_SCHEMA.value: "laneway",
            }
            prepared.set_options(**options)
            prepared.bind_stream(rows)
            return int(prepared.execute_update())

    def commit(self) -> None:
        with translating():
            self._connection.commit()


@contextmanager
def open_database(dsn: str) -> Iterator[Database]:
    with translating():
        driver = adbc_driver_postgresql.connect(dsn)
    with closing(driver):
        with translating():
            connection = adbc.AdbcConnection(driver)
        with closing(connection):
            connection.set_autocommit(False)
            database = Database(connection)
            database.execute(f"set local application_name = '{NAME}'")
            yield database


@contextmanager
def translating() -> Iterator[None]:
    """Translate the driver's error, with a hint where the cause is known."""
    try:
        yield
    except (adbc.Error, OSError) as error:  # OSError: while rows are coming
        # The driver puts the name of its own call before the error.
        text = str(error).split("\n", 1)[0].rpartition("ERROR:  ")[2].strip()
        sqlstate = getattr(error, "sqlstate", None)
        if sqlstate in _NO_SCHEMA:
            text += ". If the schema is out of date, run `laneway admin install`"
        raise DatabaseFailed(text, sqlstate=sqlstate, detail=str(error)) from error


def quote(text: str) -> str:
    """Return the text as an SQL literal. PostgreSQL cannot store zero bytes in text."""
    if "\0" in text:
        raise ValueError("text for a statement contains a zero byte, which PostgreSQL cannot store")
    return "'" + text.replace("'", "''") + "'"


def format_array(values: list[Any], kind: str) -> str:
    """Return an array literal of numbers or texts."""
    inner = ", ".join(quote(value) if isinstance(value, str) else str(value) for value in values)
    return f"array[{inner}]::{kind}[]"
