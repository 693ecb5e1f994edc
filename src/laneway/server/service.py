"""The state of a server process that all operations share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from laneway.server.lease_tokens import LeaseTokens
from laneway.server.request_limits import Rooms

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.activity import Monitor
    from laneway.engine import Broker
    from laneway.gateway.gateway import Gateway
    from laneway.server.authentication import Keyring
    from laneway.server.gateway.metrics import GatewayMetrics
    from laneway.server.long_polls import Wait
    from laneway.server.metrics import Metrics
    from laneway.server.router import Route
    from laneway.server.settings import ServerSettings


T = TypeVar("T")


class Service:
    """The shared state of one process.

    waits: its requests' long waits. gateway, gateway_metrics: None if it has no targets.
    """

    def __init__(
        self,
        *,
        broker: Broker,
        activity: Monitor,
        settings: ServerSettings,
        keyring: Keyring,
        metrics: Metrics,
        gateway: Gateway | None = None,
        gateway_metrics: GatewayMetrics | None = None,
    ) -> None:
        self.broker = broker
        self.activity = activity
        self.settings = settings
        self.keyring = keyring
        self.metrics = metrics
        self.gateway = gateway
        self.gateway_metrics = gateway_metrics
        self.stopping = asyncio.Event()
        self.waits: dict[Wait, None] = {}
        # Set by the application.
        self.routes: tuple[Route, ...] = ()
        # Concurrent requests in this process, of all kinds.
        self.busy = 0
        self.rooms = Rooms(settings.limits)
        self._check: asyncio.Future[bool] | None = None
        self._own: dict[Callable[[], Any], Any] = {}
        self._lease_tokens: LeaseTokens | None = None

    def own(self, kind: Callable[[], T]) -> T:
        """Return this service's instance of a class, created on first use."""
        thing: T | None = self._own.get(kind)
        if thing is None:
            thing = self._own[kind] = kind()
        return thing

    async def find_lease_tokens(self) -> LeaseTokens:
        """Return what writes and reads consumers' tokens; the first call asks the database."""
        if self._lease_tokens is None:
            self._lease_tokens = LeaseTokens(await self.broker.keys.read_lease_secret())
        return self._lease_tokens

    async def accepts_writes(self) -> bool:
        """Ask the database whether it accepts writes; concurrent callers share one query."""
        if self._check is None:
            self._check = asyncio.ensure_future(self.broker.accepts_writes())
            self._check.add_done_callback(self._end_check)
        return await asyncio.shield(self._check)

    def _end_check(self, check: asyncio.Future[bool]) -> None:
        self._check = None
        if not check.cancelled():
            check.exception()  # callers that still wait get the error

    def stop(self) -> None:
        """Begin to stop: end all long waits."""
        self.stopping.set()
        for wait in list(self.waits):
            wait.stop()

    def take_stock(self) -> None:
        self.metrics.take_stock(self.busy, self.broker.measure())
        if self.gateway_metrics is not None:
            self.gateway_metrics.take_stock()
