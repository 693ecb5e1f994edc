"""Settings from flags, environment variables and the settings file, in one table.

A setting has one name in three spellings: ACK_TIMEOUT_SECONDS in the environment,
--ack-timeout-seconds as a flag, ack_timeout_seconds in laneway.toml. Flags take precedence over the
environment, the environment over the file, and the file over the defaults. The same precedence
decides between a server, a database and the bundled PostgreSQL, which several settings name.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from laneway.cli.environment import read_environment
from laneway.cli.errors import FlagInvalid, SettingInvalid
from laneway.domain.dsn import HIDDEN, find_fault, hide_password
from laneway.domain.escapes import escape
from laneway.domain.settings import ConnectionSettings
from laneway.server.logs import LEVELS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laneway.cli.environment import Environment

Value: TypeAlias = str | int | float | bool | None
Source: TypeAlias = Literal["flag", "environment", "file", "default"]

# Highest precedence first.
_SOURCES: tuple[Source, ...] = ("flag", "environment", "file", "default")

DEFAULT_FILE = Path("laneway.toml")

_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://[^/\s@?#]+")

# Ports that browsers leave out of an origin.
_DEFAULT_PORTS = {"http": "80", "https": "443"}

_TRUE = {"true", "1", "yes", "on"}
_FALSE = {"false", "0", "no", "off"}
_KINDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}
LONGEST = 10 * 365 * 24 * 3600


def _is_part(name: str) -> bool:
    return name.startswith("postgres_") and name != "postgres_pool_size"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. low, high: limits of a number. short: a second name of its flag."""

    name: str
    kind: type[str | int | float | bool]
    default: Value
    meaning: str
    low: float | None = None
    high: float = 10**12
    choices: tuple[str, ...] | None = None
    secret: bool = False
    short: str | None = None

    @property
    def variable(self) -> str:
        return self.name.upper()

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
    Setting("queue_name", str, "default", "Queue of requests that name none."),
    Setting(
        "ack_timeout_seconds", float, 30, "Lease duration of new queues in seconds.", 0.001, LONGEST
    ),
    Setting(
        "max_attempts",
        int,
        3,
        "Attempts before a message is dead-lettered, for new queues.",
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
    Setting("max_priority_levels", int, 10, "Number of priority levels, counted from 0.", 1, 32767),
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
        "Style of queue URLs. path: /account/queue; region: /queue/region/account/queue; host: region"
        " in the host name.",
        choices=("region", "host", "path"),
    ),
    Setting("sqs_region", str, "us-east-1", "Region of requests that name none."),
    Setting("sqs_account", str, "000000000000", "Account of requests that name none."),
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
    Setting(
        "max_body_bytes", int, 16 * 1024 * 1024, "Maximum size of a request body in bytes.", 1024
    ),
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
    Setting("shutdown_seconds", float, 20, "Time limit of a shutdown in seconds.", 0, 3600),
)

_OF_CONNECTIONS = ("database_pooled", "database_direct_url", "postgres_pool_size")

# The settings of commands that use the database …
DATABASE_SETTINGS = tuple(
    item
    for item in SETTINGS
    if item.name in {"database_url", "data_dir", *_OF_CONNECTIONS} or _is_part(item.name)
)

# … and of commands that use a server or the database.
CLIENT_SETTINGS = (
    Setting(
        "server_url",
        str,
        None,
        "URL of a Laneway server to use instead of a database.",
        short="--url",
    ),
    Setting("api_key", str, None, "API key for the server.", secret=True),
    *DATABASE_SETTINGS,
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A setting's value and its source."""

    setting: Setting
    value: Value
    source: Source

    @property
    def shown(self) -> str:
        """The value as text, with secrets hidden."""
        if self.value is None:
            return ""
        if self.setting.name in {"database_url", "database_direct_url"}:
            return hide_password(str(self.value))
        if self.setting.secret:
            return HIDDEN
        return str(self.value).lower() if self.setting.kind is bool else str(self.value)


class Settings:
    """The settings with their values."""

    def __init__(self, chosen: Mapping[str, Chosen]) -> None:
        self.chosen = chosen

    def __getitem__(self, name: str) -> Any:
        return self.chosen[name].value

    @property
    def data_dir(self) -> Path:
        return Path(self["data_dir"])

    @property
    def allowed_hosts(self) -> tuple[str, ...]:
        wanted = "use host names such as mq.example.com, without scheme or port"
        return self._read_list("allowed_hosts", _HOST_NAME, wanted)

    @property
    def allowed_origins(self) -> tuple[str, ...]:
        wanted = "use origins such as https://app.example.com:8443, or *"
        listed = self._read_list("allowed_origins", _ORIGIN, wanted)
        return tuple(_drop_default_port(origin) for origin in listed)

    @property
    def server_url(self) -> str | None:
        """The server to use; None if the database's settings have higher precedence."""
        server = self._rank("server_url")
        database = 0 if self.has_database_flag else self._rank("database_url", *self._parts)
        if self["server_url"] is None or database < server:
            return None
        if server == database == 0:
            raise FlagInvalid(
                "--url", "contradicts the flag that names a database: use one of them"
            )
        url = str(self["server_url"])
        if not _is_server(url):
            # The value is not repeated: it may be a database's URL with a password.
            raise self._refuse(
                "server_url", "is not a server's URL: use one such as http://host:3001"
            )
        return url

    @property
    def environment(self) -> Environment:
        """The database: the URL or the parts, whichever has higher precedence, else the URL.

        The flag --data-dir selects the bundled PostgreSQL; elsewhere data_dir only sets its directory.
        """
        nearest = self._rank("database_url", *self._parts)
        if self.chosen["data_dir"].source == "flag":
            if nearest == 0:
                raise FlagInvalid(
                    "--data-dir",
                    "contradicts the flag that names another database: use one of them",
                )
            return read_environment({})
        near = {name.upper(): str(self[name]) for name in self._parts if self[name] is not None}
        url = self["database_url"]
        if url is not None and self._rank("database_url") == nearest:
            fault = find_fault(url)
            if fault is not None:
                raise self._refuse("database_url", f"cannot be used: {fault}")
            near["DATABASE_URL"] = url
        return self._add_pooler(read_environment(near))

    @property
    def connections(self) -> ConnectionSettings:
        """The settings of database connections."""
        environment = self.environment
        return ConnectionSettings(
            size=self["postgres_pool_size"],
            through_pooler=environment.pooled,
            direct_dsn=environment.direct_url,
        )

    @property
    def has_database_flag(self) -> bool:
        return self._rank("database_url", "data_dir", *self._parts) == 0

    @property
    def _parts(self) -> list[str]:
        return [name for name in self.chosen if _is_part(name)]

    def _add_pooler(self, environment: Environment) -> Environment:
        """Add the settings of PgBouncer, which the bundled PostgreSQL does not have."""
        direct = self["database_direct_url"]
        if not (direct or self["database_pooled"]):
            return environment
        if environment.database_url is None:
            name = "database_direct_url" if direct else "database_pooled"
            raise self._refuse(name, "is set without a database: set DATABASE_URL too")
        fault = None if direct is None else find_fault(direct)
        if fault is not None:
            raise self._refuse("database_direct_url", f"cannot be used: {fault}")
        return replace(environment, pooled=True, direct_url=direct)

    def _read_list(self, name: str, form: re.Pattern[str], wanted: str) -> tuple[str, ...]:
        items = tuple(filter(None, (item.strip() for item in (self[name] or "").split(","))))
        items = tuple(item.removesuffix("/").lower() for item in items)
        for item in items:
            if not form.fullmatch(item):
                raise self._refuse(name, f"contains {item!r}: {wanted}")
        return items

    def _rank(self, *names: str) -> int:
        """Return the highest precedence of these settings' sources; 0 is a flag."""
        return min(_SOURCES.index(self.chosen[name].source) for name in names)

    def _refuse(self, name: str, problem: str) -> SettingInvalid:
        chosen = self.chosen[name]
        if chosen.source == "flag":
            return FlagInvalid(chosen.setting.short or chosen.setting.flag, problem)
        if chosen.source == "environment":
            return SettingInvalid(f"environment variable {chosen.setting.variable}", problem)
        return SettingInvalid(f"{name} in the settings file", problem)


def _drop_default_port(origin: str) -> str:
    """Return an origin as browsers send it."""
    scheme, _, place = origin.partition("://")
    host, _, port = place.rpartition(":")
    if host and port.isascii() and port.isdecimal():
        number = port.lstrip("0")
        return f"{scheme}://{host}" if number == _DEFAULT_PORTS.get(scheme) else origin
    return origin


def read_settings(
    flags: Mapping[str, Value],
    variables: Mapping[str, str],
    file: Path | None = None,
    *,
    wanted: Sequence[Setting] = SETTINGS,
) -> Settings:
    """Read the wanted settings from all sources. A file that is named must exist."""
    table = _read_file(file)
    chosen = {}
    for setting in wanted:
        flag = flags.get(setting.name)
        text = variables.get(setting.variable)
        if flag is not None:
            try:
                value, source = _check(setting, flag, setting.flag), "flag"
            except SettingInvalid as error:
                raise FlagInvalid(error.where, error.problem) from error
        elif text:
            where = f"environment variable {setting.variable}"
            value, source = _check(setting, _parse(setting, text, where), where), "environment"
        elif setting.name in table:
            where = f"{setting.name} in {file or DEFAULT_FILE}"
            value, source = _check(setting, table[setting.name], where), "file"
        else:
            value, source = setting.default, "default"
        chosen[setting.name] = Chosen(setting, value, source)  # type: ignore[arg-type]
    return Settings(chosen)


def show_settings(settings: Settings) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("setting", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("from", overflow="fold")
    for chosen in settings.chosen.values():
        table.add_row(chosen.setting.name, Text(escape(chosen.shown)), chosen.source)
    Console().print(table)


def _read_file(file: Path | None) -> Mapping[str, Any]:
    path = file or DEFAULT_FILE
    if file is None and not path.exists():
        return {}
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SettingInvalid(str(path), f"cannot be read: {error}") from error
    unknown = sorted(set(table) - {item.name for item in (*SETTINGS, *CLIENT_SETTINGS)})
    if unknown:
        raise SettingInvalid(str(path), f"contains unknown settings: {', '.join(unknown)}")
    return table


def _parse(setting: Setting, text: str, where: str) -> Value:
    if setting.kind is str:
        return text
    if setting.kind is bool:
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise SettingInvalid(where, f"is {text!r}: set {_KINDS[bool]}")
    try:
        return setting.kind(text)
    except ValueError:
        raise SettingInvalid(where, f"is {text!r}: set {_KINDS[setting.kind]}") from None


def _check(setting: Setting, value: Any, where: str) -> Value:
    if setting.kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if setting.kind is str and isinstance(value, int | float | bool):
        value = str(value).lower()
    if type(value) is not setting.kind or value != value:  # noqa: PLR0124 - NaN differs from itself
        shown = HIDDEN if setting.secret else repr(value)
        raise SettingInvalid(where, f"is {shown}: set {_KINDS[setting.kind]}")
    if setting.choices is not None:
        value = str(value).lower()
        if value not in setting.choices:
            raise SettingInvalid(where, f"is {value!r}: set one of {', '.join(setting.choices)}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if setting.low is not None and value < setting.low:
            raise SettingInvalid(where, f"is {value}: set {setting.low:g} or more")
        if value > setting.high:
            raise SettingInvalid(where, f"is {value}: set {setting.high:.0f} or less")
    checked: Value = value
    return checked


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # An invalid port raises here.
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
