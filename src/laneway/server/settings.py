"""The server's settings; the command reads them from flags, the environment and a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from typing import Literal

from laneway.activity.settings import ActivitySettings
from laneway.domain.messages import PRIORITY_LEVELS
from laneway.domain.settings import EngineSettings
from laneway.gateway.settings import GatewaySettings
from laneway.server.tokens import TokenSettings

_ACTIVITY = ActivitySettings()
_GATEWAY = GatewaySettings()
_ENGINE = EngineSettings()
_TOKENS = TokenSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on each client and kind of request. Sizes are in bytes.

    requests, long_polls, documents, event_streams and anonymous_event_streams: how many of each a
    process serves at the same time; each counts as one kind only. documents are served without a
    key. headers_within and body_within: time from the first byte to the last. write_stall: how long
    a client may leave its answer unread. linger, linger_silent and linger_bytes: after an error
    answer that closes the connection, how long the server keeps reading, how long the client may be
    silent meanwhile, and how much it may send, so that it receives the answer. compress_from: lists
    from this size on are compressed for clients that accept gzip.
    """

    # One message of 16 MiB, and what surrounds it in a request.
    body: int = 16 * 1024 * 1024 + 512 * 1024
    headers: int = 32 * 1024
    requests: int = 10_000
    long_polls: int = 10_000
    documents: int = 500
    event_streams: int = 1_000
    anonymous_event_streams: int = 100
    headers_within: timedelta = timedelta(seconds=10)
    body_within: timedelta = timedelta(seconds=60)
    write_stall: timedelta = timedelta(seconds=30)
    linger: timedelta = timedelta(seconds=30)
    linger_silent: timedelta = timedelta(seconds=5)
    linger_bytes: int = 256 * 1024 * 1024
    keep_alive: timedelta = timedelta(seconds=75)
    compress_from: int = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsSettings:
    """The SQS endpoint's settings.

    port: an additional port for SQS only; None: none. host: the host name in URLs of queues; None:
    the request's. region and account: those of requests that name none. shared: all queues belong
    to every region and account. in_flight: limit on a queue's messages in flight. recreate_after and purge_after:
    how long after its deletion a queue's name can be used again, and how long after a purge a queue
    can be purged again.
    """

    port: int | None = None
    host: str | None = None
    url_style: Literal["path", "region", "host", "domain"] = "path"
    region: str = "us-east-1"
    account: str = "000000000000"
    shared: bool = False
    in_flight: int = 120_000
    recreate_after: timedelta = timedelta(seconds=60)
    purge_after: timedelta = timedelta(seconds=60)


_SQS = SqsSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The server's settings.

    allowed_hosts: host names, with their subdomains, that a server without keys answers to beside
    its own. allowed_origins: web pages that may call; "*" means any if a key is required. queue:
    the default queue, created when it is first named. ack_timeout and max_attempts: for queues
    created without their own. deliver: this server also sends the gateway's requests. actor and
    manual_actor: names in the activity log for what the server does by itself, and for manual
    operations. shutdown: how long stopping may take.
    """

    host: str = "127.0.0.1"
    port: int = 3001
    workers: int = 1
    insecure: bool = False
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ("*",)
    secret_key: str | None = field(default=None, repr=False)
    encryption_key: str | None = field(default=None, repr=False)
    tokens: TokenSettings = _TOKENS
    log_level: str = "info"
    log_format: Literal["text", "json"] = "json"
    queue: str = "default"
    ack_timeout: timedelta = timedelta(seconds=30)
    max_attempts: int = 3
    priority_levels: int = PRIORITY_LEVELS
    actor: str = "relay-actor"
    manual_actor: str = "user-manual-operation"
    shutdown: timedelta = timedelta(seconds=20)
    limits: Limits = Limits()
    sqs: SqsSettings = _SQS
    activity: ActivitySettings = _ACTIVITY
    gateway: GatewaySettings = _GATEWAY
    deliver: bool = False
    engine: EngineSettings = _ENGINE


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
