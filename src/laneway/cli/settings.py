"""Settings from flags, environment and file: one table names, explains and reads them all.

A setting has one name in three spellings: ACK_TIMEOUT_SECONDS in the environment,
--ack-timeout-seconds as a flag, ack_timeout_seconds in laneway.toml. Flags win over the
environment, the environment over the file, and the file over the defaults. So it is with the choice
between a server, a database and the embedded one, which several settings make together.
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

# Nearest first.
_SOURCES: tuple[Source, ...] = ("flag", "environment", "file", "default")

DEFAULT_FILE = Path("laneway.toml")

_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://[^/\s@?#]+")

# Ports that browsers leave out of an origin.
_DEFAULT_PORTS = {"http": "80", "https": "443"}

_TRUE = {"true", "1", "yes", "on"}
_FALSE = {"false", "0", "no", "off"}
_KINDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
LONGEST = 10 * 365 * 24 * 3600


def _is_part(name: str) -> bool:
    return name.startswith("postgres_") and name != "postgres_pool_size"


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing that can be set; low and high bound a number. short: a second name of its flag."""

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
    Setting("host", str, "127.0.0.1", "The address to listen on; others than loopback need a key."),
    Setting("port", int, 3001, "The port to listen on; 0 takes a free one.", 0, 65535),
    Setting("workers", int, 1, "Processes that share the port.", 1, 256),
    Setting(
        "insecure",
        bool,
        default=False,
        meaning="Listen on any address without a key, and let everybody in while none is in force.",
    ),
    Setting(
        "allowed_hosts",
        str,
        None,
        "Host names, with commas between, that a server without keys answers to beside localhost "
        "and IP addresses; each with its subdomains.",
    ),
    Setting(
        "allowed_origins",
        str,
        "*",
        "Origins of web pages that may call the server, with commas between. *: any page, once a "
        "key is needed; without keys only the server's own pages and those listed.",
    ),
    Setting("secret_key", str, None, "A key that may do everything, as X-API-KEY.", secret=True),
    Setting(
        "queen_encryption_key",
        str,
        None,
        "Key of encrypted queues: 64 hexadecimal digits, 32 bytes.",
        secret=True,
    ),
    Setting(
        "jwt_secret",
        str,
        None,
        "Secret of signed tokens (JWT, HS256): 32 bytes or more. With it, a token or key is needed.",
        secret=True,
    ),
    Setting(
        "jwt_public_key",
        str,
        None,
        "Public key of signed tokens (JWT, RS256 or EdDSA): PEM, or a file with it.",
    ),
    Setting("jwt_issuer", str, None, "Who must have issued a token."),
    Setting("jwt_audience", str, None, "Whom a token must be for."),
    Setting("jwt_roles_claim", str, "role", "Where a token says read-only, read-write or admin."),
    Setting("log_level", str, "info", "The least important lines to log.", choices=LEVELS),
    Setting("data_dir", str, ".laneway", "Where the embedded PostgreSQL lives.", short="--data"),
    Setting(
        "database_url",
        str,
        None,
        "A PostgreSQL server, as a URL; wins over POSTGRES_HOST and so on. None: the embedded one.",
        secret=True,
    ),
    Setting("postgres_host", str, None, "The same in parts: host name or socket directory."),
    Setting("postgres_port", str, None, "Its port (5432)."),
    Setting("postgres_database", str, None, "Its database (postgres)."),
    Setting("postgres_user", str, None, "Its user (postgres)."),
    Setting("postgres_password", str, None, "Its password.", secret=True),
    Setting("postgres_ssl", str, None, "true requires TLS, false forbids it."),
    Setting(
        "database_pooled",
        bool,
        default=False,
        meaning="The database is reached through PgBouncer in transaction mode.",
    ),
    Setting(
        "database_direct_url",
        str,
        None,
        "A URL of the same database past PgBouncer, for LISTEN, maintenance and migrations.",
        secret=True,
    ),
    Setting("postgres_pool_size", int, 10, "Connections per process.", 2, 1000),
    Setting("queue_name", str, "default", "The queue meant when a request names none."),
    Setting(
        "ack_timeout_seconds", float, 30, "How long a lock lasts, for new queues.", 0.001, LONGEST
    ),
    Setting(
        "max_attempts", int, 3, "Deliveries until a message is dead, for new queues.", 1, 32767
    ),
    Setting("requeue_batch_size", int, 100, "Overdue messages put back at once.", 1, 100_000),
    Setting(
        "overdue_check_interval_ms", int, 5000, "How often overdue messages are looked for.", 100
    ),
    Setting("max_priority_levels", int, 10, "Priorities go from 0 to one below this.", 1, 32767),
    Setting("relay_actor", str, "relay-actor", "Who activity says the server is."),
    Setting(
        "manual_operation_actor",
        str,
        "user-manual-operation",
        "Who activity says a person is, and who holds what is moved by hand.",
    ),
    Setting("activity_log_enabled", bool, default=True, meaning="Record activity of new queues."),
    Setting("activity_log_retention_hours", float, 24, "How long activity is kept.", 0, 87_600),
    Setting(
        "activity_flash_message_threshold_ms", int, 500, "Less time in a queue is remarkable.", 0
    ),
    Setting("activity_large_payload_threshold_bytes", int, 5000, "Larger is remarkable.", 0),
    Setting(
        "activity_long_processing_threshold_ms", int, 10_000, "Longer in hand is remarkable.", 0
    ),
    Setting("activity_near_dlq_threshold", int, 1, "So few attempts left are remarkable.", 0),
    Setting(
        "activity_zombie_threshold_multiplier",
        float,
        2.0,
        "Overdue by so many times its lock is remarkable.",
        0,
    ),
    Setting("activity_burst_threshold_count", int, 50, "So many taken by one consumer …", 1),
    Setting("activity_burst_threshold_seconds", float, 5, "… in so long are remarkable.", 0),
    Setting("activity_bulk_operation_threshold", int, 10, "So many at once are remarkable.", 1),
    Setting(
        "sqs_port",
        int,
        None,
        "A second port, for SQS clients that are set to another; 0 takes a free one.",
        0,
        65535,
    ),
    Setting("sqs_host", str, None, "Host and port in queue URLs. None: as the client called us."),
    Setting(
        "sqs_url_style",
        str,
        "path",
        "Queue URLs: /account/queue, /queue/region/account/queue, or the region in the host.",
        choices=("region", "host", "path"),
    ),
    Setting("sqs_region", str, "us-east-1", "The region of callers that name none."),
    Setting("sqs_account", str, "000000000000", "The account of callers that name none."),
    Setting("sqs_in_flight", int, 120_000, "Messages of a queue that may be in flight.", 1),
    Setting("sqs_recreate_seconds", float, 60, "How long a deleted queue's name rests.", 0, 86_400),
    Setting("sqs_purge_seconds", float, 60, "How long a queue rests after a purge.", 0, 86_400),
    Setting("max_body_bytes", int, 16 * 1024 * 1024, "The largest body of a request.", 1024),
    Setting("max_long_polls", int, 10_000, "Consumers that may wait at a time, per process.", 1),
    Setting("max_event_streams", int, 1000, "Event streams at a time, per process.", 1),
    Setting(
        "max_anonymous_event_streams",
        int,
        100,
        "Event streams at a time without a key, per process, where one is needed: they tell only "
        "that something changed. 0: none.",
        0,
    ),
    Setting("shutdown_seconds", float, 20, "How long a stop may take.", 0, 3600),
)

_OF_CONNECTIONS = ("database_pooled", "database_direct_url", "postgres_pool_size")

# What commands read that use the database …
DATABASE_SETTINGS = tuple(
    item
    for item in SETTINGS
    if item.name in {"database_url", "data_dir", *_OF_CONNECTIONS} or _is_part(item.name)
)

# … or a broker, wherever that is.
CLIENT_SETTINGS = (
    Setting(
        "server_url",
        str,
        None,
        "A Laneway server to work at, in place of a database.",
        short="--url",
    ),
    Setting("api_key", str, None, "The server's API key.", secret=True),
    *DATABASE_SETTINGS,
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A setting's value and where it came from."""

    setting: Setting
    value: Value
    source: Source

    @property
    def shown(self) -> str:
        """The value, with what is secret in it hidden."""
        if self.value is None:
            return ""
        if self.setting.name in {"database_url", "database_direct_url"}:
            return hide_password(str(self.value))
        if self.setting.secret:
            return HIDDEN
        return str(self.value).lower() if self.setting.kind is bool else str(self.value)


class Settings:
    """Every setting with its value."""

    def __init__(self, chosen: Mapping[str, Chosen]) -> None:
        self.chosen = chosen

    def __getitem__(self, name: str) -> Any:
        return self.chosen[name].value

    @property
    def data_dir(self) -> Path:
        return Path(self["data_dir"])

    @property
    def allowed_hosts(self) -> tuple[str, ...]:
        wanted = "list host names like mq.example.com, without scheme or port"
        return self._read_list("allowed_hosts", _HOST_NAME, wanted)

    @property
    def allowed_origins(self) -> tuple[str, ...]:
        wanted = "list origins like https://app.example.com:8443, or *"
        listed = self._read_list("allowed_origins", _ORIGIN, wanted)
        return tuple(_drop_default_port(origin) for origin in listed)

    @property
    def server_url(self) -> str | None:
        """The server to work at, None for the database: what comes from nearer; then the server."""
        server = self._rank("server_url")
        database = 0 if self.has_database_flag else self._rank("database_url", *self._parts)
        if self["server_url"] is None or database < server:
            return None
        if server == database == 0:
            raise FlagInvalid("--url", "names a server and another flag a database: give one")
        url = str(self["server_url"])
        if not _is_server(url):
            # Not repeated: it may be a database's, with a password in it.
            raise self._refuse(
                "server_url", "is no URL of a server: it looks like http://host:3001"
            )
        return url

    @property
    def environment(self) -> Environment:
        """The database: the URL or the parts, whichever comes from nearer; then the URL.

        --data-dir asks for the embedded one; in the environment or the file it only says where.
        """
        nearest = self._rank("database_url", *self._parts)
        if self.chosen["data_dir"].source == "flag":
            if nearest == 0:
                raise FlagInvalid("--data-dir", "and another flag name a database each: give one")
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
        """How the database is connected to."""
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
        """Add how PgBouncer is passed; the embedded database has none before it."""
        direct = self["database_direct_url"]
        if not (direct or self["database_pooled"]):
            return environment
        if environment.database_url is None:
            name = "database_direct_url" if direct else "database_pooled"
            raise self._refuse(name, "is set, and no database is: set DATABASE_URL")
        fault = None if direct is None else find_fault(direct)
        if fault is not None:
            raise self._refuse("database_direct_url", f"cannot be used: {fault}")
        return replace(environment, pooled=True, direct_url=direct)

    def _read_list(self, name: str, form: re.Pattern[str], wanted: str) -> tuple[str, ...]:
        items = tuple(filter(None, (item.strip() for item in (self[name] or "").split(","))))
        items = tuple(item.removesuffix("/").lower() for item in items)
        for item in items:
            if not form.fullmatch(item):
                raise self._refuse(name, f"has {item!r}: {wanted}")
        return items

    def _rank(self, *names: str) -> int:
        """Return how near the nearest of them comes from; a flag is 0."""
        return min(_SOURCES.index(self.chosen[name].source) for name in names)

    def _refuse(self, name: str, problem: str) -> SettingInvalid:
        chosen = self.chosen[name]
        if chosen.source == "flag":
            return FlagInvalid(chosen.setting.short or chosen.setting.flag, problem)
        if chosen.source == "environment":
            return SettingInvalid(f"the environment variable {chosen.setting.variable}", problem)
        return SettingInvalid(f"{name} in the file of settings", problem)


def _drop_default_port(origin: str) -> str:
    """Write an origin as browsers send it."""
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
    """Return every setting; a file that is named must be there, laneway.toml need not."""
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
            where = f"the environment variable {setting.variable}"
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
        raise SettingInvalid(str(path), f"has settings that do not exist: {', '.join(unknown)}")
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
    if type(value) is not setting.kind or value != value:  # noqa: PLR0124 - NaN is no number
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
        # A port that cannot be raises here.
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
