"""Copy results of the lake to PostgreSQL for the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from laneway.lake.database import open_database, quote

if TYPE_CHECKING:
    from laneway.lake.store import Table
    from laneway.lake.tables import Lake

_KEY = ("grain", "at", "queue", "group_name", "type")
_COLUMNS = {
    "traffic": (
        *_KEY,
        *("enqueued", "claimed", "acked", "dead", "retried", "removed", "rate", "retry_rate"),
        *("dead_rate", "wait_p50", "wait_p95", "wait_p99", "work_p50", "work_p95", "work_p99"),
        "backlog",
    ),
    "consumers": (
        *_KEY,
        *("consumer", "claimed", "acked", "dead", "retried", "rate"),
        *("work_p50", "work_p95", "work_p99"),
    ),
    "anomalies": (
        *("at", "type", "severity", "queue", "group_name", "consumer", "description"),
        *("threshold", "actual", "score"),
    ),
}
_TARGETS = {
    "traffic": "history_traffic",
    "consumers": "history_consumer",
    "anomalies": "history_anomaly",
}
_STATE = "history"


def publish_history(lake: Lake, dsn: str) -> int:
    """Replace the changed days and queues in the database, and delete rows past retention.

    Return how many rows were written.
    """
    done = dict(lake.anomalies.load().state.get(_STATE, {}))
    rows = 0
    for table in (lake.traffic, lake.consumers, lake.anomalies):
        record = table.load()
        known = int(done.get(table.name, 0))
        parts = {(file.day, file.queue) for file in record.files if file.landed > known}
        rows += _replace(table, dsn, parts)
        done[table.name] = record.version
    # The note creates a table version of its own, without files.
    done["anomalies"] += 1
    if rows:
        lake.anomalies.note({**lake.anomalies.load().state, _STATE: done})
    with open_database(dsn) as database:
        database.fetch("select laneway.sweep_history() as n")
        database.commit()
    return rows


def _replace(table: Table, dsn: str, parts: set[tuple[str, str]]) -> int:
    if not parts:
        return 0
    frame = table.read(lambda file: (file.day, file.queue) in parts)
    found = frame.withColumnRenamed("group", "group_name").select(*_COLUMNS[table.name]).toArrow()
    target = _TARGETS[table.name]
    values = ", ".join(f"({quote(day)}, {quote(queue)})" for day, queue in sorted(parts))
    with open_database(dsn) as database:
        database.execute(
            f"delete from laneway.{target} h using (values {values}) p (day, queue)"
            " where h.queue = p.queue and h.at >= (p.day || ' 00:00+00')::timestamptz"
            " and h.at < (p.day || ' 00:00+00')::timestamptz + interval '1 day'"
        )
        if found.num_rows:
            reader = pa.RecordBatchReader.from_batches(found.schema, found.to_batches())
            database.ingest(target, reader)
        database.commit()
    return int(found.num_rows)
