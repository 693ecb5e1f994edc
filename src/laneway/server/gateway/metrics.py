"""The gateway's metrics: its figures and breakers from the database, and counters of what was sent."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from laneway.domain.errors import Retryable
from laneway.gateway.alerts import list_alerts
from laneway.gateway.counts import CallOutcome, WebhookOutcome
from laneway.server.metrics import make_head

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laneway.domain.transactions import Breaker
    from laneway.gateway.alerts import Alert
    from laneway.gateway.gateway import Gateway
    from laneway.server.shared_counters import Sheet

# Seconds; scrapes within this time share the queries.
_AGE = 1.0


class GatewayMetrics:
    """Counts into this process's row, and shows the sum of all rows."""

    def __init__(self, gateway: Gateway, sheet: Sheet, worker: int) -> None:
        self._gateway = gateway
        self._sheet = sheet
        self._row = sheet.gateway_row(worker)
        self._seen = [0] * len(gateway.counts.list_all())
        if len(self._seen) > len(self._row):
            raise ValueError(f"{len(gateway.places)} targets do not fit into the shared counters")
        self._alerts: Sequence[Alert] = ()
        self._breakers: Sequence[Breaker] = ()
        self._read_at = float("-inf")

    def take_stock(self) -> None:
        """Write what is new into this process's row, which a process before this one may have begun."""
        counts = self._gateway.counts.list_all()
        for place, (value, seen) in enumerate(zip(counts, self._seen, strict=True)):
            self._row[place] += value - seen
        self._seen = counts

    async def render(self) -> bytes:
        await self._read()
        return ("\n".join([*self._render_figures(), *self._render_counts()]) + "\n").encode()

    async def _read(self) -> None:
        """Read the figures; leave them out while the database is unreachable."""
        if monotonic() - self._read_at < _AGE:
            return
        broker = self._gateway.broker
        try:
            self._alerts = await list_alerts(broker)
            self._breakers = await broker.transactions.list_breakers()
        except Retryable:
            self._alerts, self._breakers = (), ()
        self._read_at = monotonic()

    def _render_figures(self) -> Iterator[str]:
        for alert in self._alerts:
            yield from make_head(alert.metric, "gauge", f"{alert.meaning}.")
            yield f"{alert.metric} {alert.value:g}"
        if not self._alerts:
            return
        name = "laneway_gateway_breaker_open"
        opened = {each.target for each in self._breakers if each.opened_at is not None}
        yield from make_head(name, "gauge", "1 while the target's breaker is open, else 0.")
        for target in self._gateway.places:
            yield f'{name}{{target="{target}"}} {int(target in opened)}'

    def _render_counts(self) -> Iterator[str]:
        totals = iter([sum(cells) for cells in zip(*self._sheet.gateway_rows(), strict=True)])
        name = "laneway_gateway_calls_total"
        yield from make_head(name, "counter", "Calls of targets by this server, by how they ended.")
        for target in self._gateway.places:
            for outcome in CallOutcome:
                labels = f'target="{target}",outcome="{outcome.name.lower()}"'
                yield f"{name}{{{labels}}} {next(totals):.0f}"
        name = "laneway_gateway_webhooks_total"
        yield from make_head(
            name, "counter", "Attempts to send webhooks by this server, by how they ended."
        )
        for result in WebhookOutcome:
            yield f'{name}{{outcome="{result.name.lower()}"}} {next(totals):.0f}'
