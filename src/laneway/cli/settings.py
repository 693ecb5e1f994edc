"""The settings of a command, with where each value came from.

Sources in order of precedence: flags, the environment, .env, laneway.toml, the defaults. The same
precedence decides between a server, a database and the bundled PostgreSQL, which several settings
name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from laneway.cli.database_url import Environment, PartInvalid, join_parts
from laneway.cli.errors import FlagInvalid, SettingInvalid
from laneway.cli.known_settings import is_part
from laneway.domain.dsn import HIDDEN, find_fault, hide_password
from laneway.domain.settings import ConnectionSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laneway.cli.known_settings import Setting, Value
    from laneway.cli.output import Output
    from laneway.cli.settings_file import SettingsFile

Source: TypeAlias = Literal["flag", "environment", ".env", "file", "default"]

# Highest precedence first.
_SOURCES: tuple[Source, ...] = ("flag", "environment", ".env", "file", "default")

_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_REGION = re.compile(r"[a-z0-9_-]{1,63}")
_ACCOUNT = re.compile(r"[0-9]{12}")
_ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://[^/\s@?#]+")

# Ports that browsers leave out of an origin.
_DEFAULT_PORTS = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True)
class Chosen:
    """A setting's value and its source. where: the source as errors and `laneway config` name it."""

    setting: Setting
    value: Value
    source: Source
    where: str

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
    """The settings with their values, and the settings file, which has tables besides."""

    def __init__(self, chosen: Mapping[str, Chosen], file: SettingsFile) -> None:
        self.chosen = chosen
        self.file = file

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
    def sqs_region(self) -> str:
        wanted = "use one such as us-east-1, up to 63 of a-z, 0-9, hyphen and underscore"
        return self._read_form("sqs_region", _REGION, wanted)

    @property
    def sqs_account(self) -> str:
        return self._read_form("sqs_account", _ACCOUNT, "use twelve digits such as 000000000000")

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
                "server_url",
                "is not a server's URL: use one such as http://host:3001. Name a database with --database-url",
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
            return Environment()
        url = self["database_url"]
        if url is not None and self._rank("database_url") == nearest:
            fault = find_fault(url)
            if fault is not None:
                raise self._refuse("database_url", f"cannot be used: {fault}")
        else:
            url = self._join_parts()
        return self._add_pooler(Environment(url))

    @property
    def database(self) -> str:
        """The database as people read it, without its password, and what configures it."""
        url = self.environment.database_url
        if url is None:
            return f"bundled PostgreSQL in {self.data_dir.absolute()}"
        names = ("database_url", *self._parts)
        nearest = min(names, key=self._rank)
        return f"{hide_password(url)} ({self.chosen[nearest].where})"

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
    def has_place_flag(self) -> bool:
        """Whether a flag names a server or a database."""
        return self.has_database_flag or self._rank("server_url") == 0

    @property
    def _parts(self) -> list[str]:
        return [name for name in self.chosen if is_part(name)]

    def _join_parts(self) -> str | None:
        parts = {name: str(self[name]) for name in self._parts if self[name]}
        try:
            return join_parts(parts) if parts else None
        except PartInvalid as error:
            raise self._refuse(error.name, error.problem) from error

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

    def _read_form(self, name: str, form: re.Pattern[str], wanted: str) -> str:
        value: str = self[name]
        if not form.fullmatch(value):
            raise self._refuse(name, f"is {value!r}: {wanted}")
        return value

    def _rank(self, *names: str) -> int:
        """Return the highest precedence of these settings' sources; 0 is a flag."""
        return min(_SOURCES.index(self.chosen[name].source) for name in names)

    def _refuse(self, name: str, problem: str) -> SettingInvalid:
        chosen = self.chosen[name]
        if chosen.source == "flag":
            return FlagInvalid(chosen.setting.short or chosen.setting.flag, problem)
        return SettingInvalid(chosen.where, problem)


def _drop_default_port(origin: str) -> str:
    """Return an origin as browsers send it."""
    scheme, _, place = origin.partition("://")
    host, _, port = place.rpartition(":")
    if host and port.isascii() and port.isdecimal():
        number = port.lstrip("0")
        return f"{scheme}://{host}" if number == _DEFAULT_PORTS.get(scheme) else origin
    return origin


def show_settings(settings: Settings, output: Output) -> None:
    rows = [
        {"setting": name, "value": chosen.shown, "from": chosen.where}
        for name, chosen in settings.chosen.items()
    ]
    rows += [
        {"setting": path, "value": value, "from": where}
        for path, value, where in settings.file.list_keys()
    ]
    output.rows(rows, ("setting", "value", "from"))


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # An invalid port raises here.
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
