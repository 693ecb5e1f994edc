"""What a person can set about the server; the command reads it from flags, environment and file."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from typing import Literal

from laneway.activity.settings import ActivitySettings
from laneway.domain.settings import EngineSettings
from laneway.server.tokens import TokenSettings

_ACTIVITY = ActivitySettings()
_ENGINE = EngineSettings()
_TOKENS = TokenSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one client may cost: sizes in bytes, and how long it may take its time.

    requests, long_polls, documents, event_streams and anonymous_event_streams: how many of each may
    be under way in one process; none counts as another. documents are those read without a key.
    headers_within and body_within: from the first byte to the last. write_stall: how long a client
    may leave its answer unread. linger, linger_silent and linger_bytes: how long a client that was
    told to go is still read from, how long it may be silent meanwhile, and how much it may send,
    so that it sees what it was told. compress_from: answers of lists from this size on are compressed
    for those who take it so.
    """

    body: int = 16 * 1024 * 1024
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

    port: one of its own beside the server's; None: only that. host: how clients reach the server,
    for the URLs of queues; None: as the request says. in_flight: how many messages of a queue may
    be. recreate_after and purge_after: how long a name rests after its queue was deleted, and a
    queue after it was purged.
    """

    port: int | None = None
    host: str | None = None
    url_style: Literal["path", "region", "host"] = "path"
    region: str = "us-east-1"
    account: str = "000000000000"
    in_flight: int = 120_000
    recreate_after: timedelta = timedelta(seconds=60)
    purge_after: timedelta = timedelta(seconds=60)


_SQS = SqsSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The server's settings.

    allowed_hosts: names, each with those below it, that a server without keys answers to beside its
    own; allowed_origins: of web pages that may call, "*" being any as long as a key is asked for.
    queue: the one meant when a request names none; made at the start if it is missing. ack_timeout
    and max_attempts: of queues that are made without their own. actor and manual_actor: who
    activity says acted, when the server did by itself and when a person did by hand. shutdown: how
    long a stop may take.
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
    queue: str = "default"
    ack_timeout: timedelta = timedelta(seconds=30)
    max_attempts: int = 3
    priority_levels: int = 10
    actor: str = "relay-actor"
    manual_actor: str = "user-manual-operation"
    shutdown: timedelta = timedelta(seconds=20)
    limits: Limits = Limits()
    sqs: SqsSettings = _SQS
    activity: ActivitySettings = _ACTIVITY
    engine: EngineSettings = _ENGINE


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
