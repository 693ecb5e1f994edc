"""Queue attributes: their valid values, and the settings that store them.

Attributes that the broker implements are its own settings of the queue, so every protocol sees and
sets the same ones. The others are in the queue's options, under "sqs".
"""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from laneway.domain.settings import QueueChanges
from laneway.server.sqs.texts import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from laneway.domain.queues import Queue

# SQS's section of a queue's options.
SECTION = "sqs"
FIFO = ".fifo"

LONGEST_RETENTION = 1_209_600
LARGEST_MESSAGE = 1_048_576
DEFAULT_RETENTION = timedelta(days=4)
MOST_RECEIVES = 1000
MOST_STATEMENTS = 20
MOST_SOURCES = 10

_NUMBERS = {
    "VisibilityTimeout": (0, 43_200),
    "DelaySeconds": (0, 900),
    "MessageRetentionPeriod": (60, LONGEST_RETENTION),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
    "MaximumMessageSize": (1024, LARGEST_MESSAGE),
    "KmsDataKeyReusePeriodSeconds": (60, 86_400),
}
# At least as long as any valid number, with leading zeros.
_NUMBER = re.compile("[0-9]{1,9}")
_FLAGS = {"SqsManagedSseEnabled", "FifoQueue", "ContentBasedDeduplication"}
_KEY, _KEY_PERIOD, _OWN_KEYS = (
    "KmsMasterKeyId",
    "KmsDataKeyReusePeriodSeconds",
    "SqsManagedSseEnabled",
)
_DEFAULT_KEY_PERIOD = "300"
_CHOICES = {
    "DeduplicationScope": ("messageGroup", "queue"),
    "FifoThroughputLimit": ("perQueue", "perMessageGroupId"),
}
# JSON objects; an empty text removes the attribute.
_POLICIES = ("Policy", "RedrivePolicy", "RedriveAllowPolicy")
_TEXTS = ("KmsMasterKeyId",)
_FIFO_ONLY = ("DeduplicationScope", "FifoThroughputLimit")

SETTABLE = frozenset({*_NUMBERS, *_FLAGS, *_CHOICES, *_POLICIES, *_TEXTS})
COUNTS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
READABLE = SETTABLE | {*COUNTS, "CreatedTimestamp", "LastModifiedTimestamp", "QueueArn", "All"}


_REDRIVE_MEMBERS = ("maxReceiveCount", "deadLetterTargetArn")
# arn:partition:service:region:account:resource
_ARN_PARTS = 6


class Change(NamedTuple):
    """The effect of setting attributes: settings of the broker, and SQS's own options."""

    settings: QueueChanges
    options: dict[str, Any]


class Redrive(NamedTuple):
    """The target queue of messages that were received too often."""

    arn: str
    most: int


def is_fifo(queue: Queue) -> bool:
    return queue.settings.ordered and queue.name.endswith(FIFO)


def read_options(queue: Queue) -> Mapping[str, Any]:
    found = queue.settings.options.get(SECTION)
    return found if isinstance(found, dict) else {}


def read_own(queue: Queue) -> Mapping[str, str]:
    """Return the attributes that are stored in the options."""
    return read_options(queue).get("attributes") or {}


def read_tags(queue: Queue) -> Mapping[str, str]:
    return read_options(queue).get("tags") or {}


def read_maximum_size(queue: Queue) -> int:
    own = read_own(queue).get("MaximumMessageSize")
    return int(own) if own is not None else min(queue.settings.max_bytes, LARGEST_MESSAGE)


def has_content_deduplication(queue: Queue) -> bool:
    return read_own(queue).get("ContentBasedDeduplication") == "true"


def read_visibility(queue: Queue) -> int:
    """Return the visibility timeout in seconds, which may be zero."""
    if read_own(queue).get("VisibilityTimeout") == "0":
        return 0
    return max(int(queue.settings.lease.total_seconds()), 1)


def read_wait(queue: Queue) -> int:
    return int(read_own(queue).get("ReceiveMessageWaitTimeSeconds", "0"))


def read_values(attributes: Mapping[str, str], *, fifo: bool, new: bool) -> dict[str, str]:
    """Return validated attributes; refuse unknown ones and invalid values."""
    for name, value in attributes.items():
        if name not in SETTABLE:
            raise Refusal.ATTRIBUTE.fault(name=name)
        if not fifo and name in _FIFO_ONLY:
            raise Refusal.FIFO_ATTRIBUTE.fault(name=name)
        if not fifo and name == "ContentBasedDeduplication":
            raise Refusal.ATTRIBUTE.fault(name=name)
        if name == "FifoQueue" and not (new and is_true(value)):
            if not fifo and (not new or is_false(value)):
                raise Refusal.ATTRIBUTE.fault(name=name)
            if is_false(value):
                raise Refusal.QUEUE_TYPE.fault()
        _check_value(name, value)
    if attributes.get(_KEY) and is_true(attributes.get(_OWN_KEYS, "")):
        raise Refusal.ENCRYPTION.fault()
    return {name: _read_value(name, value) for name, value in attributes.items()}


def is_true(text: str) -> bool:
    """Return whether a flag is set, in any case of letters."""
    return text.lower() == "true"


def is_false(text: str) -> bool:
    return text.lower() == "false"


def check_throughput(attributes: Mapping[str, str]) -> None:
    """Refuse a throughput limit per message group if deduplication covers all groups."""
    if (
        attributes.get("FifoThroughputLimit") == "perMessageGroupId"
        and attributes.get("DeduplicationScope") != "messageGroup"
    ):
        raise Refusal.THROUGHPUT.fault()


def are_equal(name: str, found: str, wanted: str) -> bool:
    """Return whether an attribute has a value, in whatever notation."""
    if name in _POLICIES and found and wanted:
        return _read_policy(name, found) == _read_policy(name, wanted)
    return found == wanted


def plan_change(attributes: Mapping[str, str], target: str | None) -> Change:
    """Return the effect of validated attributes.

    target: the dead-letter queue of their RedrivePolicy, by its name in Laneway.
    """
    settings = QueueChanges()
    own: dict[str, str | None] = {}
    options: dict[str, Any] = {"attributes": own}
    for name, value in attributes.items():
        match name:
            case "VisibilityTimeout":
                # A lease must be positive; with zero, a message is released as soon as it is
                # received.
                own[name] = "0" if int(value) == 0 else None
                if int(value):
                    settings["lease"] = timedelta(seconds=int(value))
            case "DelaySeconds":
                settings["delay"] = timedelta(seconds=int(value)) if int(value) else None
            case "MessageRetentionPeriod":
                settings["message_ttl"] = timedelta(seconds=int(value))
            case "MaximumMessageSize":
                own[name] = value
                settings["max_bytes"] = size_limit(int(value))
            case "DeduplicationScope":
                settings["dedup_scope"] = "partition" if value == "messageGroup" else "queue"
            case "FifoQueue":
                pass
            case "RedrivePolicy":
                own[name] = value or None
                redrive = read_redrive(value) if value else None
                # The receive above the limit is claimed and then not returned.
                settings["max_attempts"] = redrive.most + 1 if redrive else None
                settings["max_receives"] = redrive.most if redrive else None
                settings["dead_letter_queue"] = target
            case _:
                own[name] = value or None
    own |= _plan_encryption(attributes)
    return Change(settings, options)


def _plan_encryption(attributes: Mapping[str, str]) -> dict[str, str | None]:
    """Return what else changes because a queue has one kind of encryption at a time."""
    if attributes.get(_KEY):
        return {_OWN_KEYS: "false"}
    if _KEY in attributes:
        return {_KEY_PERIOD: None}
    if attributes.get(_OWN_KEYS) == "true":
        return {_KEY: None, _KEY_PERIOD: None}
    if attributes.get(_KEY_PERIOD) == _DEFAULT_KEY_PERIOD:
        return {_KEY_PERIOD: None}
    return {}


def size_limit(size: int) -> int:
    """Return how many bytes a body may have as JSON: at most twice its size as XML text."""
    return 2 * size + 2


def read_redrive(text: str) -> Redrive:
    policy = _read_policy("RedrivePolicy", text)
    for member in _REDRIVE_MEMBERS:
        if member not in policy:
            raise Refusal.REDRIVE_MEMBER.fault(value=text, member=member)
    if len(policy) > len(_REDRIVE_MEMBERS):
        raise Refusal.REDRIVE_UNKNOWN.fault(value=text)
    most = policy["maxReceiveCount"]
    try:
        count = int(str(most))
    except ValueError:
        count = 0
    if not 1 <= count <= MOST_RECEIVES:
        raise Refusal.REDRIVE_COUNT.fault(value=text, count=most)
    arn = str(policy["deadLetterTargetArn"])
    parts = arn.split(":")
    if len(parts) != _ARN_PARTS or parts[0] != "arn":
        raise Refusal.REDRIVE_ARN.fault(value=text)
    if parts[2] != "sqs":
        raise Refusal.REDRIVE_SERVICE.fault(value=text)
    return Redrive(arn, count)


def allows_source(queue: Queue, arn: str) -> bool:
    """Return whether a queue accepts dead letters from the queue at `arn`."""
    text = read_own(queue).get("RedriveAllowPolicy")
    policy = json.loads(text) if text else {}
    match policy.get("redrivePermission", "allowAll"):
        case "denyAll":
            return False
        case "byQueue":
            return arn in policy.get("sourceQueueArns", ())
        case _:
            return True


def show_attributes(queue: Queue, arn: str) -> dict[str, str]:
    """Return every attribute that has a value, except the counts."""
    settings = queue.settings
    retention = settings.message_ttl
    shown = {
        "QueueArn": arn,
        "CreatedTimestamp": _show_time(queue.created_at),
        "LastModifiedTimestamp": _show_time(queue.updated_at),
        "VisibilityTimeout": str(read_visibility(queue)),
        "DelaySeconds": str(int(settings.delay.total_seconds()) if settings.delay else 0),
        # A queue that keeps messages without limit shows SQS's maximum.
        "MessageRetentionPeriod": str(
            int(retention.total_seconds()) if retention else LONGEST_RETENTION
        ),
        "ReceiveMessageWaitTimeSeconds": str(read_wait(queue)),
        "MaximumMessageSize": str(read_maximum_size(queue)),
        "SqsManagedSseEnabled": "true",
    }
    if is_fifo(queue):
        shown |= {
            "FifoQueue": "true",
            "ContentBasedDeduplication": "false",
            "DeduplicationScope": (
                "messageGroup" if settings.dedup_scope == "partition" else "queue"
            ),
            "FifoThroughputLimit": "perQueue",
        }
    own = dict(read_own(queue))
    if own.get(_KEY):
        shown[_KEY_PERIOD] = _DEFAULT_KEY_PERIOD
    return shown | own


def _check_value(name: str, value: str) -> None:
    if name in _NUMBERS:
        low, high = _NUMBERS[name]
        if not _NUMBER.fullmatch(value) or not low <= int(value) <= high:
            raise Refusal.VALUE.fault(name=name)
    elif (name in _FLAGS and not (is_true(value) or is_false(value))) or (
        name in _CHOICES and value not in _CHOICES[name]
    ):
        raise Refusal.VALUE.fault(name=name)
    elif name in _POLICIES and value:
        policy = _read_policy(name, value)
        statements = policy.get("Statement")
        if name == "Policy":
            if isinstance(statements, list) and len(statements) > MOST_STATEMENTS:
                raise Refusal.STATEMENTS.fault(count=len(statements))
        elif name == "RedrivePolicy":
            read_redrive(value)
        else:
            _check_allow_policy(value, policy)


def _read_value(name: str, value: str) -> str:
    """Return a valid value as it is stored."""
    if name in _NUMBERS:
        return str(int(value))
    return value.lower() if name in _FLAGS else value


def _check_allow_policy(text: str, policy: Mapping[str, Any]) -> None:
    permission = policy.get("redrivePermission")
    sources = policy.get("sourceQueueArns", [])
    if (
        permission not in ("allowAll", "denyAll", "byQueue")
        or not isinstance(sources, list)
        or not all(isinstance(source, str) for source in sources)
        or not policy.keys() <= {"redrivePermission", "sourceQueueArns"}
    ):
        raise Refusal.ALLOW_FORMAT.fault()
    if permission != "byQueue":
        if sources:
            raise Refusal.ALLOW_SOURCES.fault(value=text)
    elif not sources:
        raise Refusal.ALLOW_NO_SOURCE.fault(value=text)
    elif len(sources) > MOST_SOURCES:
        raise Refusal.ALLOW_MANY_SOURCES.fault(value=text)


def _read_policy(name: str, text: str) -> dict[str, Any]:
    try:
        policy = json.loads(text)
    except (ValueError, RecursionError):
        policy = None
    if not isinstance(policy, dict) or "\\u0000" in text:
        if name == "Policy":
            raise Refusal.VALUE.fault(name=name)
        raise (Refusal.REDRIVE_JSON if name == "RedrivePolicy" else Refusal.ALLOW_FORMAT).fault()
    return policy


def _show_time(moment: datetime) -> str:
    return str(int(moment.timestamp()))
