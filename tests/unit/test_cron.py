"""When periodic jobs are due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from laneway.domain.errors import InvalidSetting
from laneway.worker.cron import Cron


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "after", "due"),
    [
        ("* * * * *", "2026-01-01 00:00:00", "2026-01-01 00:01:00"),
        ("*/15 * * * *", "2026-01-01 00:15:00", "2026-01-01 00:30:00"),
        ("0 9-17/4 * * *", "2026-01-01 13:00:00", "2026-01-01 17:00:00"),
        ("30 4 1,15 * *", "2026-01-01 04:30:00", "2026-01-15 04:30:00"),
        ("0 0 29 2 *", "2026-01-01 00:00:00", "2028-02-29 00:00:00"),
        ("0 0 * * mon", "2026-01-01 00:00:00", "2026-01-05 00:00:00"),
        ("0 0 * * 7", "2026-01-01 00:00:00", "2026-01-04 00:00:00"),
        ("0 0 13 * fri", "2026-01-03 00:00:00", "2026-01-09 00:00:00"),
        ("0 12 * jan-mar *", "2026-03-31 12:00:00", "2027-01-01 12:00:00"),
        ("@hourly", "2026-12-31 23:10:00", "2027-01-01 00:00:00"),
        ("*/20 * * * * *", "2026-01-01 00:00:21", "2026-01-01 00:00:40"),
        ("0 0 1 1 *", "2026-01-01 00:00:00", "2027-01-01 00:00:00"),
    ],
)
def test_next_time(expression: str, after: str, due: str) -> None:
    assert Cron(expression).next_after(at(after)) == at(due)


def test_every_time_of_a_day_fires_once() -> None:
    cron, now, seen = Cron("*/7 */5 * * *"), at("2026-05-05 00:00:00") - timedelta(seconds=1), []
    while (now := cron.next_after(now)) < at("2026-05-06 00:00:00"):
        seen.append(now)
    expected = [
        at("2026-05-05 00:00:00") + timedelta(hours=hour, minutes=minute)
        for hour in range(0, 24, 5)
        for minute in range(0, 60, 7)
    ]
    assert seen == expected


def test_clock_changes_neither_double_nor_drop_a_day() -> None:
    cron = Cron("30 2 * * *", "Europe/Berlin")
    now, seen = at("2026-03-27 12:00:00"), []
    for _ in range(4):
        now = cron.next_after(now)
        seen.append(now)
    # On the 29th, 02:30 does not exist: it fires at 02:00, which is 03:00.
    assert [moment.strftime("%d %H:%M") for moment in seen] == [
        "28 01:30",
        "29 01:00",
        "30 00:30",
        "31 00:30",
    ]
    now = cron.next_after(at("2026-10-24 12:00:00"))
    assert (now, cron.next_after(now)) == (at("2026-10-25 00:30:00"), at("2026-10-26 01:30:00"))


@pytest.mark.parametrize(
    ("expression", "times"),
    [
        ("*/20 * * * *", 3 * 5),
        ("*/20 */2 * * *", 3 * 3),  # 0, twice 2
        ("*/20 2 * * *", 3),
        ("*/20 0-3 * * *", 3 * 4),
        ("15 * * * *", 5),
    ],
)
def test_repeated_hour_fires_twice_for_hourly_schedules(expression: str, times: int) -> None:
    """Also for one that begins to look in the middle of it."""
    cron = Cron(expression, "Europe/Berlin")
    now, seen = at("2026-10-24 21:59:59"), []
    while (now := cron.next_after(now)) < at("2026-10-25 03:00:00"):
        seen.append(now)
    assert len(set(seen)) == len(seen) == times
    for minute in range(5 * 60):
        moment = at("2026-10-24 22:00:00") + timedelta(minutes=minute)
        later = [each for each in seen if each > moment]
        if later:
            assert cron.next_after(moment) == later[0]


@pytest.mark.parametrize("change", ["2026-10-25 01:00:00", "2026-03-29 01:00:00"])
def test_clock_change_costs_a_schedule_of_every_second_no_time(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is computed on the worker's loop, each second for hours around the change."""
    cron, moment = Cron("* * * * * *", "Europe/Berlin"), at(change) - timedelta(minutes=30)
    placed: list[datetime] = []
    place = Cron._place

    def count(self: Cron, time: datetime, *, fold: int) -> datetime:
        placed.append(time)
        return place(self, time, fold=fold)

    monkeypatch.setattr(Cron, "_place", count)
    assert cron.next_after(moment) == moment + timedelta(seconds=1)
    assert len(placed) < 100


@pytest.mark.parametrize("change", ["2026-10-25 01:00:00", "2026-03-29 01:00:00"])
def test_every_second_around_a_clock_change_fires_once(change: str) -> None:
    cron, moment = Cron("* * * * * *", "Europe/Berlin"), at(change) - timedelta(seconds=30)
    for _ in range(60):
        due = cron.next_after(moment)
        assert due == moment + timedelta(seconds=1)
        moment = due


def test_skipped_times_fire_once_at_the_clock_change() -> None:
    cron = Cron("*/20 * * * *", "Europe/Berlin")
    now, seen = at("2026-03-29 00:30:00"), []
    for _ in range(3):
        now = cron.next_after(now)
        seen.append(now.strftime("%H:%M"))
    assert seen == ["00:40", "01:00", "01:20"]


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "a * * * *",
        "*/0 * * * *",
        "5-2 * * * *",
        "* * * * * * *",
    ],
)
def test_invalid_schedule_is_refused(expression: str) -> None:
    with pytest.raises(InvalidSetting):
        Cron(expression)


def test_impossible_day_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="matches no date"):
        Cron("0 0 31 2 *").next_after(at("2026-01-01 00:00:00"))


def test_unknown_time_zone_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="Mars"):
        Cron("* * * * *", "Mars/Base")
