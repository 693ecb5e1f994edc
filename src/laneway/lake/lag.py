"""The lag of a streaming query, from Spark's progress reports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress


def measure_lag(progress: StreamingQueryProgress) -> int:
    """Return how many messages its Laneway sources had not read; for events, how many transactions."""
    return sum(
        _subtract(source.latestOffset, source.endOffset)
        for source in progress.sources
        if source.latestOffset and source.endOffset
    )


def _subtract(latest: str, end: str) -> int:
    newest, reached = json.loads(latest), json.loads(end)
    return sum(max(0, seq - reached.get(lane, 0)) for lane, seq in newest.items())
