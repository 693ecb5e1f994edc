"""The tables [gateway] and [gateway.targets.NAME] of laneway.toml."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import InvalidSetting
from laneway.gateway.settings import GatewaySettings
from laneway.gateway.targets import BreakerRule, Callback, Redelivery, RetrySchedule, Target

if TYPE_CHECKING:
    from laneway.cli.errors import SettingInvalid
    from laneway.cli.settings import Settings
    from laneway.cli.settings_file import SettingsFile

# A name is a part of URLs, of a queue's partitions, and of metrics.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
# Methods and names of headers, and values of headers.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
# Names that are types of requests of another kind of target, or other routes.
_TAKEN = frozenset({"direct", "gasless", "status", "transactions", "pool-status"})
_LONGEST = 24 * 3600
_MOST_ATTEMPTS = 100


def make_gateway_settings(settings: Settings) -> GatewaySettings:
    """Return the gateway's settings, with the secrets of its targets."""
    file = settings.file
    table = file.get_table("gateway")
    default = GatewaySettings()
    targets = [make_target(file, name) for name in file.get_table("gateway", "targets")]
    made = GatewaySettings(
        targets=tuple(targets),
        private_networks=tuple(table.get("private_networks", [])),
        redis_url=settings["redis_url"],
        retention=timedelta(days=table.get("retention_days", default.retention.days)),
        idempotency_keys=timedelta(hours=table.get("idempotency_hours", 24.0)),
        concurrency=table.get("concurrency", default.concurrency),
        shutdown=timedelta(seconds=table.get("shutdown_seconds", default.shutdown.total_seconds())),
    )
    for name in ("retention_days", "idempotency_hours", "concurrency", "shutdown_seconds"):
        if name in table and table[name] <= 0:
            raise file.refuse("gateway", name, problem=f"is {table[name]}: it must be positive")
    if targets:
        _check_targets(file, made)
    return made


def make_target(file: SettingsFile, name: str) -> Target:
    """Return a target of the file. Raise SettingInvalid if something about it is wrong."""
    table = _TargetTable(file, name)
    if not _NAME.fullmatch(name) or name in _TAKEN:
        raise table.refuse(
            problem="is not the name of a target: use a-z, 0-9, hyphen and underscore, and none of"
            f" {', '.join(sorted(_TAKEN))}"
        )
    given = table.values
    urls = (*([given["url"]] if "url" in given else []), *given.get("urls", []))
    if not urls:
        raise table.refuse(problem="has no url")
    try:
        redelivery = Redelivery(given.get("redelivery", Redelivery.AT_MOST_ONCE))
    except ValueError:
        raise table.refuse(
            "redelivery",
            problem=f"is {given['redelivery']}: use {' or '.join(Redelivery)}",
        ) from None
    callback = Callback(
        url=given.get("callback_url"),
        allowed=tuple(given.get("callback_allowed", [])),
        secrets=table.read_secrets("callback_secrets"),
    )
    used = callback.url is not None or callback.allowed
    if used and not callback.secrets:
        raise table.refuse(
            "callback_secrets",
            problem="is missing: webhooks are signed. Make a secret with: openssl rand -base64 32",
        )
    options: dict[str, Any] = {
        key: table.read_secret("options", text) for key, text in given.get("options", {}).items()
    }
    if given.get("statuses"):
        options["statuses"] = given["statuses"]
    return Target(
        name=name,
        kind=given.get("kind", "http"),
        urls=urls,
        method=table.read_method("POST"),
        headers=table.read_headers(),
        timeout=table.read_seconds("timeout_seconds", timedelta(seconds=30)),
        redelivery=redelivery,
        permanent_statuses=frozenset(given.get("permanent_statuses", [])),
        permanent_texts=tuple(given.get("permanent_texts", [])),
        retry=table.read_retry(),
        concurrency=table.read_count("concurrency", None),
        rate=table.read_rate("rate"),
        breaker=table.read_breaker(),
        webhook_secrets=table.read_secrets("webhook_secrets"),
        private_networks=tuple(given.get("private_networks", [])),
        callback=callback if used else None,
        options=options,
    )


def read_retry(file: SettingsFile, name: str) -> RetrySchedule:
    """Return the retry schedule of a target, also of one that is not configured; no secret is read."""
    return _TargetTable(file, name).read_retry()


def read_breaker(file: SettingsFile, name: str) -> BreakerRule:
    """Return the breaker's rule of a target, as `read_retry` does."""
    return _TargetTable(file, name).read_breaker()


class _TargetTable:
    """The table of one target, and how its values are read."""

    def __init__(self, file: SettingsFile, name: str) -> None:
        self._file = file
        self._name = name
        self.values: Mapping[str, Any] = file.get_table("gateway", "targets", name)

    def refuse(self, *key: str, problem: str) -> SettingInvalid:
        return self._file.refuse("gateway", "targets", self._name, *key, problem=problem)

    def read_retry(self) -> RetrySchedule:
        default = RetrySchedule()
        return RetrySchedule(
            attempts=self.read_count("attempts", default.attempts, most=_MOST_ATTEMPTS),
            first=self.read_seconds("retry_first_seconds", default.first),
            factor=self.read_factor("retry_factor", default.factor),
            cap=self.read_seconds("retry_cap_seconds", default.cap),
        )

    def read_breaker(self) -> BreakerRule:
        default = BreakerRule()
        return BreakerRule(
            failures=self.read_count("breaker_failures", default.failures),
            open_for=self.read_seconds("breaker_seconds", default.open_for),
        )

    def read_seconds(self, key: str, default: timedelta) -> timedelta:
        seconds = self.values.get(key, default.total_seconds())
        if not 0 < seconds <= _LONGEST:
            raise self.refuse(key, problem=f"is {seconds:g}: set more than 0, at most {_LONGEST}")
        return timedelta(seconds=seconds)

    def read_count(self, key: str, default: Any, *, most: int = 10_000) -> Any:
        count = self.values.get(key, default)
        if count is not None and not 1 <= count <= most:
            raise self.refuse(key, problem=f"is {count}: set 1 to {most}")
        return count

    def read_factor(self, key: str, default: float) -> float:
        factor: float = self.values.get(key, default)
        if not 1 <= factor <= 100:  # noqa: PLR2004 - the limits that the error names
            raise self.refuse(key, problem=f"is {factor:g}: set 1 to 100")
        return factor

    def read_rate(self, key: str) -> float | None:
        rate: float | None = self.values.get(key)
        if rate is not None and not 0 < rate <= 100_000:  # noqa: PLR2004 - as above
            raise self.refuse(key, problem=f"is {rate:g}: set more than 0, at most 100000")
        return rate

    def read_method(self, default: str) -> str:
        method: str = self.values.get("method", default)
        if not _TOKEN.fullmatch(method):
            raise self.refuse("method", problem=f"is {method!r}: set one such as POST")
        return method

    def read_headers(self) -> tuple[tuple[str, str], ...]:
        headers = []
        for name, text in self.values.get("headers", {}).items():
            value = self.read_secret("headers", text)
            if not _TOKEN.fullmatch(name) or not _HEADER.fullmatch(value):
                raise self.refuse(
                    "headers", problem=f"has {name!r}: its name or value is not that of a header"
                )
            headers.append((name.lower(), value))
        return tuple(headers)

    def read_secrets(self, key: str) -> tuple[str, ...]:
        return tuple(self.read_secret(key, text) for text in self.values.get(key, []))

    def read_secret(self, key: str, text: str) -> str:
        """Return the text, or what it names: env:NAME, a variable; file:PATH, a file."""
        source, found, place = text.partition(":")
        if not found or source not in {"env", "file"}:
            return text
        if source == "env":
            value = os.environ.get(place)
            if value is None:
                raise self.refuse(key, problem=f"names the variable {place}, which is not set")
            return value
        try:
            return Path(place).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise self.refuse(key, problem=f"names a file that cannot be read: {error}") from None


def _check_targets(file: SettingsFile, settings: GatewaySettings) -> None:
    """Refuse what only the targets themselves can find wrong."""
    from laneway.gateway.gateway import check_settings

    try:
        check_settings(settings)
    except InvalidSetting as error:
        raise file.refuse("gateway", problem=f"cannot be used: {error}") from error
