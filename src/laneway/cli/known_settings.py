"""The settings: their names, types, limits and defaults.

A setting has one name in four spellings: LANEWAY_MAX_ATTEMPTS in the environment and in .env,
--max-attempts as a flag, max_attempts in laneway.toml. Some are also read by a name without LANEWAY_.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from laneway.server.logs import FORMATS, LEVELS

Value: TypeAlias = str | int | float | bool | None

PREFIX = "LANEWAY_"
LONGEST = 10 * 365 * 24 * 3600

# Read without the prefix too: names of Relay, of Queen, and two that many programs share.
_ALIASES = {
    "ACK_TIMEOUT_SECONDS",
    "ACTIVITY_BULK_OPERATION_THRESHOLD",
    "ACTIVITY_BURST_THRESHOLD_COUNT",
    "ACTIVITY_BURST_THRESHOLD_SECONDS",
    "ACTIVITY_FLASH_MESSAGE_THRESHOLD_MS",
    "ACTIVITY_LARGE_PAYLOAD_THRESHOLD_BYTES",
    "ACTIVITY_LOG_ENABLED",
    "ACTIVITY_LOG_RETENTION_HOURS",
    "ACTIVITY_LONG_PROCESSING_THRESHOLD_MS",
    "ACTIVITY_NEAR_DLQ_THRESHOLD",
    "ACTIVITY_ZOMBIE_THRESHOLD_MULTIPLIER",
    "DATABASE_URL",
    "JWT_AUDIENCE",
    "JWT_ISSUER",
    "JWT_PUBLIC_KEY",
    "JWT_ROLES_CLAIM",
    "JWT_SECRET",
    "LOG_LEVEL",
    "MANUAL_OPERATION_ACTOR",
    "MAX_ATTEMPTS",
    "MAX_PRIORITY_LEVELS",
    "OVERDUE_CHECK_INTERVAL_MS",
    "PORT",
    "POSTGRES_DATABASE",
    "POSTGRES_HOST",
    "POSTGRES_PASSWORD",
    "POSTGRES_POOL_SIZE",
    "POSTGRES_PORT",
    "POSTGRES_SSL",
    "POSTGRES_USER",
    "QUEEN_ENCRYPTION_KEY",
    "QUEUE_NAME",
    "REDIS_URL",
    "RELAY_ACTOR",
    "REQUEUE_BATCH_SIZE",
    "SECRET_KEY",
    "SERVER_URL",
}

# Names that version 0.2.0 read, and that other programs use for settings of their own.
_FORMER = {
    "ALLOWED_HOSTS",
    "ALLOWED_ORIGINS",
    "API_KEY",
    "DATABASE_DIRECT_URL",
    "DATABASE_POOLED",
    "DATA_DIR",
    "HOST",
    "INSECURE",
    "MAX_ANONYMOUS_EVENT_STREAMS",
    "MAX_BODY_BYTES",
    "MAX_EVENT_STREAMS",
    "MAX_LONG_POLLS",
    "SHUTDOWN_SECONDS",
    "SQS_ACCOUNT",
    "SQS_HOST",
    "SQS_IN_FLIGHT",
    "SQS_PORT",
    "SQS_PURGE_SECONDS",
    "SQS_RECREATE_SECONDS",
    "SQS_REGION",
    "SQS_URL_STYLE",
    "WORKERS",
}


def is_part(name: str) -> bool:
    """Return whether a setting is a part of a database's URL."""
    return name.startswith("postgres_") and name != "postgres_pool_size"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    low, high: limits of a number. short: a second name of its flag. fallback: the setting whose value
    it has, if it is not set itself.
    """

    name: str
    kind: type[str | int | float | bool]
    default: Value
    meaning: str
    low: float | None = None
    high: float = 10**12
    choices: tuple[str, ...] | None = None
    secret: bool = False
    short: str | None = None
    fallback: str | None = None

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def alias(self) -> str | None:
        """The variable without the prefix, if it is read too."""
        name = self.name.upper()
        return name if name in _ALIASES else None

    @property
    def former(self) -> str | None:
        """The variable that version 0.2.0 read, if it is not read any more."""
        name = self.name.upper()
        return name if name in _FORMER else None

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that the setting is read from; the first one that is set counts."""
        return (self.variable,) if self.alias is None else (self.variable, self.alias)

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


SETTINGS = (
    Setting("host", str, "127.0.0.1", "Address to listen on. Any but loopback requires a key."),
    Setting("port", int, 3001, "Port to listen on (0: any free port).", 0, 65535),
    Setting("workers", int, 1, "Number of server processes that share the port.", 1, 256),
    Setting(
        "insecure",
        bool,
        default=False,
        meaning="Allow any address without a key. Everybody has access until a key exists.",
    ),
    Setting(
        "allowed_hosts",
        str,
        None,
        "Host names, separated by commas, that a server without keys accepts besides localhost and "
        "IP addresses. Each includes its subdomains.",
    ),
    Setting(
        "allowed_origins",
        str,
        "*",
        "Origins of web pages that may call the server, separated by commas. *: any origin if keys "
        "are required; without keys, only the server's own pages and the origins listed.",
    ),
    Setting("secret_key", str, None, "API key with all rights, sent as X-API-KEY.", secret=True),
    Setting(
        "queen_encryption_key",
        str,
        None,
        "Encryption key of encrypted queues: 32 bytes as 64 hexadecimal digits.",
        secret=True,
    ),
    Setting(
        "jwt_secret",
        str,
        None,
        "Secret of signed tokens (JWT, HS256): 32 bytes or more. If set, a token or key is required.",
        secret=True,
    ),
    Setting(
        "jwt_public_key",
        str,
        None,
        "Public key of signed tokens (JWT, RS256 or EdDSA): PEM text or a PEM file.",
    ),
    Setting("jwt_issuer", str, None, "Required issuer (iss) of tokens."),
    Setting("jwt_audience", str, None, "Required audience (aud) of tokens."),
    Setting(
        "jwt_roles_claim", str, "role", "Token claim with the role: read-only, read-write or admin."
    ),
    Setting("log_level", str, "info", "Minimum log level.", choices=LEVELS),
    Setting(
        "log_format",
        str,
        "auto",
        "Format of log lines. auto: text on a terminal, else JSON.",
        choices=FORMATS,
    ),
    Setting(
        "data_dir", str, ".laneway", "Data directory of the bundled PostgreSQL.", short="--data"
    ),
    Setting(
        "database_url",
        str,
        None,
        "PostgreSQL URL; overrides POSTGRES_HOST etc. (default: the bundled PostgreSQL).",
        secret=True,
    ),
    Setting("postgres_host", str, None, "PostgreSQL host name or socket directory."),
    Setting("postgres_port", str, None, "PostgreSQL port (default 5432)."),
    Setting("postgres_database", str, None, "PostgreSQL database (default postgres)."),
    Setting("postgres_user", str, None, "PostgreSQL user (default postgres)."),
    Setting("postgres_password", str, None, "PostgreSQL password.", secret=True),
    Setting("postgres_ssl", str, None, "TLS to PostgreSQL: true requires it, false forbids it."),
    Setting(
        "database_pooled",
        bool,
        default=False,
        meaning="Connect to the database through PgBouncer in transaction mode.",
    ),
    Setting(
        "database_direct_url",
        str,
        None,
        "URL of the same database that bypasses PgBouncer, for LISTEN, maintenance and migrations.",
        secret=True,
    ),
    Setting("postgres_pool_size", int, 10, "Database connections per process.", 2, 1000),
    Setting(
        "queue_name",
        str,
        "default",
        "Default queue for requests and commands that name none.",
        short="--queue",
    ),
    Setting(
        "ack_timeout_seconds",
        float,
        30,
        "Lease duration of queues created over REST in seconds.",
        0.001,
        LONGEST,
    ),
    Setting(
        "max_attempts",
        int,
        3,
        "Attempts before a message is dead-lettered, for queues created over REST.",
        1,
        32767,
    ),
    Setting("requeue_batch_size", int, 100, "Expired leases to process per batch.", 1, 100_000),
    Setting(
        "overdue_check_interval_ms",
        int,
        5000,
        "Interval of checks for expired leases in milliseconds.",
        100,
    ),
    Setting("max_priority_levels", int, 10, "Number of priorities, counted from 0.", 1, 32767),
    Setting("relay_actor", str, "relay-actor", "Name of the server in activity."),
    Setting(
        "manual_operation_actor",
        str,
        "user-manual-operation",
        "Name of a user in activity, and of the consumer of messages that a user moves to processing.",
    ),
    Setting("activity_log_enabled", bool, default=True, meaning="Record activity of new queues."),
    Setting(
        "activity_log_retention_hours", float, 24, "Retention of activity in hours.", 0, 87_600
    ),
    Setting(
        "activity_flash_message_threshold_ms",
        int,
        500,
        "Flag messages dequeued within this many milliseconds of being enqueued.",
        0,
    ),
    Setting(
        "activity_large_payload_threshold_bytes",
        int,
        5000,
        "Flag payloads larger than this many bytes.",
        0,
    ),
    Setting(
        "activity_long_processing_threshold_ms",
        int,
        10_000,
        "Flag messages in flight for longer than this many milliseconds.",
        0,
    ),
    Setting(
        "activity_near_dlq_threshold",
        int,
        1,
        "Flag messages with this many attempts left, or fewer.",
        0,
    ),
    Setting(
        "activity_zombie_threshold_multiplier",
        float,
        2.0,
        "Flag leases that expired more than this many lease durations ago.",
        0,
    ),
    Setting(
        "activity_burst_threshold_count",
        int,
        50,
        "Flag consumers that dequeue this many messages within the burst period.",
        1,
    ),
    Setting("activity_burst_threshold_seconds", float, 5, "Burst period in seconds.", 0),
    Setting(
        "activity_bulk_operation_threshold",
        int,
        10,
        "Flag operations on this many messages at once.",
        1,
    ),
    Setting(
        "sqs_port",
        int,
        None,
        "Additional port for SQS clients (0: any free port).",
        0,
        65535,
    ),
    Setting("sqs_host", str, None, "Host and port in queue URLs (default: those of the request)."),
    Setting(
        "sqs_url_style",
        str,
        "path",
        "Style of queue URLs. path: /account/queue in the default region; region: /queue/region/account/queue; host and "
        "domain: region in the host name.",
        choices=("region", "host", "domain", "path"),
    ),
    Setting("sqs_region", str, "us-east-1", "Default region for requests that name none."),
    Setting("sqs_account", str, "000000000000", "Default account for requests that name none."),
    Setting(
        "sqs_shared_queues",
        bool,
        default=False,
        meaning="Show all queues to every region and account. Otherwise each sees its own.",
    ),
    Setting("sqs_in_flight", int, 120_000, "Maximum number of messages in flight per queue.", 1),
    Setting(
        "sqs_recreate_seconds",
        float,
        60,
        "Time before the name of a deleted queue can be used again, in seconds.",
        0,
        86_400,
    ),
    Setting(
        "sqs_purge_seconds", float, 60, "Time between two purges of a queue in seconds.", 0, 86_400
    ),
    Setting("max_body_bytes", int, 17_301_504, "Maximum size of a request body in bytes.", 1024),
    Setting("max_long_polls", int, 10_000, "Maximum number of long polls per process.", 1),
    Setting("max_event_streams", int, 1000, "Maximum number of event streams per process.", 1),
    Setting(
        "max_anonymous_event_streams",
        int,
        100,
        "Maximum number of event streams without a key, per process, where keys are required. They "
        "show only that something changed. 0: none.",
        0,
    ),
    Setting(
        "run_gateway",
        bool,
        default=False,
        meaning="Also send the gateway's requests to their targets, as `laneway gateway run` does.",
        short="--gateway",
    ),
    Setting(
        "redis_url",
        str,
        None,
        "URL of a Redis server that caches the gateway's transactions for all processes.",
        secret=True,
    ),
    Setting("shutdown_seconds", float, 20, "Time limit of a shutdown in seconds.", 0, 3600),
)

# Of everything that works directly on a database.
_OF_DATABASES = (
    "database_url",
    "data_dir",
    "database_pooled",
    "database_direct_url",
    "postgres_pool_size",
    "max_priority_levels",
)

# … what commands that use the database need …
DATABASE_SETTINGS = tuple(
    item for item in SETTINGS if item.name in _OF_DATABASES or is_part(item.name)
)

# What commands that use a server need …
SERVER_SETTINGS = (
    Setting(
        "server_url",
        str,
        None,
        "URL of a Laneway server to use instead of a database.",
        short="--url",
    ),
    Setting(
        "api_key",
        str,
        None,
        "API key for the server.",
        secret=True,
        fallback="secret_key",
    ),
)

# What the commands of the gateway need besides a database.
GATEWAY_SETTINGS = tuple(
    item for item in SETTINGS if item.name in {"redis_url", "log_level", "log_format"}
)

# … and what commands need that use either.
CLIENT_SETTINGS = (
    *SERVER_SETTINGS,
    *DATABASE_SETTINGS,
    next(item for item in SETTINGS if item.name == "queue_name"),
)
