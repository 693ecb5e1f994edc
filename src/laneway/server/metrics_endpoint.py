"""The metrics endpoint at the root, where Prometheus looks for it."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from laneway.domain.errors import Retryable
from laneway.server.access import every_queue
from laneway.server.metrics import CONTENT_TYPE
from laneway.server.operations import Media, Operation, Response, Role, Surface
from laneway.server.responses import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laneway.domain.errors import LanewayError
    from laneway.domain.queues import Counts
    from laneway.engine import Broker
    from laneway.server.calls import Call

# Seconds; scrapes within this time share one query of the queues' counts.
_COUNTS_AGE = 1.0


class Monitor:
    """Renders the metrics, with the queues' counts cached for a second."""

    def __init__(self) -> None:
        self._counts: Sequence[Counts] = ()
        self._counted_at = float("-inf")

    async def show_metrics(self, call: Call[None, None]) -> Answer:
        service = call.service
        await self._count(service.broker)
        service.take_stock()
        shown = service.metrics.render(self._counts)
        if service.gateway_metrics is not None:
            shown += await service.gateway_metrics.render()
        return Answer(200, shown, content_type=CONTENT_TYPE)

    async def _count(self, broker: Broker) -> None:
        """Refresh the counts; leave them empty while the database is unreachable."""
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
                summary="Show metrics for Prometheus",
                description=(
                    "Returns the metrics of all server processes in Prometheus's text format. While the "
                    "database is unreachable, the counts of queues and the gateway's figures are left out."
                ),
                answers={200: Response(Media("text/plain"), "The metrics.")},
                role=Role.READ,
                reach=every_queue,
                hidden=path != "/metrics",
                tag="monitoring",
            )
            for path in ("/metrics", "/metrics/prometheus")
        ),
        explain=explain,
    )
