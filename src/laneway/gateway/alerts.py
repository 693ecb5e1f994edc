"""The figures of the gateway that operators are alerted by."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from laneway.domain.errors import NotFound
from laneway.domain.transactions import DEAD_LETTERS, TRANSACTIONS

if TYPE_CHECKING:
    from laneway.engine import Broker


class Alert(NamedTuple):
    """One figure. It fires above its limit. unit: "messages", "seconds" or "ratio"."""

    name: str
    meaning: str
    value: float
    limit: float
    unit: str

    @property
    def metric(self) -> str:
        """The figure's name in the metrics for Prometheus."""
        return f"laneway_gateway_{self.name}_{self.unit}"

    @property
    def fires(self) -> bool:
        return self.value > self.limit


async def list_alerts(broker: Broker) -> list[Alert]:
    """Return the six figures; nothing before the gateway's queues exist."""
    try:
        (queue,) = await broker.statistics.metrics(TRANSACTIONS)
        (buried,) = await broker.statistics.metrics(DEAD_LETTERS)
        figures = await broker.transactions.summarise()
    except NotFound:
        return []
    lag = timedelta(0) if queue.oldest is None else datetime.now(UTC) - queue.oldest
    return [
        Alert("queue_depth", "Messages that are ready", queue.pending, 1000, "messages"),
        Alert("lag", "Age of the oldest unfinished message", lag.total_seconds(), 300, "seconds"),
        Alert(
            "processing",
            "Duration of the longest call",
            _seconds(figures.longest_call),
            10,
            "seconds",
        ),
        Alert("dead", "Dead letters", queue.dead + buried.total, 10, "messages"),
        Alert(
            "errors",
            "Share of recent transactions whose latest call failed",
            figures.failed / figures.called if figures.called else 0.0,
            0.05,
            "ratio",
        ),
        Alert(
            "pending",
            "Age of the oldest transaction that is not final",
            _seconds(figures.oldest_open),
            3600,
            "seconds",
        ),
    ]


def _seconds(duration: timedelta | None) -> float:
    return 0.0 if duration is None else duration.total_seconds()
