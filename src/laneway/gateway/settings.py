"""The gateway's settings; the command reads them from laneway.toml and the environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from laneway.gateway.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """How the gateway runs.

    private_networks: that webhooks may be sent to, and all targets may be in. retention: how long
    final transactions are kept, and idempotency_keys how long these are. concurrency: calls at once in
    one process. shutdown: how long calls have to end when the process stops.
    """

    targets: tuple[Target, ...] = ()
    private_networks: tuple[str, ...] = ()
    redis_url: str | None = field(default=None, repr=False)
    retention: timedelta = timedelta(days=30)
    idempotency_keys: timedelta = timedelta(hours=24)
    concurrency: int = 10
    shutdown: timedelta = timedelta(seconds=120)
