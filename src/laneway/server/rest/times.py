"""Times and intervals in the formats that clients write."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, TypeAlias

from msgspec import Meta

from laneway.server.errors import InvalidInput, Issue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MomentText: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        description="ISO 8601 date or time (UTC unless it names a zone), Unix seconds or milliseconds.",
        extra_json_schema={"format": "date-time"},
    ),
]
IntervalText: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=r"^(\d{1,6} *(second|sec|minute|min|hour|day|week|month|mon|year)s? *)*"
        r"(\d{1,4}:[0-5]\d(:[0-5]\d)?)?(?!\n)$",
        description="PostgreSQL's interval format: `7 days`, `1 day 12:00:00`; at most 100 years.",
    ),
]

_NUMBER = re.compile(r"-?\d{1,16}(\.\d{1,9})?", re.ASCII)
# From this value on, a number counts milliseconds: as seconds it would be the year 5138.
_MILLISECONDS = 100_000_000_000
_PARTS = re.compile(r"(\d+) *(sec|min|hour|day|week|mon|year)", re.ASCII)
_CLOCK = re.compile(r"(\d+):(\d+)(?::(\d+))?$", re.ASCII)
_UNITS = {
    "sec": timedelta(seconds=1),
    "min": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
    "mon": timedelta(days=30),
    "year": timedelta(days=365),
}
_LONGEST = timedelta(days=36_500)
_NEVER = datetime.max.replace(tzinfo=UTC)
_EPOCH = datetime.fromtimestamp(0, UTC)
_MILLISECOND = timedelta(milliseconds=1)
_HALF = _MILLISECOND / 2
# Decimals without trailing zeros.
_THOUSANDTHS = [f"{n:03}".rstrip("0") or "0" for n in range(1000)]


def read_moment(text: str, name: str) -> datetime:
    """Return the time; `name` is the parameter that it came in."""
    try:
        if _NUMBER.fullmatch(text):
            number = float(text)
            seconds = number / 1000 if abs(number) >= _MILLISECONDS else number
            return datetime.fromtimestamp(seconds, UTC)
        # Decoding a query turns a plus sign into a space.
        moment = datetime.fromisoformat(text.strip().replace(" ", "+") if "T" in text else text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise _refuse("invalid_date", (name,), "Invalid date") from None


def read_interval(text: str, name: str) -> timedelta:
    clock = _CLOCK.search(text)
    try:
        length = sum((int(n) * _UNITS[unit] for n, unit in _PARTS.findall(text)), timedelta(0))
        if clock is not None:
            hours, minutes, seconds = (int(part or 0) for part in clock.groups())
            length += timedelta(hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        length = timedelta.max
    if length > _LONGEST:
        raise _refuse("too_big", (name,), "An interval must be at most 100 years")
    return length


def show_interval(length: timedelta | None) -> str | None:
    """Return the interval in whole seconds, in the format that read_interval accepts."""
    if length is None:
        return None
    minutes, seconds = divmod(length.seconds, 60)
    clock = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
    if not length.days:
        return clock
    days = f"{length.days} day" if length.days == 1 else f"{length.days} days"
    return f"{days} {clock}" if length.seconds else days


def show_seconds(length: timedelta) -> float:
    """Return seconds, as an integer if they are whole."""
    seconds = length.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def to_unix(moment: datetime) -> float:
    """Return Unix seconds to the millisecond."""
    return (moment - _EPOCH + _HALF) // _MILLISECOND / 1000


class UnixWriter:
    """Writes Unix seconds as JSON; fast if most times share a second."""

    def __init__(self) -> None:
        self._second = _NEVER
        self._written = ""

    def write(self, moments: Iterable[datetime]) -> list[str]:
        return [self._write(moment) for moment in moments]

    def _write(self, moment: datetime) -> str:
        since = moment - self._second
        thousandths = (since.microseconds + 500) // 1000
        if since.seconds or since.days or thousandths == len(_THOUSANDTHS):
            if moment < _EPOCH:
                return repr(to_unix(moment))
            rounded = moment + _HALF
            self._second = rounded.replace(microsecond=0)
            self._written = f"{int(self._second.timestamp())}."
            thousandths = rounded.microsecond // 1000
        return self._written + _THOUSANDTHS[thousandths]


def _refuse(code: str, path: Sequence[str], message: str) -> InvalidInput:
    return InvalidInput([Issue(code, path, message)])
