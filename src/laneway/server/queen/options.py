"""Queue options of the streams protocol, and the broker's settings that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from laneway.domain.settings import QueueSettings
from laneway.server.queen.wire import LONGEST

if TYPE_CHECKING:
    from laneway.domain.queues import Queue
    from laneway.domain.settings import QueueChanges

# The streams protocol's section of a queue's options.
SECTION = "queen"

Stored: TypeAlias = Mapping[str, Any]
_Seconds = Annotated[float, Meta(ge=0, le=LONGEST)]
_Count = Annotated[int, Meta(ge=0, le=2**53)]

# A transaction id pushed again within this time is a duplicate.
DEDUP_WINDOW = timedelta(minutes=10)


class Options(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Options of a queue. Options that are not named, or are null, keep their values."""

    lease_time: Annotated[
        Annotated[float, Meta(gt=0, le=LONGEST)] | UnsetType | None,
        Meta(description="Lease duration in seconds, at most ten years. Default: 300."),
    ] = UNSET
    retry_limit: Annotated[
        Annotated[int, Meta(ge=0, le=32_766)] | UnsetType | None,
        Meta(
            description="Deliveries after the first before a message becomes a dead letter, 0 to 32,766. "
            "Default: 3."
        ),
    ] = UNSET
    retry_delay: Annotated[
        Annotated[float, Meta(ge=0, le=LONGEST * 1000)] | UnsetType | None,
        Meta(
            description="Milliseconds before a nacked message is delivered again; its partition pauses. "
            "Default: 1000."
        ),
    ] = UNSET
    max_size: Annotated[
        _Count | UnsetType | None,
        Meta(
            description="How many messages the slowest group may have unfinished. Pushes beyond it fail. "
            "Default: 0, no limit."
        ),
    ] = UNSET
    ttl: Annotated[
        _Seconds | UnsetType | None,
        Meta(
            description="Seconds after which messages that were not popped are removed. Default: 0, "
            "never."
        ),
    ] = UNSET
    priority: Annotated[
        Annotated[int, Meta(ge=-32_768, le=32_767)] | UnsetType | None,
        Meta(
            description="Which queue of a namespace or task is popped first: higher numbers first. "
            "Default: 0."
        ),
    ] = UNSET
    delayed_processing: Annotated[
        _Seconds | UnsetType | None,
        Meta(description="Seconds before a pushed message is delivered. Default: 0."),
    ] = UNSET
    window_buffer: Annotated[
        _Seconds | UnsetType | None,
        Meta(
            description="Seconds without a push before a partition is delivered to ordered groups. "
            "Default: 0."
        ),
    ] = UNSET
    retention_seconds: Annotated[
        _Seconds | UnsetType | None,
        Meta(
            description="Seconds after which messages are removed, popped or not, with "
            "`retentionEnabled`. Default: 0, never."
        ),
    ] = UNSET
    completed_retention_seconds: Annotated[
        _Seconds | UnsetType | None,
        Meta(
            description="Seconds after which settled messages are removed, with `retentionEnabled`. "
            "Default: 0, the retention of the log."
        ),
    ] = UNSET
    retention_enabled: Annotated[
        bool | UnsetType | None,
        Meta(
            description="Whether `retentionSeconds` and `completedRetentionSeconds` apply. Default: "
            "false."
        ),
    ] = UNSET
    encryption_enabled: Annotated[
        bool | UnsetType | None,
        Meta(
            description="Whether payloads are stored encrypted. The server needs an encryption key. "
            "Default: false."
        ),
    ] = UNSET
    max_wait_time_seconds: Annotated[
        _Seconds | UnsetType | None,
        Meta(
            description="Seconds after which a waiting message becomes a dead letter. Default: 0, never."
        ),
    ] = UNSET
    dead_letter_queue: Annotated[
        bool | UnsetType | None,
        Meta(
            description="Whether dead letters are kept; otherwise they are dropped. Default: true."
        ),
    ] = UNSET
    dlq_after_max_retries: Annotated[
        bool | UnsetType | None,
        Meta(
            description="Whether a message becomes a dead letter after `retryLimit` retries; otherwise it "
            "is retried without limit. Default: true."
        ),
    ] = UNSET
    max_bytes: Annotated[
        Annotated[int, Meta(ge=1, le=2**31 - 1)] | UnsetType | None,
        Meta(
            description="Maximum size of a payload in bytes, as stored. Larger ones are refused. Default: "
            "16777216 (16 MiB)."
        ),
    ] = UNSET
    ack_mode: Annotated[
        Literal["commit", "individual"] | UnsetType | None,
        Meta(
            description="What an ack of an ordered group settles. `commit`: the message and all messages "
            "before it in its lease and partition. `individual`: the message. Default: `commit`."
        ),
    ] = UNSET
    dedup_window_seconds: Annotated[
        Annotated[float, Meta(gt=0, le=LONGEST)] | UnsetType | None,
        Meta(
            description="Seconds for which a repeated transaction id is a duplicate. Default: 600."
        ),
    ] = UNSET


DEFAULTS: Stored = {
    "leaseTime": 300,
    "retryLimit": 3,
    "retryDelay": 1000,
    "maxSize": 0,
    "ttl": 0,
    "priority": 0,
    "delayedProcessing": 0,
    "windowBuffer": 0,
    "retentionSeconds": 0,
    "completedRetentionSeconds": 0,
    "retentionEnabled": False,
    "encryptionEnabled": False,
    "maxWaitTimeSeconds": 0,
    "deadLetterQueue": True,
    "dlqAfterMaxRetries": True,
    "maxBytes": QueueSettings().max_bytes,
    "ackMode": "commit",
    "dedupWindowSeconds": DEDUP_WINDOW.total_seconds(),
}

# The broker's settings that each option affects. The scope of dedup keys is not among them: it is
# fixed when a queue is created.
_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "leaseTime": ("lease",),
    "retryLimit": ("max_attempts",),
    "retryDelay": ("backoff", "backoff_factor", "backoff_limit", "expiry_backoff"),
    "maxSize": ("max_messages",),
    "ttl": ("message_ttl",),
    "delayedProcessing": ("delay",),
    "windowBuffer": ("rest_window",),
    "retentionSeconds": ("message_ttl", "retention"),
    "completedRetentionSeconds": ("retention",),
    "retentionEnabled": ("message_ttl", "retention"),
    "encryptionEnabled": ("encrypted",),
    "maxWaitTimeSeconds": ("dead_letter_after",),
    "deadLetterQueue": ("max_attempts", "keep_dead_letters"),
    "dlqAfterMaxRetries": ("max_attempts",),
    "maxBytes": ("max_bytes",),
    "ackMode": ("individual_acks",),
    "dedupWindowSeconds": ("dedup_window",),
}


# Options that an API key with the role `write` may change on an existing queue: the priority only
# decides which queue comes first. Every other option can remove or hide messages that others
# pushed, or use up their attempts, as a lease too short for any consumer does. Those require
# `admin`.
HARMLESS = frozenset({"priority"})


def read_stored(queue: Queue) -> Stored:
    """Return the options, namespace and task that the queue was configured with."""
    stored: Stored = queue.settings.options.get(SECTION, {})
    return stored


def merge_options(stored: Stored, options: Options) -> dict[str, Any]:
    """Return the stored options with the named ones replaced."""
    named = {
        name: value for name, value in msgspec.to_builtins(options).items() if value is not None
    }
    return {**stored, **{name: _tidy(value) for name, value in named.items()}}


def name_parts(name: str) -> dict[str, str]:
    """Return the namespace and task of a queue name `namespace.task`."""
    namespace, dot, task = name.partition(".")
    return {"namespace": namespace, "task": task} if dot and namespace and task else {}


def make_settings(stored: Stored, *, record_events: bool) -> QueueSettings:
    """Return the settings of a new queue; a stream's queue is ordered."""
    options = {SECTION: dict(stored)}
    return replace(
        QueueSettings(ordered=True, record_events=record_events, options=options),
        **derive(stored),
    )


def derive(stored: Stored) -> QueueChanges:
    """Return the broker's settings that the options stand for."""
    values = {**DEFAULTS, **stored}
    retries = values["retryLimit"] + 1
    endless = values["deadLetterQueue"] and not values["dlqAfterMaxRetries"]
    enabled = values["retentionEnabled"]
    kept = values["retentionSeconds"] if enabled else 0
    completed = values["completedRetentionSeconds"] if enabled else 0
    return {
        "lease": timedelta(seconds=values["leaseTime"]),
        "max_attempts": None if endless else retries,
        "backoff": timedelta(milliseconds=values["retryDelay"]),
        "backoff_factor": 1.0,
        "backoff_limit": timedelta(milliseconds=max(values["retryDelay"], 0)),
        "expiry_backoff": False,
        "delay": _seconds(values["delayedProcessing"]),
        "dedup_window": timedelta(seconds=values["dedupWindowSeconds"]),
        "dedup_scope": "partition",
        "message_ttl": _least(values["ttl"], kept),
        "retention": _least(completed, kept),
        "max_messages": values["maxSize"] or None,
        "rest_window": _seconds(values["windowBuffer"]),
        "dead_letter_after": _seconds(values["maxWaitTimeSeconds"]),
        "keep_dead_letters": values["deadLetterQueue"],
        "encrypted": values["encryptionEnabled"],
        "default_group_optional": True,
        "max_bytes": values["maxBytes"],
        "individual_acks": values["ackMode"] == "individual",
    }


def plan_change(queue: Queue, named: Stored) -> tuple[QueueChanges, Stored]:
    """Return the settings that the named options change, and the options to store.

    Options set over another protocol are stored as if they had been named here. Naming an option
    with its present value changes no setting.
    """
    stored = read_stored(queue)
    known = {**DEFAULTS, **stored}
    shown = show_options(queue)
    elsewhere = {name: value for name, value in shown.items() if value != known[name]}
    options = {**elsewhere, **named}
    changed = [name for name, value in named.items() if value != shown.get(name)]
    touched = {setting for name in changed for setting in _SETTINGS.get(name, ())}
    touched.add("default_group_optional")
    meant = derive({**stored, **options})
    changes = {name: value for name, value in meant.items() if name in touched}
    return cast("QueueChanges", changes), options


def find_guarded(queue: Queue, named: Stored) -> list[str]:
    """Return the named options whose change requires the role `admin`.

    A namespace or task may be set if there is none yet: no consumer uses another.
    """
    shown = show_options(queue)
    stored = read_stored(queue)
    return sorted(
        name
        for name, value in named.items()
        if name not in HARMLESS
        and (value != shown[name] if name in shown else stored.get(name, value) != value)
    )


def show_options(queue: Queue) -> dict[str, Any]:
    """Return every option with its value: as configured, or as set elsewhere since."""
    stored = read_stored(queue)
    values = {name: stored.get(name, default) for name, default in DEFAULTS.items()}
    settings = queue.settings
    meant: Mapping[str, object] = derive(stored)
    if settings.max_attempts != meant["max_attempts"]:
        values["dlqAfterMaxRetries"] = settings.max_attempts is not None
        if settings.max_attempts is not None:
            values["retryLimit"] = settings.max_attempts - 1
    for option, (setting, show) in _SHOWN.items():
        value = getattr(settings, setting)
        if value != meant[setting]:
            values[option] = show(value)
    if (settings.message_ttl, settings.retention) != (meant["message_ttl"], meant["retention"]):
        values["ttl"] = _show(settings.message_ttl)
        values["retentionSeconds"] = 0
        values["completedRetentionSeconds"] = _show(settings.retention)
        values["retentionEnabled"] = settings.retention is not None
    return values


def _least(*seconds: float) -> timedelta | None:
    """Return the shortest of the times that are set."""
    given = [value for value in seconds if value]
    return timedelta(seconds=min(given)) if given else None


def _seconds(value: float) -> timedelta | None:
    """Return a duration, or None if it is below the database's resolution."""
    return timedelta(seconds=value) or None


def _tidy(value: Any) -> Any:
    """Return a whole number as an int."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _show(time: timedelta | None) -> Any:
    return 0 if time is None else _tidy(time.total_seconds())


def _show_milliseconds(time: timedelta) -> Any:
    return _tidy(time / timedelta(milliseconds=1))


def _show_limit(limit: int | None) -> int:
    return limit or 0


def _show_ack_mode(individual: bool) -> str:  # noqa: FBT001
    return "individual" if individual else "commit"


# Options that depend on one setting: that setting, and how to show its value.
_SHOWN: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "leaseTime": ("lease", _show),
    "retryDelay": ("backoff", _show_milliseconds),
    "maxSize": ("max_messages", _show_limit),
    "delayedProcessing": ("delay", _show),
    "windowBuffer": ("rest_window", _show),
    "encryptionEnabled": ("encrypted", bool),
    "maxWaitTimeSeconds": ("dead_letter_after", _show),
    "deadLetterQueue": ("keep_dead_letters", bool),
    "dedupWindowSeconds": ("dedup_window", _show),
    "maxBytes": ("max_bytes", int),
    "ackMode": ("individual_acks", _show_ack_mode),
}
