"""Checks of callers' arguments before anything is sent, with the same errors on every transport."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from laneway.domain.errors import InvalidRequest, InvalidSetting
from laneway.domain.ids import MessageId
from laneway.domain.messages import LARGEST_PRIORITY, LONGEST_TIME, require_level
from laneway.domain.settings import QueueChanges, QueueSettings
from laneway.library.messages import Message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import StrEnum

    from laneway.domain.settings import Target

E = TypeVar("E", bound="StrEnum")

_LARGEST_COUNT = 2**31 - 1
_LONGEST_SHOWN = 60
_NOTHING = timedelta(0)


@contextmanager
def settings_of(owner: str) -> Iterator[None]:
    """Raise the checks' errors as InvalidSetting, with the setting's owner."""
    try:
        yield
    except InvalidRequest as error:
        raise InvalidSetting(f"{owner}: {error}") from None


def check_text(value: object, what: str) -> str:
    """Return a text that the database can store."""
    if not isinstance(value, str):
        raise InvalidRequest(f"{what} is {_show(value)}: use a str")
    if "\0" in value or not (value.isascii() or _is_unicode(value)):
        raise InvalidRequest(
            f"{what} is {_show(value)}: remove NUL characters and unpaired surrogates"
        )
    return value


def check_step(value: object) -> str:
    """Return the name of a manual step. Other steps have a "#" in their keys."""
    name = check_text(value, "step name")
    if not name or "#" in name:
        raise InvalidRequest(f'step name is {name!r}: use a text without "#"')
    return name


def check_optional_text(value: object, what: str) -> str | None:
    return None if value is None else check_text(value, what)


def check_priority(value: object) -> int:
    # True and 1.0 would pass a comparison.
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequest(f"priority is {_show(value)}: use a whole number")
    if not 0 <= value <= LARGEST_PRIORITY:
        raise InvalidRequest(f"priority is {value}: use 0 to {LARGEST_PRIORITY}")
    return value


def check_priority_level(value: object, levels: int) -> int:
    """Return the priority of a new message, which must be below the number of levels."""
    if isinstance(value, int) and not isinstance(value, bool):
        require_level(value, levels)
    return check_priority(value)


def check_count(value: object, what: str) -> int:
    """Return a whole number within the database's range; its lower limit is the caller's to check."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequest(f"{what} is {_show(value)}: use a whole number")
    if not -_LARGEST_COUNT <= value <= _LARGEST_COUNT:
        raise InvalidRequest(f"{what} is {value}: use {_LARGEST_COUNT} at most")
    return value


def check_least(value: object, what: str, least: int) -> int:
    number = check_count(value, what)
    if number < least:
        raise InvalidRequest(f"{what} is {number}: set {least} or more")
    return number


def check_number(value: object, what: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise InvalidRequest(f"{what} is {_show(value)}: use a number")
    return value


def check_page(value: object, what: str) -> int:
    """Return a limit or an offset of a list."""
    number = check_count(value, what)
    if number < 0:
        raise InvalidRequest(f"{what} is {number}: use 0 or more")
    return number


def check_duration(value: object, what: str) -> timedelta:
    if not isinstance(value, timedelta):
        raise InvalidRequest(
            f"{what} is {_show(value)}: use a timedelta, such as timedelta(seconds=5)"
        )
    return value


def check_optional_duration(value: object, what: str) -> timedelta | None:
    return None if value is None else check_duration(value, what)


def check_time(value: object, what: str) -> timedelta:
    """Return a duration that is added to a point in time, such as a delay or a lease duration."""
    duration = check_duration(value, what)
    if abs(duration) > LONGEST_TIME:
        raise InvalidRequest(
            f"{what} is {duration.days} days: use {LONGEST_TIME.days} days (1000 years) at most"
        )
    return duration


def check_optional_time(value: object, what: str) -> timedelta | None:
    return None if value is None else check_time(value, what)


def check_many(value: object, what: str) -> Iterable[object]:
    """Return several values; refuse a text or mapping, which is iterable but one value."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | bytearray | Mapping):
        raise InvalidRequest(f"{what} is {_show(value)}: use a list")
    return value


def check_lock(value: object, what: str) -> timedelta:
    """Return a lease duration, which must be positive."""
    duration = check_time(value, what)
    if duration <= _NOTHING:
        raise InvalidRequest(
            f"{what} is {duration.total_seconds():g} s: a lease must be positive; to return a message, "
            "use release"
        )
    return duration


def check_choice(value: object, kind: type[E], what: str) -> E:
    try:
        return kind(cast("str", value))
    except ValueError:
        choices = ", ".join(item.value for item in kind)
        raise InvalidRequest(f"{what} is {_show(value)}: use one of {choices}") from None


def read_id(value: object) -> MessageId:
    """Return the id of a message, given as the message, its id, or the id's text."""
    match value:
        case MessageId():
            return value
        case Message():
            return value.id
        case str():
            return MessageId.parse(value)
    raise InvalidRequest(
        f"{_show(value)} is not a message: use a message that was dequeued, or its id"
    )


def check_settings(value: object) -> QueueSettings:
    if not isinstance(value, QueueSettings):
        raise InvalidSetting(f"settings is {_show(value)}: use a QueueSettings")
    _check_kinds({name: getattr(value, name) for name in value.__dataclass_fields__}, QueueSettings)
    return value


def check_changes(value: QueueChanges) -> QueueChanges:
    if not isinstance(value, dict):
        raise InvalidSetting(
            f'changes is {_show(value)}: use a dict, such as {{"max_attempts": 5}}'
        )
    for name in value:
        if name in {"kind", "ordered"}:
            raise InvalidSetting(f'setting "{name}" cannot be changed after the queue was created')
        if name not in QueueChanges.__annotations__:
            raise InvalidSetting(f'setting "{name}" is unknown')
    _check_kinds(value, QueueChanges)
    return value


def _check_kinds(values: Mapping[str, Any], kind: type) -> None:
    """Check settings against their types, as the server does."""
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidSetting(f'setting "{name}" is {value}: use a finite number')
    try:
        msgspec.convert(values, kind)
        # Only options that both transports encode, and encode alike.
        msgspec.json.encode(values.get("options"))
        json.dumps(values.get("options"), allow_nan=False)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise InvalidSetting(f"a setting has the wrong type: {error}") from None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _show(value: object) -> str:
    """Describe a value for an error; a long one by its type only."""
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_SHOWN else f"a {type(value).__name__}"


def check_optional_moment(value: object, what: str) -> datetime | None:
    """Return a point in time, which must have a time zone."""
    return None if value is None else check_moment(value, what)


def check_moment(value: object, what: str) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidRequest(f"{what} is {_show(value)}: use a datetime with a time zone")
    return value


def check_place(value: object) -> tuple[Target, datetime | None, int | None]:
    """Return where a group seeks to, as the broker's calls take it."""
    match value:
        case "earliest" | "latest":
            return value, None, None
        case datetime():
            return "time", check_optional_moment(value, "time to seek to"), None
        case int() if not isinstance(value, bool):
            return "seq", None, check_least(value, "sequence number", 1)
        case _:
            raise InvalidRequest(
                f'place to seek to is {_show(value)}: use "earliest", "latest", a datetime or a'
                " sequence number"
            )


def find_delay(delay: timedelta | None, at: datetime | None) -> timedelta | None:
    """Return how long a message is delayed, by this program's clock if until a moment."""
    if at is None:
        return delay
    if delay is not None:
        raise InvalidRequest("delay and at are both given: use one of them")
    check_optional_moment(at, "at")
    return max(at - datetime.now(UTC), timedelta(0))
