"""What a person can set about the server; the command reads it from flags, environment and file."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address

from laneway.domain.settings import EngineSettings

_ENGINE = EngineSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one client may cost: sizes in bytes, and how long it may take its time.

    headers_within and body_within: from the first byte to the last. write_stall: how long a client
    may leave its answer unread. compress_from: answers of lists from this size on are compressed
    for those who take it so.
    """

    body: int = 16 * 1024 * 1024
    headers: int = 32 * 1024
    requests: int = 10_000
    headers_within: timedelta = timedelta(seconds=10)
    body_within: timedelta = timedelta(seconds=60)
    write_stall: timedelta = timedelta(seconds=30)
    keep_alive: timedelta = timedelta(seconds=75)
    compress_from: int = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivitySettings:
    """Whether activity is recorded, how long it is kept, and from where on it is remarkable."""

    enabled: bool = True
    retention: timedelta = timedelta(hours=24)
    flash_message: timedelta = timedelta(milliseconds=500)
    large_payload: int = 5000
    long_processing: timedelta = timedelta(seconds=10)
    near_dlq: int = 1
    zombie_factor: float = 2.0
    burst_count: int = 50
    burst_within: timedelta = timedelta(seconds=5)
    bulk_operation: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The server's settings.

    queue: the one meant when a request names none; made at the start if it is missing. ack_timeout
    and max_attempts: of queues that are made without their own. actor and manual_actor: who
    activity says acted, when the server did by itself and when a person did by hand. shutdown: how
    long a stop may take.
    """

    host: str = "127.0.0.1"
    port: int = 3001
    workers: int = 1
    insecure: bool = False
    secret_key: str | None = field(default=None, repr=False)
    log_level: str = "info"
    queue: str = "default"
    ack_timeout: timedelta = timedelta(seconds=30)
    max_attempts: int = 3
    priority_levels: int = 10
    actor: str = "relay-actor"
    manual_actor: str = "user-manual-operation"
    shutdown: timedelta = timedelta(seconds=20)
    limits: Limits = Limits()
    activity: ActivitySettings = ActivitySettings()
    engine: EngineSettings = _ENGINE


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
