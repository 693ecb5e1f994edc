"""When a periodic job is due: cron's five fields, or six with seconds first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from laneway.domain.errors import InvalidSetting

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

# A leap day that falls on a weekday comes at most every 40 years.
_HORIZON = timedelta(days=366 * 41)


class Cron:
    """Times of day are those of `timezone`; one that a clock change skips fires at the change."""

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        self.expression = expression
        parts = _SHORT.get(expression, expression).lower().split()
        if len(parts) == _FIELDS - 1:
            parts.insert(0, "0")
        if len(parts) != _FIELDS:
            raise InvalidSetting(f"{expression!r} is not a cron expression: it has five fields")
        seconds, minutes, hours, days, months, weekdays = (
            self._parse(part, number) for number, part in enumerate(parts)
        )
        self._seconds, self._minutes, self._hours = sorted(seconds), sorted(minutes), sorted(hours)
        self._days, self._months = days, months
        self._weekdays = {day % 7 for day in weekdays}
        # As cron has it: where both name days, either will do.
        self._either = not (parts[3].startswith("*") or parts[5].startswith("*"))
        try:
            self._zone = ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise InvalidSetting(f"there is no time zone {timezone!r}") from error
        # Better now than when a worker waits for it.
        self.next_after(datetime.now(UTC))

    def next_after(self, moment: datetime) -> datetime:
        """Return the first time after the moment, in UTC."""
        local = moment.astimezone(self._zone).replace(tzinfo=None, microsecond=0)
        start = local + timedelta(seconds=1)
        day = start.replace(hour=0, minute=0, second=0)
        while day < start + _HORIZON:
            if self._has_day(day):
                for found in self._list_times(day, start):
                    due = found.replace(tzinfo=self._zone).astimezone(UTC)
                    if due > moment:
                        return due
            day += timedelta(days=1)
        raise InvalidSetting(f"{self.expression!r} never comes")

    def _has_day(self, day: datetime) -> bool:
        if day.month not in self._months:
            return False
        by_date = day.day in self._days
        by_weekday = day.isoweekday() % 7 in self._weekdays
        return by_date or by_weekday if self._either else by_date and by_weekday

    def _list_times(self, day: datetime, start: datetime) -> list[datetime]:
        """Return the times of one day from the start on, as far as its first hour with any."""
        times: list[datetime] = []
        for hour in self._hours:
            for minute in self._minutes:
                at = day.replace(hour=hour, minute=minute)
                if at + timedelta(minutes=1) <= start:
                    continue
                times += [
                    found
                    for second in self._seconds
                    if (found := at.replace(second=second)) >= start
                ]
                if len(times) > 1:
                    # The second, in case a clock change puts the first before the moment.
                    return times
        return times

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
                    f"{self.expression!r}: {part!r} is no {_NAMES[number]}: {low} to {high}"
                )
            found |= set(range(first, last + 1, step))
        return found

    def _read(self, text: str, number: int) -> int:
        names = {4: _MONTHS, 5: _DAYS}.get(number, [])
        if text in names:
            return names.index(text) + (1 if number == 4 else 0)  # noqa: PLR2004 - months begin at 1
        if not (text.isascii() and text.isdigit()):
            raise InvalidSetting(f"{self.expression!r}: {text!r} is no {_NAMES[number]}")
        return int(text)
