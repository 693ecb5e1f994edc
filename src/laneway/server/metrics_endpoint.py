"""What watches the server: metrics at the root, where scrapers look for them."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from laneway.domain.errors import Retryable
from laneway.server.access import every_queue
from laneway.server.metrics import CONTENT_TYPE
from laneway.server.operations import Media, Operation, Role, Surface
from laneway.server.responses import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laneway.domain.errors import LanewayError
    from laneway.domain.queues import Counts
    from laneway.engine import Broker
    from laneway.server.calls import Call

# Scrapers that come at the same time share one look at the queues.
_COUNTS_AGE = 1.0


class Monitor:
    """Remembers the queues' counts for a moment."""

    def __init__(self) -> None:
        self._counts: Sequence[Counts] = ()
        self._counted_at = float("-inf")

    async def show_metrics(self, call: Call[None, None]) -> Answer:
        service = call.service
        await self._count(service.broker)
        service.take_stock()
        return Answer(200, service.metrics.render(self._counts), content_type=CONTENT_TYPE)

    async def _count(self, broker: Broker) -> None:
        """While the database is away, the process's own numbers are shown alone."""
        if monotonic() - self._counted_at < _COUNTS_AGE:
            return
        try:
            self._counts = await broker.statistics.counts()
        except Retryable:
            self._counts = ()
        self._counted_at = monotonic()


def make_surface(explain: Callable[[LanewayError], Answer]) -> Surface:
    show_metrics = Monitor().show_metrics
    return Surface(
        name="monitoring",
        prefix="",
        operations=tuple(
            Operation(
                method="GET",
                path=path,
                handler=show_metrics,
                summary="Numbers for Prometheus",
                answers={200: Media("text/plain")},
                role=Role.READ,
                reach=every_queue,
                hidden=path != "/metrics",
                tag="monitoring",
            )
            for path in ("/metrics", "/metrics/prometheus")
        ),
        explain=explain,
    )
