"""Write rows as messages, exactly once: tasks stage rows and the driver publishes each epoch.

A task that fails or runs twice stages under another name, which is never published; publishing an
epoch again changes nothing. A run's name stands for one job to one queue.
"""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import contextmanager
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
from laneway.lake.errors import DatabaseFailed, QueueMissing, WriteRefused
from laneway.lake.rows import STAGED, convert

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laneway.lake.options import WriteOptions

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
_SWEEP_EVERY = 100
# PostgreSQL's error and context for a row that a column does not accept.
_BAD_ROW = ("22", "23")
_LINE = re.compile(r"^(?:CONTEXT: +)?COPY staged, line (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """The rows that one task staged for an epoch of a run."""

    run: str
    task: int
    attempt: str
    rows: int


class BatchWriter(DataSourceArrowWriter):
    """Write a whole DataFrame as epoch 0 of its run."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._run = options.run_id or f"batch-{uuid4().hex}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return _stage(self._options, self._run, 0, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        staged = _choose(messages)
        if not _publish(self._options, self._run, 0, staged):
            self._tell_repeated(sum(each.rows for each in staged))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's signature
        _forget(self._options, self._run, 0)

    def _tell_repeated(self, rows: int) -> None:
        """Raise if the number of rows differs from what this run pushed before: they would be dropped."""
        before = find_published(self._options.dsn, self._run)
        if before != rows:
            raise WriteRefused(
                f'run "{self._run}" pushed {before} messages to queue "{self._options.queue}" before,'
                f" and now has {rows}: nothing was pushed. Use another run name for other rows"
            )
        sys.stderr.write(
            f'nothing was pushed: run "{self._run}" was published to queue'
            f' "{self._options.queue}" before\n'
        )


class StreamWriter(DataSourceStreamArrowWriter):
    """Write the micro-batches of a streaming query, whose id is kept in its checkpoint."""

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


def check_goal(options: WriteOptions) -> None:
    """Check that the queue exists and that the run belongs to it, before rows are staged."""
    run = "null" if options.run_id is None else quote(options.run_id)
    with open_database(options.dsn) as database:
        names = database.fetch(
            f"select q.name from laneway.queue q where q.name = {quote(options.queue)}"
        )
        before = database.fetch(
            "select coalesce(q.name, '(deleted)') as name from laneway.published p"
            f" left join laneway.queue q using (queue_id) where p.run = {run} and p.epoch = 0"
        )
    if not names:
        raise QueueMissing(
            f'queue "{options.queue}" not found. '
            f"Create it with: laneway queue create {shlex.quote(options.queue)}"
        )
    if before and before[0]["name"] != options.queue:
        raise WriteRefused(
            f'run "{options.run_id}" was published to queue "{before[0]["name"]}" before: a run\'s name'
            " belongs to one job and one queue; choose another"
        )


def find_published(dsn: str, run: str) -> int | None:
    """Return how many messages a batch run has pushed, or None if it has not run."""
    with open_database(dsn) as database:
        rows = database.fetch(
            f"select p.messages from laneway.published p where p.run = {quote(run)} and p.epoch = 0"
        )
    return int(rows[0]["messages"]) if rows else None


def _stage(
    options: WriteOptions, run: str, epoch: int, batches: Iterator[pa.RecordBatch]
) -> Staged:
    task = _find_task().partitionId()
    attempt = f"{run}/{epoch}/{task}/{uuid4().hex}"
    counted = _Counted(attempt, task, batches)
    with _refusing(counted), open_database(options.dsn) as database:
        database.ingest("staged", pa.RecordBatchReader.from_batches(STAGED, counted))
        database.commit()
    return Staged(run=run, task=task, attempt=attempt, rows=counted.rows)


class _Counted:
    """Convert batches to the staged form and number their rows."""

    def __init__(self, attempt: str, task: int, batches: Iterator[pa.RecordBatch]) -> None:
        self.rows = 0
        self.task = task
        # ADBC keeps only the text of an exception raised while it reads.
        self.failure: Exception | None = None
        self._attempt = attempt
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._batches:
                yield convert(batch, attempt=self._attempt, first=self.rows, task=self.task)
                self.rows += batch.num_rows
        except Exception as error:
            self.failure = error
            raise


@contextmanager
def _refusing(counted: _Counted) -> Iterator[None]:
    """Raise an error that names the row that cannot become a message."""
    try:
        yield
    except DatabaseFailed as error:
        if counted.failure is not None:
            raise counted.failure from None
        line = _LINE.search(error.detail or "")
        if line is None or not (error.sqlstate or "").startswith(_BAD_ROW):
            raise
        raise WriteRefused(
            f"row {line[1]} of partition {counted.task} cannot become a message: {error.reason}"
        ) from error


def _publish(options: WriteOptions, run: str, epoch: int, staged: Sequence[Staged]) -> bool:
    """Publish the epoch; return False if it was published before."""
    attempts = format_array([each.attempt for each in staged], "text")
    counts = format_array([each.rows for each in staged], "bigint")
    queue = quote(options.queue)
    with open_database(options.dsn) as database:
        try:
            answer = database.fetch(
                f"select laneway.publish_staged({quote(run)}, {epoch}, {queue}, {attempts}, {counts}) as n",
                copy=False,
            )
        except DatabaseFailed as error:
            raise _name_refusal(error) from error
        database.commit()
        if answer[0]["n"] is None:
            return False
        # In a transaction after the push, when its lane locks are released.
        database.fetch(
            "select pg_catalog.pg_notify('laneway_wake', 'spark:' || q.queue_id)::text as told"
            f" from laneway.queue q where q.name = {queue}"
        )
        if epoch % _SWEEP_EVERY == 0:
            database.fetch("select laneway.sweep_staged() as n")
        database.commit()
    return True


def _name_refusal(error: DatabaseFailed) -> Exception:
    """Return the error by its family where the broker's own functions raised it."""
    kind = {"LW404": QueueMissing, "LW409": WriteRefused, "LW413": WriteRefused}.get(
        error.sqlstate or ""
    )
    return error if kind is None else kind(f"nothing was pushed: {error.reason}")


def _forget(options: WriteOptions, run: str, epoch: int) -> None:
    with open_database(options.dsn) as database:
        database.fetch(f"select laneway.forget_staged({quote(run)}, {epoch})::text as nothing")
        database.commit()


def _choose(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """Return the staged parts in the order of the rows."""
    staged = [message for message in messages if isinstance(message, Staged)]
    return sorted(staged, key=lambda each: each.task)


def _find_task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("rows can only be staged inside Spark tasks")
    return task
