"""Cron expressions: five fields, or six with seconds first, and the times they stand for."""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from laneway.domain.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterator

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_RANGES = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES = ["second", "minute", "hour", "day", "month", "weekday"]
_SHORT = {
    "@yearly": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = 6

# A leap day falls on a given weekday at least once in 40 years.
_HORIZON = timedelta(days=366 * 41)

# No clock change is larger.
_NEAR = timedelta(hours=3)


class Cron:
    """The times of a cron expression, in `timezone`. A time that a clock change skips fires at the change.

    In an hour that occurs twice, a job for every hour or every nth hour (* or */n) fires both times,
    any other job the first time.
    """

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        self.expression = expression
        parts = _SHORT.get(expression, expression).lower().split()
        if len(parts) == _FIELDS - 1:
            parts.insert(0, "0")
        if len(parts) != _FIELDS:
            raise InvalidSetting(
                f"{expression!r} is not a cron expression: use five fields, or six with seconds first"
            )
        seconds, minutes, hours, days, months, weekdays = (
            self._parse(part, number) for number, part in enumerate(parts)
        )
        self._seconds, self._minutes, self._hours = sorted(seconds), sorted(minutes), sorted(hours)
        self._days, self._months = days, months
        self._weekdays = {day % 7 for day in weekdays}
        self._folds = (0, 1) if parts[2].startswith("*") else (0,)
        # As in cron: if both fields restrict the day, a day that matches either is due.
        self._either = not (parts[3].startswith("*") or parts[5].startswith("*"))
        try:
            self._zone = ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
            raise InvalidSetting(
                f"time zone {timezone!r} not found: use an IANA name, such as Europe/Berlin"
            ) from error
        # An expression that never matches is refused now, not in a running worker.
        self.next_after(datetime.now(UTC))

    def next_after(self, moment: datetime) -> datetime:
        """Return the first due time after the moment, in UTC."""
        local = self._show(moment).replace(microsecond=0)
        if self._show(moment - _NEAR) + _NEAR * 2 == self._show(moment + _NEAR):
            starts = {0: local + timedelta(seconds=1)}
        else:
            # The clock changes near here, so a local time may occur twice.
            starts = {fold: self._find_start(moment, fold=fold) for fold in self._folds}
        due = [
            self._place(at, fold=fold)
            for fold, start in starts.items()
            if (at := next(self._list_times(start), None)) is not None
        ]
        if not due:
            raise InvalidSetting(f"{self.expression!r} matches no date: check its day and month")
        return min(due)

    def _find_start(self, moment: datetime, *, fold: int) -> datetime:
        """Return the first local time that the clock shows or skips after the moment."""
        begin = self._show(moment).replace(microsecond=0) - _NEAR
        # Bisection works because within one fold, later local times are never earlier in UTC.
        seconds = range(int(_NEAR.total_seconds()) * 2)
        passed = bisect_left(
            seconds,
            True,  # noqa: FBT003 - the value to find
            key=lambda n: self._place(begin + timedelta(seconds=n), fold=fold) > moment,
        )
        return begin + timedelta(seconds=passed)

    def _show(self, moment: datetime) -> datetime:
        """Return the local time at a moment."""
        return moment.astimezone(self._zone).replace(tzinfo=None)

    def _place(self, at: datetime, *, fold: int) -> datetime:
        """Return in UTC when the clock shows a local time, or skips it."""
        found = at.replace(tzinfo=self._zone, fold=fold).astimezone(UTC)
        if self._show(found) == at:
            return found
        # Skipped: search between its UTC times by the offsets before and after the change.
        early, late = (at.replace(tzinfo=self._zone, fold=fold).astimezone(UTC) for fold in (1, 0))
        while late - early > timedelta(seconds=1):
            middle = early + timedelta(seconds=(late - early) // timedelta(seconds=2))
            early, late = (early, middle) if self._show(middle) > at else (middle, late)
        return late

    def _has_day(self, day: datetime) -> bool:
        if day.month not in self._months:
            return False
        by_date = day.day in self._days
        by_weekday = day.isoweekday() % 7 in self._weekdays
        return by_date or by_weekday if self._either else by_date and by_weekday

    def _list_times(self, start: datetime) -> Iterator[datetime]:
        """Yield the matching local times from `start` on."""
        day = start.replace(hour=0, minute=0, second=0)
        while day < start + _HORIZON:
            if self._has_day(day):
                for hour in self._hours:
                    if day + timedelta(hours=hour + 1) <= start:
                        continue
                    for minute in self._minutes:
                        at = day.replace(hour=hour, minute=minute)
                        if at + timedelta(minutes=1) <= start:
                            continue
                        for second in self._seconds:
                            found = at.replace(second=second)
                            if found >= start:
                                yield found
            day += timedelta(days=1)

    def _parse(self, text: str, number: int) -> set[int]:
        low, high = _RANGES[number]
        found: set[int] = set()
        for part in text.split(","):
            span, slash, step_text = part.partition("/")
            step = self._read(step_text, number) if slash else 1
            if span == "*":
                first, last = low, high
            else:
                begin, dash, end = span.partition("-")
                first = self._read(begin, number)
                last = self._read(end, number) if dash else high if slash else first
            if not (low <= first <= last <= high and step > 0):
                raise InvalidSetting(
                    f"{self.expression!r}: {part!r} is not a valid {_NAMES[number]}: use {low} to {high}"
                )
            found |= set(range(first, last + 1, step))
        return found

    def _read(self, text: str, number: int) -> int:
        names = {4: _MONTHS, 5: _DAYS}.get(number, [])
        if text in names:
            return names.index(text) + (1 if number == 4 else 0)  # noqa: PLR2004 - months start at 1
        if not (text.isascii() and text.isdigit()):
            raise InvalidSetting(f"{self.expression!r}: {text!r} is not a valid {_NAMES[number]}")
        return int(text)
