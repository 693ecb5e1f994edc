"""Runs one process of the server on sockets that are already open, until it is stopped."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from laneway.activity import Monitor
from laneway.domain.errors import Retryable
from laneway.domain.queues import DefaultQueue
from laneway.domain.settings import QueueSettings
from laneway.engine import Broker
from laneway.server import metrics_endpoint, queen
from laneway.server.application import Application
from laneway.server.authentication import Keyring
from laneway.server.background_tasks import keep_running, run_in_background
from laneway.server.gateway import SURFACES as GATEWAY
from laneway.server.gateway.metrics import GatewayMetrics
from laneway.server.http import HttpServer
from laneway.server.library import SURFACE as LIBRARY
from laneway.server.metrics import Metrics
from laneway.server.rest import SURFACE as REST
from laneway.server.service import Service
from laneway.server.sqs import make_surface as make_sqs
from laneway.server.tokens import Tokens

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Sequence

    from laneway.gateway.gateway import Gateway
    from laneway.server.background_tasks import Job
    from laneway.server.operations import Surface
    from laneway.server.settings import ServerSettings
    from laneway.server.shared_counters import Sheet

logger = logging.getLogger(__name__)

KEYS_AGE = timedelta(seconds=3)
PUBLISH_PERIOD = timedelta(seconds=1)
_OBJECTS_BETWEEN_COLLECTIONS = 20_000


async def serve(
    dsn: str,
    settings: ServerSettings,
    *,
    listeners: Sequence[socket.socket],
    sheet: Sheet,
    worker: int = 0,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT; a second signal ends requests that the first lets finish.

    ready is called once the server answers requests and handles signals.
    """
    async with (
        Broker(dsn, settings.engine, default_queue=make_default_queue(settings)) as broker,
        Monitor(broker, settings.activity) as activity,
        _open_gateway(settings, broker) as gateway,
    ):
        service = Service(
            broker=broker,
            activity=activity,
            settings=settings,
            keyring=Keyring(
                secret=settings.secret_key,
                load=partial(broker.keys.list_all, revoked=True),
                age=KEYS_AGE,
                insecure=settings.insecure,
                tokens=Tokens.make(settings.tokens),
            ),
            metrics=Metrics(sheet, worker),
            gateway=gateway,
            gateway_metrics=None if gateway is None else GatewayMetrics(gateway, sheet, worker),
        )
        # Load the keys before the first request: they decide whether a key is required.
        with suppress(Retryable):
            await service.keyring.refresh()
        server = HttpServer(Application(service, make_surfaces(settings)), settings.limits)

        def stop() -> None:
            # The server first: it marks the connections, so that the long polls which end now
            # respond with Connection: close.
            server.stop()
            service.stop()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        jobs: dict[str, Job] = {
            "connection time limits": server.enforce_time_limits,
            "API key refresh": service.keyring.follow,
            "metrics": partial(_publish, service),
        }
        async with run_in_background(jobs), _deliver(gateway, settings, service.stopping):
            _spare_collections()
            await server.serve(listeners, shutdown=settings.shutdown, ready=ready)


@asynccontextmanager
async def _open_gateway(settings: ServerSettings, broker: Broker) -> AsyncIterator[Gateway | None]:
    """Open the gateway if it has targets: only then is its HTTP client loaded."""
    if not settings.gateway.targets:
        yield None
        return
    from laneway.gateway.gateway import open_gateway  # noqa: PLC0415 - see above

    async with open_gateway(settings.gateway, broker) as gateway:
        yield gateway


@asynccontextmanager
async def _deliver(
    gateway: Gateway | None, settings: ServerSettings, stop: asyncio.Event
) -> AsyncIterator[None]:
    """Send the gateway's requests until the server stops, if it is to."""
    if gateway is None or not settings.deliver:
        yield
        return
    from laneway.gateway.process import DeliveryProcess  # noqa: PLC0415 - as above

    job = partial(DeliveryProcess(gateway).run, stop)
    task = asyncio.create_task(keep_running("gateway", job), name="gateway")
    try:
        yield
    finally:
        stop.set()
        await task


def _spare_collections() -> None:
    """Collect garbage rarely: requests leave few cycles, and loaded modules stay."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, 20, 20)


def make_surfaces(settings: ServerSettings) -> tuple[Surface, ...]:
    """Return the surfaces of every protocol of the server."""
    return (
        REST,
        LIBRARY,
        # First of those at the root: it formats the errors of unknown paths.
        metrics_endpoint.make_surface(REST.explain),
        *GATEWAY,
        *queen.make_surfaces(settings),
        make_sqs(),
    )


async def _publish(service: Service) -> None:
    """Write this process's metrics to the shared counters, a last time at the end."""
    try:
        while True:
            await asyncio.sleep(PUBLISH_PERIOD.total_seconds())
            service.take_stock()
    finally:
        service.take_stock()


def make_default_queue(settings: ServerSettings) -> DefaultQueue:
    queue = QueueSettings(
        lease=settings.ack_timeout,
        max_attempts=settings.max_attempts,
        backoff=timedelta(0),
        record_events=settings.activity.enabled,
    )
    return DefaultQueue(settings.queue, queue)
