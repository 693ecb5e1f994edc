"""Writes rows as messages, exactly once: tasks stage them, the driver publishes an epoch of them.

A task that fails or runs twice stages under another name, which nobody publishes; publishing an
epoch again changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from laneway.lake.database import format_array, open_database, quote
from laneway.lake.rows import STAGED, convert

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laneway.lake.options import WriteOptions

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
_SWEEP_EVERY = 100


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What one task staged, for which epoch of which run."""

    run: str
    task: int
    attempt: str
    rows: int


class BatchWriter(DataSourceArrowWriter):
    """One write of a whole DataFrame: epoch 0 of its run."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._run = options.run_id or f"batch-{uuid4().hex}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return _stage(self._options, self._run, 0, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _publish(self._options, self._run, 0, _choose(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's signature
        _forget(self._options, self._run, 0)


class StreamWriter(DataSourceStreamArrowWriter):
    """The micro-batches of a query, which keeps its id with its checkpoint."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        task = _find_task()
        run = f"stream-{task.getLocalProperty(_QUERY_ID)}"
        return _stage(self._options, run, int(task.getLocalProperty(_BATCH_ID) or 0), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        staged = _choose(messages)
        if staged:
            _publish(self._options, staged[0].run, batchId, staged)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        staged = _choose(messages)
        if staged:
            _forget(self._options, staged[0].run, batchId)


def _stage(
    options: WriteOptions, run: str, epoch: int, batches: Iterator[pa.RecordBatch]
) -> Staged:
    task = _find_task().partitionId()
    attempt = f"{run}/{epoch}/{task}/{uuid4().hex}"
    counted = _Counted(attempt, batches)
    with open_database(options.dsn) as database:
        database.ingest("staged", pa.RecordBatchReader.from_batches(STAGED, counted))
        database.commit()
    return Staged(run=run, task=task, attempt=attempt, rows=counted.rows)


class _Counted:
    """Batches in the form they are staged in, numbered on."""

    def __init__(self, attempt: str, batches: Iterator[pa.RecordBatch]) -> None:
        self.rows = 0
        self._attempt = attempt
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            yield convert(batch, attempt=self._attempt, first=self.rows)
            self.rows += batch.num_rows


def _publish(options: WriteOptions, run: str, epoch: int, staged: Sequence[Staged]) -> None:
    attempts = format_array([each.attempt for each in staged], "text")
    counts = format_array([each.rows for each in staged], "bigint")
    queue = quote(options.queue)
    with open_database(options.dsn) as database:
        database.fetch(
            f"select laneway.publish_staged({quote(run)}, {epoch}, {queue}, {attempts}, {counts}) as n"
        )
        database.commit()
        # Apart from the push, whose lanes are free by now.
        database.fetch(
            "select pg_catalog.pg_notify('laneway_wake', 'spark:' || q.queue_id)::text as told"
            f" from laneway.queue q where q.name = {queue}"
        )
        if epoch % _SWEEP_EVERY == 0:
            database.fetch("select laneway.sweep_staged() as n")
        database.commit()


def _forget(options: WriteOptions, run: str, epoch: int) -> None:
    with open_database(options.dsn) as database:
        database.fetch(f"select laneway.forget_staged({quote(run)}, {epoch})::text as nothing")
        database.commit()


def _choose(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """Return what was staged, in the order of the rows."""
    staged = [message for message in messages if isinstance(message, Staged)]
    return sorted(staged, key=lambda each: each.task)


def _find_task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("rows are staged by tasks of Spark only")
    return task
