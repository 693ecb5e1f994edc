"""The gateway of one process: its targets, ready to accept requests and to be called."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from laneway.domain.errors import InvalidSetting, QueueExists
from laneway.domain.settings import QueueSettings
from laneway.domain.transactions import DEAD_LETTERS, TRANSACTIONS, WEBHOOKS
from laneway.gateway.cache import open_cache
from laneway.gateway.calls import AddressRefused
from laneway.gateway.counts import Counts
from laneway.gateway.http_client import Guard, HttpClient
from laneway.gateway.http_target import HttpKind
from laneway.gateway.intake import Intake
from laneway.gateway.openzeppelin import OpenZeppelinKind
from laneway.gateway.pool import UpstreamPool
from laneway.gateway.signatures import read_secret
from laneway.gateway.statuses import Statuses
from laneway.gateway.targets import Redelivery
from laneway.gateway.webhooks import ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from laneway.engine import Broker
    from laneway.gateway.cache import Cache
    from laneway.gateway.calls import Calls
    from laneway.gateway.settings import GatewaySettings
    from laneway.gateway.targets import Kind, Target, Upstream

logger = logging.getLogger(__name__)

KINDS: tuple[Kind, ...] = (HttpKind(), OpenZeppelinKind())

# Attempts that the queue of transactions gives a message that names no number.
QUEUE_ATTEMPTS = 3

QUEUES: Mapping[str, QueueSettings] = {
    DEAD_LETTERS: QueueSettings(retention=timedelta(days=14)),
    WEBHOOKS: QueueSettings(
        lease=timedelta(seconds=60), max_attempts=ATTEMPTS, retention=timedelta(days=4)
    ),
    TRANSACTIONS: QueueSettings(
        lease=timedelta(seconds=60),
        max_attempts=QUEUE_ATTEMPTS,
        retention=timedelta(days=4),
        dead_letter_queue=DEAD_LETTERS,
    ),
}


class Place:
    """A target that is ready to use."""

    __slots__ = ("calls", "intake", "pool", "upstream")

    def __init__(self, upstream: Upstream, calls: Calls, broker: Broker) -> None:
        self.upstream = upstream
        self.calls = calls
        self.pool = UpstreamPool(upstream, calls)
        self.intake = Intake(
            upstream,
            transactions=broker.transactions,
            calls=calls,
            queue_attempts=QUEUE_ATTEMPTS,
        )


class Gateway:
    """Use it as a context, after `open_gateway`."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        broker: Broker,
        places: Mapping[str, Place],
        webhook_calls: Calls,
        cache: Cache,
    ) -> None:
        self.settings = settings
        self.broker = broker
        self.places = places
        self.webhook_calls = webhook_calls
        self.counts = Counts(places)
        self.statuses = Statuses(
            broker.transactions,
            cache,
            {name: (place.upstream, place.calls) for name, place in places.items()},
        )

    async def create_queues(self) -> None:
        """Create the gateway's queues, unless they exist."""
        for name, settings in QUEUES.items():
            with suppress(QueueExists):
                await self.broker.queues.create(name, settings)


def check_settings(settings: GatewaySettings) -> None:
    """Raise InvalidSetting if a target, a network or a secret is wrong."""
    Guard(settings.private_networks)
    for upstream in open_upstreams(settings.targets).values():
        if upstream.target.callback is not None:
            for secret in upstream.target.callback.secrets:
                read_secret(secret)


def open_upstreams(targets: Sequence[Target]) -> dict[str, Upstream]:
    """Return the targets by name; raise InvalidSetting if one is wrong."""
    upstreams: dict[str, Upstream] = {}
    for target in targets:
        kind = _find_kind(target)
        guard = Guard(target.private_networks)
        for url in target.urls:
            try:
                guard.check_url(url)
            except AddressRefused as error:
                raise InvalidSetting(f"target {target.name}: {error}") from None
        upstream = kind.open(target)
        for other in upstreams.values():
            if shared := set(upstream.types).intersection(other.types):
                raise InvalidSetting(
                    f"targets {other.target.name} and {target.name} accept the same requests:"
                    f" {', '.join(sorted(shared))}"
                )
        upstreams[target.name] = upstream
    return upstreams


@asynccontextmanager
async def open_gateway(settings: GatewaySettings, broker: Broker) -> AsyncIterator[Gateway]:
    """Open the gateway's connections. Raise InvalidSetting if a target is wrong."""
    upstreams = open_upstreams(settings.targets)
    cache = open_cache(settings.redis_url)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(cache.close)
        places = {}
        for name, upstream in upstreams.items():
            target = upstream.target
            client = HttpClient(
                Guard((*settings.private_networks, *target.private_networks)),
                connections=target.concurrency or settings.concurrency,
                # Without a way to ask, a call must not be lost on a connection that just closes.
                reuse=upstream.can_look_up or target.redelivery is Redelivery.AT_LEAST_ONCE,
            )
            places[name] = Place(upstream, await stack.enter_async_context(client.open()), broker)
        webhooks = HttpClient(Guard(settings.private_networks), connections=settings.concurrency)
        webhook_calls = await stack.enter_async_context(webhooks.open())
        yield Gateway(
            settings, broker=broker, places=places, webhook_calls=webhook_calls, cache=cache
        )


def _find_kind(target: Target) -> Kind:
    for kind in KINDS:
        if kind.name == target.kind:
            return kind
    names = " or ".join(kind.name for kind in KINDS)
    raise InvalidSetting(f'target {target.name} is of an unknown kind "{target.kind}": use {names}')
