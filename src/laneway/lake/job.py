"""One run of the lake: land, refine, find anomalies, publish to the database, compact."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from laneway.lake.history import publish_history
from laneway.lake.ingestion import land_events, land_messages
from laneway.lake.refinement import compact, refine_anomalies, refine_gold, refine_silver
from laneway.lake.source_database import check_origin
from laneway.lake.store import lock_lake
from laneway.lake.translation import translating_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from laneway.lake.tables import Lake

AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True)
class Pass:
    """The result of one run."""

    messages: int
    events: int
    days: int
    findings: int
    seconds: float


@translating_spark()
def run_once(
    spark: SparkSession,
    lake: Lake,
    dsn: str,
    *,
    tell: Callable[[str], None] = lambda _: None,
    at_once: int = AT_ONCE,
    accept_loss: bool = False,
    now: datetime | None = None,
) -> Pass:
    """Bring the lake up to date. The next run repairs one that was interrupted."""
    began = time.monotonic()
    with lock_lake(lake.folder):
        check_origin(lake.folder, dsn)
        for table in lake:
            table.clean()
        # Events first: the messages read afterwards then include those of every claim.
        events = land_events(spark, lake, dsn, at_once=at_once, accept_loss=accept_loss, tell=tell)
        messages = land_messages(
            spark, lake, dsn, at_once=at_once, accept_loss=accept_loss, tell=tell
        )
        tell("refining silver")
        days = refine_silver(lake)
        tell("summing up gold")
        refine_gold(lake)
        tell("looking for anomalies")
        findings = refine_anomalies(lake, now or datetime.now(UTC))
        tell("bringing it back to PostgreSQL")
        publish_history(lake, dsn)
        tell("writing small files together")
        compact(lake)
    return Pass(messages, events, days, findings, time.monotonic() - began)
